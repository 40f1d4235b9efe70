"""Damage: what a fault does to a sound repository, and how its user tells of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from machine.agentic.chance import Chance
from machine.agentic.project import Project


@dataclass(frozen=True)
class Damage:
    """`changes`: what files become (path -> content); `told`: a sentence that says what is seen, not what is wrong.

    A repair may change those files and `elsewhere`, further paths where a right repair may lie as well.
    """

    changes: Mapping[str, bytes]
    told: str
    elsewhere: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Fault:
    """A kind of fault: the kinds of store that it needs in the project (empty: any), and what breaks it by chance."""

    breaks: Callable[[Chance, Project], Damage]
    stores: tuple[str, ...] = ()


Lines = list[str]
Break = Callable[[Chance, Lines], list[Lines]]
"""The ways to break a text in one manner: each the lines that it becomes; none where it does not apply."""


def broken(chance: Chance, text: str, breaks: Mapping[str, Break], wrong: Callable[[str], bool]) -> tuple[str, str]:
    """The manner, and the text broken in it, of those of which `wrong` says that they are.

    Raises:
        ValueError: no manner applies.
    """
    for manner in chance.shuffled(sorted(breaks)):
        ways = breaks[manner](chance, text.splitlines())
        found = [each for each in ("\n".join(way) + "\n" for way in ways) if each != text and wrong(each)]
        if found:
            return manner, chance.pick(found)
    raise ValueError("nothing in this text can be broken")


def swapped(lines: Lines, at: int, *new: str) -> Lines:
    """The lines with others in place of one."""
    return [*lines[:at], *new, *lines[at + 1 :]]
