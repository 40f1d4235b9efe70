"""Link: which pending correction a good turn answers, by what the rows hold.

A good turn answers a correction where it began in the same context with the same words (the turn done again, by the
teacher or by the user), where it is the very next turn after the rejected one (the user said what was wrong, and the
agent then did it right), or where it is the rejected turn with an answer of the user's alone. Everything else the user
has to say.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from machine.correction.ledger import Correction, Ledger, Linked, Retry, Unlinked
from machine.correction.reasoning import with_correction
from machine.errors import Refused
from machine.store.pool import Pool
from machine.trace import Edit, Row

How = Literal[
    "done again", "the same turn", "the same question again", "the next turn", "its answer was given", "chosen"
]


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
        Refused: there is no correction `id`, it is over, or the turn is the one that it rejects.
    """
    if id is None:
        return match(ledger.read().corrections, rows, lambda ids: rows_of(ledger, ids))
    chosen = ledger.find(id)
    if not (chosen.pending or _is_link_of(chosen, rows[0])):
        raise Refused(f"correction {chosen.id} is {chosen.state}", next_step=f"machine corrections {chosen.id}")
    if rejects(chosen, rows[0]) and not _is_replaced(rows):
        raise Refused(
            f"this turn is the one that correction {chosen.id} rejects, or goes on with it",
            next_step=f'machine corrections drop {chosen.id} if it was good, /correction --as "..." if you know better',
        )
    return _answer(chosen, "chosen", rows)


def linked(ledger: Ledger, correction: Correction, how: How, rows: Sequence[Row]) -> None:
    """Notes that `rows`, as the pool holds them, answer a correction, unless the ledger says so already."""
    ids, before = tuple(row.id for row in rows), correction.link
    if before is None or before.rows != ids:
        event = Linked(correction=correction.id, rows=ids, entries=rows[0].source.entries, how=how)
        correction.events.append(ledger.append(event))


def unlinked(ledger: Ledger, row: Row, but: Correction | None = None) -> list[Correction]:
    """Takes back the links to the turn of `row`, which was tagged otherwise since; returns what is pending again.

    `but` is the correction that the turn answers still.
    """
    loose = [each for each in ledger.read().corrections if _is_link_of(each, row) and (not but or each.id != but.id)]
    for each in loose:
        each.events.append(ledger.append(Unlinked(correction=each.id)))
    return loose


def match(
    corrections: Sequence[Correction], rows: Sequence[Row], find: Callable[[Sequence[str]], list[Row]]
) -> Answer | None:
    """The newest correction that the turn `rows` answers; `find` gives rows of the pool by their ids.

    One that is linked already counts where this is the turn that it is linked to: tagged again, it keeps its reasoning.
    """
    good = rows[0]
    newest = [each for each in reversed(corrections) if not rejects(each, good) or _is_replaced(rows)]
    for correction in newest:
        if _is_link_of(correction, good):
            return _answer(correction, "the same turn", rows)
    pending = [each for each in newest if each.pending]
    for correction in pending:
        if rejects(correction, good):
            return _answer(correction, "its answer was given", rows)
        bad = find(correction.opened.rows)
        if _of_one_session(bad, good) and same_context(bad, rows):
            return _answer(correction, "the same question again", rows)
    return next((_answer(each, "the next turn", rows) for each in pending if _is_next(each, good)), None)


def rejects(correction: Correction, row: Row) -> bool:
    """Whether the first that a turn would learn is of the rejected one: it is that turn, or goes on with it."""
    return row.source.messages[row.target[0]] in correction.opened.entries


def rows_of(ledger: Ledger, ids: Sequence[str]) -> list[Row]:
    """The rows of the pool that an event names, as they were mended since; those that are gone are left out."""
    mends, pool = ledger.project.mends, ledger.project.pool
    return [row for id in ids if (row := next(_held(pool, mends.heirs(id)), None)) is not None]


def _held(pool: Pool, ids: Sequence[str]) -> Iterator[Row]:
    for id in ids:
        with contextlib.suppress(Refused):
            yield pool.get(id)


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


def _answer(correction: Correction, how: How, rows: Sequence[Row]) -> Answer:
    approved = correction.approved
    named = with_correction(rows, correction.id, approved.reasoning if approved else None)
    retries = {retry.leaf for retry in correction.of(Retry) if retry.outcome == "answered"}
    if approved and retries & {named[-1].source.leaf, *named[-1].source.entries}:
        how = "done again"
        hinted = Edit("hinted", "the model was given the approved reasoning as a hint for this turn")
        named[0] = structs.replace(named[0], edits=(*named[0].edits, hinted))
    return Answer(correction, how, named)


def _is_link_of(correction: Correction, row: Row) -> bool:
    """Whether a correction is linked to the turn of `row`."""
    link = correction.link if correction.state == "linked" else None
    return link is not None and link.entries == row.source.entries


def _is_replaced(rows: Sequence[Row]) -> bool:
    """Whether nothing is learnt of a turn but an answer that the user gave: what the agent did in it stays rejected."""
    return len(rows) == 1 and len(rows[0].target) == 1 and any(e.kind == "answer_replaced" for e in rows[0].edits)


def _of_one_session(bad: Sequence[Row], good: Row) -> bool:
    """Whether two turns are of one session, or of forks of one."""
    entries = {entry for row in bad for entry in row.source.messages if entry}
    return any(row.source.session == good.source.session for row in bad) or bool(entries & {*good.source.messages})


def _is_next(correction: Correction, good: Row) -> bool:
    """Whether the good turn began right after the rejected one, with nobody speaking in between."""
    ended, began = correction.opened.entries[-1], good.source.entries[0]
    held = good.source.messages
    if ended not in held or began not in held:
        return False
    between = good.messages[held.index(ended) + 1 : held.index(began)]
    return all(message["role"] not in ("user", "assistant") for message in between)
