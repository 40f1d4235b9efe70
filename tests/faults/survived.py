"""Survived: what a scenario says of a fault, and how it is shown.

A scenario is a function of a `Ground`. It lets something happen to the real parts, looks, and returns a `Survived`: what
was acknowledged and is still there, what came next, what the user was told. Each is a `Cell` that says what was looked
for and whether it holds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ground import Ground


@dataclass(frozen=True)
class Cell:
    """What ought to be, whether it is, and what was found instead where it is not."""

    text: str
    holds: bool
    found: Any = None

    def __str__(self) -> str:
        return self.text if self.holds else f"NOT SO: {self.text}; found: {self.found!r}"


@dataclass(frozen=True)
class Survived:
    """One row of the table."""

    done: str
    kept: Cell
    after: Cell
    message: Cell

    @property
    def faults(self) -> list[str]:
        """The cells that do not hold."""
        return [str(cell) for cell in (self.kept, self.after, self.message) if not cell.holds]


@dataclass(frozen=True)
class Scenario:
    """A fault by name; `slow` ones run with the table and not with `make test`. `known`: why it is not survived yet."""

    fault: str
    play: "Callable[[Ground], Survived]"
    slow: bool = False
    known: str = ""

    @property
    def id(self) -> str:
        """Its name for pytest."""
        return self.play.__name__


def scenario(
    fault: str, *, slow: bool = False, known: str = ""
) -> "Callable[[Callable[[Ground], Survived]], Scenario]":
    """Makes a function the scenario of `fault`."""
    return lambda play: Scenario(fault, play, slow, known)


def of(module: Any) -> list[Scenario]:
    """The scenarios of a module, in the order in which they stand there."""
    return [value for value in vars(module).values() if isinstance(value, Scenario)]


def equal(text: str, found: Any, wanted: Any) -> Cell:
    """A cell that holds where both are equal."""
    return Cell(text, found == wanted, found)


def holds(text: str, checks: dict[str, bool]) -> Cell:
    """A cell that holds where every check does; else it names those that fail."""
    return Cell(text, all(checks.values()), [name for name, good in checks.items() if not good])


def says(found: str, *wanted: str) -> Cell:
    """A cell that holds where a message has all these parts, which it shows."""
    return Cell(" … ".join(wanted), all(part in found for part in wanted), found)


def quiet(text: str = "nothing is said, and nothing need be") -> Cell:
    """The message of a fault that nobody notices."""
    return Cell(text, True)
