"""The pool: `traces.jsonl`, append-only, one row a line.

What a crash can lose: nothing that `append` has returned for. Rows are written under the project's lock in one go and
synced before `append` returns; a write that fails half-way is cut off again. Bytes after the last LF (a crash in the
middle of a write) are moved to `traces.torn`, never deleted, before the next append, unless they are a whole line that
only lacks its LF. The rows of one turn are there together or not at all: while several are written, `traces.pending`
says from which byte to which, and what a crash leaves of them is not read, and set aside likewise. Readers see whole
lines only. Nothing but `erase` changes what was written: see `machine.store.erase` for what it can promise.
"""

import contextlib
import hashlib
import itertools
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from machine.errors import Refused, StoreError
from machine.home import machine_home
from machine.store.batch import write_rows
from machine.store.erase import all_lines, begin, erasing, finish, gone, is_erased
from machine.store.files import explained, is_private, locked, private_folder
from machine.store.index import Index, Place, drop, key, turn_key
from machine.store.selection import selected
from machine.trace import Row, decode, encode

_T = TypeVar("_T")
_HEAD = 16
"""So many bytes of a line say whether it is erased."""
_BUFFER = 1 << 17
"""Bytes that are read at once where rows are read one after the other."""


@dataclass(frozen=True)
class Appended:
    """What became of a row: the id under which the pool holds it, and whether it was there before."""

    id: str
    duplicate: bool


@dataclass(frozen=True)
class Kept:
    """What became of the rows of a turn, one by one, and how many rows of each tag are in force now."""

    rows: Sequence[Appended]
    counts: dict[str, int]


