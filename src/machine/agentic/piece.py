"""Piece: a module of a made repository with its tests, and the slips by which it can go wrong.

A `Plan` is its pattern. In a pattern's texts, what stands between « and » is a Python expression over the plan's words
and numbers, the theme's `thing`, `things`, `items` and `groups`, `name(at)`, one of the items as Python text, and
`draw(low, high)`, a number by chance. What the tests expect is what the rendered, right module gives.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from machine.agentic.chance import Chance
from machine.agentic.theme import Theme

Kind = Literal["edit", "constant"]
Tests = Mapping[str, Sequence[str]]
"""The names of tests, without "test_", and the statements of each."""


@dataclass(frozen=True)
class Slip:
    """A wrong edit: `right`, which occurs once in the module, became `wrong`. The visible tests show it."""

    kind: Kind
    right: str
    wrong: str


@dataclass(frozen=True)
class Piece:
    """A module `module` (without ".py") of the package, the data files that it reads, its tests, what the README says.

    `names` are the functions that the tests import; `hidden` tests are for the judging alone. `sample` is a call of the
    module and what it gives, both as Python text, for the report; empty where there is none.
    """

    module: str
    source: str
    names: tuple[str, ...]
    tests: Tests
    hidden: Tests
    says: str
    files: Mapping[str, str] = field(default_factory=dict)
    slips: tuple[Slip, ...] = ()
    sample: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Plan:
    """The pattern of a piece: names to choose from, numbers within (low, high), and texts (see the module's head).

    `words` has one key for every function, by which the other texts call it. `calls` and `hidden` are expressions that
    call one of them first; `slips` are (kind, right, wrong).
    """

    modules: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    numbers: Mapping[str, tuple[int, int]]
    source: str
    calls: tuple[str, ...]
    hidden: tuple[str, ...]
    slips: tuple[tuple[Kind, str, str], ...]
    says: str


def made(plan: Plan, chance: Chance, theme: Theme) -> Piece:
    """The piece that chance makes of the plan."""
    known: dict[str, Any] = {"thing": theme.thing, "things": theme.things, "draw": chance.between}
    module = chance.pick(plan.modules)
    known |= {key: chance.pick(options) for key, options in plan.words.items()}
    known |= {key: chance.between(low, high) for key, (low, high) in plan.numbers.items()}
    known |= {"items": chance.shuffled(theme.items), "groups": chance.shuffled(theme.groups)}
    known["name"] = lambda at: repr(known["items"][at])

    def filled(text: str) -> str:
        return re.sub("«([^«»]+)»", lambda found: str(eval(found[1], dict(known))), text)

    source = filled(plan.source).lstrip("\n")
    calls = [filled(call) for call in plan.calls]
    right = outcomes(source, calls)
    slips = [Slip(kind, filled(good), filled(bad)) for kind, good, bad in plan.slips]
    hidden = [filled(call) for call in plan.hidden]
    return Piece(
        module=module,
        source=source,
        names=tuple(name for name in (known[key] for key in plan.words) if f"def {name}(" in source),
        tests=_tests(calls, right),
        hidden=_tests(hidden, outcomes(source, hidden)),
        says=filled(plan.says),
        slips=tuple(slip for slip in slips if _shown(source, slip, calls, right)),
        sample=next((call, text) for call, (_, text) in zip(calls, right, strict=True)),
    )


def outcomes(source: str, calls: Sequence[str]) -> list[tuple[bool, str]]:
    """What each call gives: (True, its value as Python text) or (False, the name of its exception)."""
    known: dict[str, Any] = {}
    exec(source, known)
    return [_outcome(call, known) for call in calls]


def _outcome(call: str, known: dict[str, Any]) -> tuple[bool, str]:
    try:
        return True, repr(eval(call, known))
    except Exception as error:
        return False, type(error).__name__


def slipped(source: str, slip: Slip) -> str:
    """The source with the slip in it.

    Raises:
        ValueError: what is right is not there once.
    """
    if source.count(slip.right) != 1:
        raise ValueError(f"{slip.right!r} is there {source.count(slip.right)} times, not once")
    return source.replace(slip.right, slip.wrong)


def _shown(source: str, slip: Slip, calls: Sequence[str], right: Sequence[tuple[bool, str]]) -> bool:
    return outcomes(slipped(source, slip), calls) != list(right)


def _tests(calls: Sequence[str], found: Sequence[tuple[bool, str]]) -> Tests:
    tests: dict[str, list[str]] = {}
    for call, (fine, text) in zip(calls, found, strict=True):
        said = f"self.assertEqual({call}, {text})" if fine else f"self.assertRaises({text}, lambda: {call})"
        tests.setdefault(re.findall(r"\w+", call)[0], []).append(said)
    return tests
