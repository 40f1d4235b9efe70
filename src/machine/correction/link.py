"""Link: which pending correction a good turn answers, by what the rows hold.

A good turn answers a correction where it began in the same context with the same words (the turn done again, by the
teacher or by the user), or where it is the very next turn after the rejected one (the user said what was wrong, and the
agent then did it right). Everything else the user has to say.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from machine.correction.ledger import Correction, Ledger, Linked, Retry
from machine.correction.reasoning import with_correction
from machine.errors import Refused
from machine.trace import Edit, Row

How = Literal["done again", "the same turn", "the same question again", "the next turn", "chosen"]


@dataclass(frozen=True)
class Answer:
    """A good turn as the answer to a correction: its rows with the approved reasoning, and why it is the answer."""

    correction: Correction
    how: How
    rows: Sequence[Row]

    @property
    def said(self) -> str:
        """What to tell the user."""
        learnt = "its approved reasoning is learnt too" if self.correction.approved else "no reasoning was approved"
        return f"{self.correction.id} ({self.how}); {learnt}"


def answered(ledger: Ledger, rows: Sequence[Row], id: str | None = None) -> Answer | None:
    """The correction that the good turn `rows` answers, None if it answers none; `id` begins that of a chosen one.

    Raises:
        Refused: there is no correction `id`, or it is over.
    """
    if id is None:
        return match(ledger.read().corrections, rows, lambda ids: rows_of(ledger, ids))
    chosen = ledger.find(id)
    if not chosen.pending:
        raise Refused(f"correction {chosen.id} is {chosen.state}", next_step=f"machine corrections {chosen.id}")
    return _answer(chosen, "chosen", rows)


def linked(ledger: Ledger, answer: Answer, rows: Sequence[str]) -> None:
    """Notes that the pool's `rows` answer a correction, unless the ledger says so already."""
    before = answer.correction.of(Linked)
    if not before or before[-1].rows != tuple(rows):
        ledger.append(Linked(correction=answer.correction.id, rows=tuple(rows), how=answer.how))


def match(
    corrections: Sequence[Correction], rows: Sequence[Row], find: Callable[[Sequence[str]], list[Row]]
) -> Answer | None:
    """The newest correction of the session that the turn `rows` answers; `find` gives rows of the pool by their ids.

    One that is linked already counts where this is the turn that it is linked to: tagged again, it keeps its reasoning.
    """
    good = rows[0]
    here = [each for each in reversed(corrections) if each.opened.session == good.source.session]
    for correction in here:
        links = correction.of(Linked) if correction.state == "linked" else []
        if links and any(row.source.entries == good.source.entries for row in find(links[-1].rows)):
            return _answer(correction, "the same turn", rows)
    pending = [each for each in here if each.pending]
    for correction in pending:
        if same_context(find(correction.opened.rows), rows):
            return _answer(correction, "the same question again", rows)
    return next((_answer(each, "the next turn", rows) for each in pending if _is_next(each, good)), None)


def _answer(correction: Correction, how: How, rows: Sequence[Row]) -> Answer:
    approved = correction.approved
    named = with_correction(rows, correction.id, approved.reasoning if approved else None)
    retries = {retry.leaf for retry in correction.of(Retry) if retry.outcome == "answered"}
    if approved and retries & {named[-1].source.leaf, *named[-1].source.entries}:
        how = "done again"
        hinted = Edit("hinted", "the model was given the approved reasoning as a hint for this turn")
        named[0] = structs.replace(named[0], edits=(*named[0].edits, hinted))
    return Answer(correction, how, named)


def rows_of(ledger: Ledger, ids: Sequence[str]) -> list[Row]:
    """The rows of the pool that an event names; those that are gone are left out."""
    found = []
    for id in ids:
        with contextlib.suppress(Refused):
            found.append(ledger.project.pool.get(id))
    return found


def same_context(bad: Sequence[Row], good: Sequence[Row]) -> bool:
    """Whether two turns were decided in one context: the same messages and tools before their first targets.

    The rejected turn may go on in `good` as context (`--as`): then what stands before the replaced answer counts.
    """
    if not bad or not good:
        return False
    chosen = good[0]
    before = chosen.messages[: chosen.target[0]]
    return any(
        row.tools == chosen.tools and row.messages[: len(before)] == before and len(before) in row.target for row in bad
    )


def _is_next(correction: Correction, good: Row) -> bool:
    """Whether the good turn began right after the rejected one, with nobody speaking in between."""
    ended, began = correction.opened.entries[-1], good.source.entries[0]
    held = good.source.messages
    if ended not in held or began not in held:
        return False
    between = range(held.index(ended) + 1, held.index(began))
    return bool(between or held.index(began) == held.index(ended) + 1) and all(
        good.messages[i]["role"] not in ("user", "assistant") for i in between
    )