class Pool:
    """The rows of one project. Cheap to make; files are opened by the method that needs them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lock(self) -> Path:
        """Held by whoever writes to the project's folder."""
        return self.path.with_suffix(".lock")

    @property
    def torn(self) -> Path:
        """Where bytes go that a crash left half-written."""
        return self.path.with_suffix(".torn")

    def append(self, row: Row) -> Appended:
        """Adds a row, durably, unless the pool holds the same content with the same tag and note.

        Raises:
            StoreError: it could not be written (disk full, no permission, lock held); the pool is as it was.
        """
        return self.append_all([row]).rows[0]

    def append_all(self, rows: Sequence[Row]) -> Kept:
        """Adds the rows of one turn as `append` adds one, with one write: all that are new, or none.

        Raises:
            StoreError: they could not be written; the pool is as it was.
        """
        with self._writing() as index:
            same = [index.same(row) for row in rows]
            held = [place if _says(place, row) else None for place, row in zip(same, rows, strict=True)]
            noted = self._write([row for row, place in zip(rows, held, strict=True) if place is None], index)
            counts = index.counts() if noted else {}
        appended = [
            Appended(place.id if place else row.id, duplicate=place is not None)
            for row, place in zip(rows, held, strict=True)
        ]
        return Kept(appended, counts if noted else self.counts())

    def append_observed(self, rows: Sequence[Row]) -> int:
        """Adds those rows, all at once, of whose part of a turn and of whose content the pool holds none, by any tag.

        Returns:
            How many were added.

        Raises:
            StoreError: they could not be written; the pool is as it was.
        """
        with self._writing() as index:
            new = [row for row in rows if not _known(index, row)]
            self._write(new, index)
        return len(new)

    def supersede(self, old: str, row: Row, first: Callable[[], None] = lambda: None) -> None:
        """Adds a row that mends the row `old`, durably: of the same part of a turn, for which it stands from now on.

        It has an id of its own. Unlike `append` it is written though only what no digest and no note shows has changed
        (where the turn comes from, the edits). The old row's bytes stay, until `erase`. What is to be done `first` is
        done under the lock, once it is sure that the row will be written.

        Raises:
            Refused: `old` is not the row in force of that part of the turn, of that tag: it was erased, or the turn was
                tagged anew since the row was read, which a mended old row must not hide. Nothing was written.
            StoreError: it could not be written; the pool is as it was.
        """
        with self._writing() as index:
            if not index.in_force(old, turn_key(row.source.entries, row.source.part), row.tag):
                raise Refused(f"{old} was to be mended, and is not in force any more", next_step="machine tagged")
            first()
            self._write([row], index)

    def erase(self, ids: Sequence[str], *, superseded: bool = False) -> int:
        """Erases every row of the ids: overwrites its bytes, in the pool and in what a crash left of it, and the index.

        An earlier row of the same turn, where there is one, is in force again, unless `superseded`: then the rows not
        in force of the same turns, or of the same content, go too. What another place holds (the ledger, runs, a
        suite) stays: see `machine.store.copies`.

        Returns:
            How many lines of the pool were overwritten; ids that no row has, or that are erased, count nothing.

        Raises:
            StoreError: it could not be done. Either nothing has changed, or the rows count as erased and whoever
                writes to the pool next goes on with it.
        """
        if not is_private(self.path):
            return 0
        with self._locked():
            write_rows(self.path, [], torn=self.torn)
            with self._index() as index:
                in_force = {place.offset for place in index.places()}
            spans = selected(self.path, ids, in_force if superseded else None)
            begin(self.path, spans)
            self._finish()
        return sum(not span.torn for span in spans)

    def erased(self) -> int:
        """Lines that stand where rows were erased."""
        return self._ask(lambda index: index.erased(), 0)

    def names_blobs(self, names: Iterable[str]) -> set[str]:
        """Those of the blobs that a row of the pool names, superseded ones too. Reads all of the pool."""
        sought, found = set(names), set[str]()
        going = erasing(self.path)
        for offset, line in all_lines(self.path):
            if offset not in going:
                found |= {name for name in sought if name.encode() in line}
        return found

    def holds(self, turns: Sequence[tuple[str, ...]]) -> list[bool]:
        """Whether each of the turns, given by its entry ids, has a row, of any tag and superseded ones too."""
        return self._ask(lambda index: [index.holds(turn_key(turn)) for turn in turns], [False] * len(turns))

    def rows(self, tag: str | None = None) -> Iterator[Row]:
        """Every row in force, oldest first; a later row of the same turn stands for the earlier ones."""
        yield from self._read(self._places(tag=tag))

    def recent(self, count: int, tag: str | None = None) -> list[Row]:
        """The newest rows in force, newest first."""
        return list(self._read(self._places(tag=tag, newest=count)))

    def get(self, prefix: str) -> Row:
        """The row whose id begins with `prefix`.

        Raises:
            Refused: none or several do.
        """
        found: list[Place] = self._ask(lambda index: index.find(prefix), [])
        if len(found) == 1 and (rows := list(self._read(found))):
            return rows[0]
        if len(found) > 1:
            raise Refused(f"{prefix!r} begins the ids of several rows", next_step="type more of the id")
        raise Refused(f"no row {prefix!r} in this project's pool", next_step="machine tagged")

    def counts(self) -> dict[str, int]:
        """Rows in force by tag."""
        return self._ask(lambda index: index.counts(), {})

    def broken(self) -> int:
        """Lines that are not rows (damaged, or written by something else)."""
        return self._ask(lambda index: index.broken(), 0)

    def tagged_entries(self, session: str) -> set[str]:
        """The last entry id of every turn of a session that the user has tagged."""
        return self._ask(lambda index: index.tagged_entries(session), set())

    def _write(self, rows: Sequence[Row], index: Index) -> bool:
        """Adds rows, and says whether `index` knows them now."""
        if not rows:
            return True
        written = [encode(row) for row in rows]
        offset = write_rows(self.path, written, torn=self.torn)
        ends = list(itertools.accumulate((len(line) + 1 for line in written), initial=offset))
        return index.added([(start, len(line), row) for start, line, row in zip(ends, written, rows, strict=False)])

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the lock; an erasing that a crash cut short is finished first."""
        private_folder(self.path.parent)
        with locked(self.lock):
            self._finish()
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Index]:
        with self._locked(), self._index() as index:
            yield index

    def _finish(self) -> None:
        finish(self.path, then=lambda: drop(self.path.with_suffix(".index")))

    def _index(self) -> Index:
        return Index(self.path, self.path.with_suffix(".index"))

    def _places(self, tag: str | None = None, newest: int | None = None) -> list[Place]:
        return self._ask(lambda index: index.places(tag, newest), [])

    def _read(self, places: list[Place]) -> Iterator[Row]:
        if not places:
            return
        with explained(self.path):
            file = self.path.open("rb", buffering=_BUFFER)
        with file:
            descriptor = file.fileno()
            for place in places:
                file.seek(place.offset)
                line = file.read(place.length)
                # Looked at after the line was read: the beginning goes first, so what begins as it was is whole.
                if not is_erased(os.pread(descriptor, _HEAD, place.offset)) and (row := self._row(line, place)):
                    yield row

    def _row(self, line: bytes, place: Place) -> Row | None:
        """The row that the line holds; None where its beginning is being overwritten."""
        fault: Exception | None = None
        try:
            row = decode(line)
            if row.id == place.id:
                return row
        except (msgspec.MsgspecError, RecursionError) as error:
            fault = error
        if gone(self.path, [place.offset]):
            return None
        raise StoreError(
            f"{self.path} was changed where the index knows the row {place.id}",
            next_step=f"remove {self.path.with_suffix('.index')}; it is made anew",
        ) from fault

    def _ask(self, ask: Callable[[Index], _T], nothing: _T) -> _T:
        """The index's answer; `nothing` where there is no pool yet, and so no index to make."""
        if not is_private(self.path):
            return nothing
        with self._index() as index:
            return ask(index)


def append_elsewhere(path: Path, *rows: Row) -> None:
    """Adds rows to a file of the user's choosing; its folder must be there, and nothing in the file is moved.

    Raises:
        StoreError: the folder is missing, or the rows could not be written; the file is as it was.
    """
    if not path.parent.is_dir():
        raise StoreError(f"{path.parent} is not a folder", next_step=f"mkdir -p {shlex.quote(str(path.parent))}")
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    with locked(private_folder(machine_home() / "locks") / f"{name}.lock"):
        write_rows(path, [encode(row) for row in rows], torn=None)


def _says(place: Place | None, row: Row) -> bool:
    """Whether the row at `place`, of the same content, says all that `row` would."""
    if place is None or row.tag not in (place.tag, "observed"):
        return False
    return row.note is None or key(row.note) == place.note


def _known(index: Index, row: Row) -> bool:
    return index.holds(turn_key(row.source.entries, row.source.part)) or index.same(row) is not None
