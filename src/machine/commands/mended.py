"""Mended: rows of the pool whose secrets are taken out, each with the row that stands for it from now on."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from machine.errors import Refused
from machine.store.files import locked
from machine.store.mends import Mend
from machine.store.project import Project
from machine.trace import Row

if TYPE_CHECKING:
    from machine.privacy.redact import Names
    from machine.privacy.sources import Sources

_ROUNDS = 3
"""How often a turn is taken up that is tagged anew each time while it is being mended."""


@dataclass(frozen=True)
class Mended:
    """What became of rows: those that held secrets, each with the one that stands for it now; those that were not in
    force any more when theirs was to be written, each with the one that was, if any, and was mended as well if need be;
    the ids of those `left` as they are after several rounds of that; and all that was found, in memory.
    """

    mended: list[tuple[Row, Row]]
    anew: list[tuple[Row, Row | None]]
    left: Set[str]
    held: "Names"

    @property
    def replaced(self) -> set[str]:
        """The ids of rows whose turn was tagged anew, and the same: the new row stands for them in all respects."""
        return {old.id for old, new in self.anew if new is not None and new.tag == old.tag}

    def said(self, erased: bool) -> list[str]:
        """What happened to the rows that were not in force any more."""
        states = dict.fromkeys(self.left, "is as it was: run this again")
        states |= {old.id: "was tagged anew as well" for old, _ in self.anew}
        states |= {old.id: "was mended too" for old, _ in self.mended}
        said = list[str]()
        for old, new in self.anew:
            if new is None:
                said.append(f"{old.id} counts no more, it was erased or tagged elsewhere meanwhile: run this again")
                continue
            state = states.get(new.id, "holds no secret")
            said.append(f"{old.id} was tagged anew meanwhile: {new.id} stands for its turn, and {state}")
            if not (erased and old.id in self.replaced):
                said.append(f"the old bytes of {old.id} are in the pool still: machine privacy erase {old.id}")
        return said


def mend(project: Project, rows: Iterable[Row]) -> Mended:
    """Mends rows. What one row of a turn shows to be a secret goes from all of them.

    Where a turn is tagged anew meanwhile, its new row is mended in place of the old one.
    """
    from machine.privacy.redact import Names

    sources, held = project.sources(), Names()
    mended, anew, left = list[tuple[Row, Row]](), list[tuple[Row, Row | None]](), set[str]()
    turns: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        turns.setdefault(row.source.entries, []).append(row)
    for due in turns.values():
        names = Names()
        for _ in range(_ROUNDS):
            done, late = _mended_turn(project, due, sources, names)
            mended += done
            anew += (newer := _newer(project, late))
            due = [new for _, new in newer if new is not None]
            if not due:
                break
        left |= {row.id for row in due}
        held.known |= names.known
    return Mended(mended, anew, left, held)


def _mended_turn(
    project: Project, turn: Sequence[Row], sources: "Sources", names: "Names"
) -> tuple[list[tuple[Row, Row]], list[Row]]:
    """The rows of a turn that held secrets, each with its mended one; and those of them that are not in force now."""
    from machine.capture.rows import new_id, now, without_secrets

    mended, late = list[tuple[Row, Row]](), list[Row]()
    clean, _ = without_secrets(turn, sources, names)
    for old, new in zip(turn, clean, strict=True):
        if new is old:
            continue
        new = structs.replace(new, id=new_id())
        try:
            project.pool.supersede(old.id, new, first=partial(project.mends.note, Mend(old.id, new.id, now())))
        except Refused:
            late.append(old)
        else:
            mended.append((old, new))
    return mended, late


def _newer(project: Project, late: Sequence[Row]) -> list[tuple[Row, Row | None]]:
    """Rows that are not in force any more, each with the one that is in its place, None if there is none.

    Where both say the same of the turn, what names the old one by its id finds the new one.
    """
    from machine.capture.rows import now

    places = {_place(row) for row in late}
    found = {_place(row): row for row in project.pool.rows() if _place(row) in places} if late else {}
    for old in late:
        if (new := found.get(_place(old))) is not None and new.tag == old.tag:
            with locked(project.pool.lock):
                project.mends.note(Mend(old.id, new.id, now()))
    return [(old, found.get(_place(old))) for old in late]


def _place(row: Row) -> tuple[tuple[str, ...], int]:
    return row.source.entries, row.source.part
