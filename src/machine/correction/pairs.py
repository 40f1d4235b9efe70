"""Pairs: a rejected turn and the good one that answers it, in one context, for training on preferences (DPO and such).

A line is a JSON object: `prompt` are the Tinker chat messages that both turns began with, `chosen` and `rejected` how
each went on, `tools` the schemas. A good turn that began in another context (the user's own words of what was wrong
stand in it) is no pair, and is named as left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from machine.correction.ledger import Correction, Linked
from machine.correction.link import same_context
from machine.trace import Row


class Pair(msgspec.Struct, frozen=True):
    """One preference: messages of Tinker's chat form, and where they come from."""

    correction: str
    prompt: tuple[dict[str, Any], ...]
    chosen: tuple[dict[str, Any], ...]
    rejected: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    rows: tuple[str, str]
    """The ids of the chosen and of the rejected row."""
    version: int = 1


@dataclass(frozen=True)
class LeftOut:
    """A correction that makes no pair, and why."""

    correction: str
    why: str


def pairs(corrections: Iterable[Correction], row: Callable[[str], Row]) -> Iterator[Pair | LeftOut]:
    """A pair, or why there is none, for every correction. `row` finds a row of the pool by its id.

    Raises:
        Refused: a row that the ledger names is not in the pool.
    """
    for correction in corrections:
        linked = correction.of(Linked)
        if correction.state == "dropped":
            yield LeftOut(correction.id, "it was dropped")
        elif not linked:
            yield LeftOut(correction.id, f"no good turn answers it yet ({correction.state})")
        else:
            bad = [row(id) for id in correction.opened.rows]
            yield _pair(correction.id, bad, [row(id) for id in linked[-1].rows])


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
        rows=(chosen.id, rejected.id),
    )
