"""Pairs: a rejected turn and the good one that answers it, in one context, for training on preferences (DPO and such).

A line is a JSON object: `prompt` are the Tinker chat messages that both turns began with, `chosen` and `rejected` how
each went on, `tools` the schemas; `targets` say which of those messages the agent answers for (the others are results
of tools, or cannot be learnt from). A good turn that began in another context (the user's own words of what was wrong
stand in it) is no pair, and neither is one that was tagged otherwise since; they are named as left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import msgspec

from machine.correction.ledger import Correction
from machine.correction.link import same_context
from machine.trace import Row


class Pair(msgspec.Struct, frozen=True):
    """One preference: messages of Tinker's chat form, and where they come from."""

    correction: str
    prompt: tuple[dict[str, Any], ...]
    chosen: tuple[dict[str, Any], ...]
    rejected: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    targets: tuple[tuple[int, ...], tuple[int, ...]]
    """Indices into `chosen` and into `rejected` of what is to be preferred and what is not."""
    rows: tuple[str, str]
    """The ids of the chosen and of the rejected row."""
    version: int = 1


@dataclass(frozen=True)
class LeftOut:
    """A correction that makes no pair, and why."""

    correction: str
    why: str


def pairs(
    corrections: Iterable[Correction], find: Callable[[Sequence[str]], list[Row]], good: Set[str]
) -> Iterator[Pair | LeftOut]:
    """A pair, or why there is none, for every correction.

    `find` gives rows of the pool by their ids, without those that are gone; `good` are the ids of good rows in force.
    """
    for correction in corrections:
        link = correction.link
        if correction.state == "dropped":
            yield LeftOut(correction.id, "it was dropped")
        elif link is None:
            yield LeftOut(correction.id, f"no good turn answers it yet ({correction.state})")
        elif len(bad := find(correction.opened.rows)) < len(correction.opened.rows):
            yield LeftOut(correction.id, "its rejected turn is no longer in the pool")
        elif not good >= {*link.rows}:
            yield LeftOut(correction.id, "its good turn is no longer in the pool, or was tagged otherwise since")
        else:
            yield _pair(correction.id, bad, find(link.rows))


def _pair(correction: str, bad: Sequence[Row], good: Sequence[Row]) -> Pair | LeftOut:
    if len(good) > 1:
        return LeftOut(correction, "the context changed in the middle of the good turn")
    if not same_context(bad, good):
        return LeftOut(correction, "the good turn began in another context")
    if not same_context(bad[-1:], good):
        return LeftOut(correction, "the context changed in the middle of the rejected turn")
    [chosen], rejected = good, bad[-1]
    at = chosen.target[0]
    return Pair(
        correction=correction,
        prompt=chosen.messages[:at],
        chosen=chosen.messages[at:],
        rejected=rejected.messages[at:],
        tools=chosen.tools,
        targets=(_after(at, chosen), _after(at, rejected)),
        rows=(chosen.id, rejected.id),
    )


def _after(at: int, row: Row) -> tuple[int, ...]:
    return tuple(target - at for target in row.target if target >= at)
