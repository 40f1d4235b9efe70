"""The pool: `traces.jsonl`, append-only, one row a line.

What a crash can lose: nothing that `append` has returned for. Rows are written under the project's lock in one go and
synced before `append` returns; a write that fails half-way is cut off again. Bytes after the last LF (a crash in the
middle of a write) are moved to `traces.torn`, never deleted, before the next append, unless they are a whole line that
only lacks its LF. The rows of one turn are there together or not at all: while several are written, `traces.pending`
says from which byte to which, and what a crash leaves of them is not read, and set aside likewise. Readers see whole
lines only.
"""

import contextlib
import hashlib
import itertools
import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from machine.errors import Refused, StoreError
from machine.home import machine_home
from machine.store.files import (
    explained,
    locked,
    open_private,
    private_folder,
    set_aside,
    sync_folder,
    torn_tail,
    write_or_cut,
    write_private,
)
from machine.store.index import Index, Place, pending, turn_key
from machine.trace import Row, decode, encode

_T = TypeVar("_T")


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
        private_folder(self.path.parent)
        with locked(self.lock), self._index() as index:
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
        private_folder(self.path.parent)
        with locked(self.lock), self._index() as index:
            new = [row for row in rows if not _known(index, row)]
            self._write(new, index)
        return len(new)

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
        if len(found) == 1:
            return next(self._read(found))
        if found:
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
        offset = _append(self.path, written, torn=self.torn)
        ends = list(itertools.accumulate((len(line) + 1 for line in written), initial=offset))
        return index.added([(start, len(line), row) for start, line, row in zip(ends, written, rows, strict=False)])

    def _index(self) -> Index:
        return Index(self.path, self.path.with_suffix(".index"))

    def _places(self, tag: str | None = None, newest: int | None = None) -> list[Place]:
        return self._ask(lambda index: index.places(tag, newest), [])

    def _read(self, places: list[Place]) -> Iterator[Row]:
        if not places:
            return
        with explained(self.path):
            file = self.path.open("rb")
        with file:
            for place in places:
                file.seek(place.offset)
                yield self._row(file.read(place.length))

    def _row(self, line: bytes) -> Row:
        try:
            return decode(line)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"{self.path} was changed where the index knows a row",
                next_step=f"remove {self.path.with_suffix('.index')}; it is made anew",
            ) from error

    def _ask(self, ask: Callable[[Index], _T], nothing: _T) -> _T:
        """The index's answer; `nothing` where there is no pool yet, and so no index to make."""
        with explained(self.path):
            if not self.path.exists():
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
        _append(path, [encode(row) for row in rows], torn=None)


def _says(place: Place | None, row: Row) -> bool:
    """Whether the row at `place`, of the same content, says all that `row` would."""
    return place is not None and row.tag in (place.tag, "observed") and row.note in (None, place.note)


def _known(index: Index, row: Row) -> bool:
    return index.holds(turn_key(row.source.entries, row.source.part)) or index.same(row) is not None


def _append(path: Path, rows: Sequence[bytes], torn: Path | None) -> int:
    """Writes rows and syncs, and returns the offset of the first.

    With `torn`, in a pool: what a crash left is put there first, and rows come together.
    """
    descriptor = open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        with explained(path):
            if torn is not None:
                _set_aside(path, descriptor, torn)
            size, tail = torn_tail(descriptor)
            if not size:
                sync_folder(path.parent)
            data = (b"\n" if tail else b"") + b"".join(row + b"\n" for row in rows)
            with _together(path, size, size + len(data)) if torn and len(rows) > 1 else contextlib.nullcontext():
                write_or_cut(descriptor, data, size)
    finally:
        os.close(descriptor)
    return size + len(data) - sum(len(row) + 1 for row in rows)


def _set_aside(path: Path, descriptor: int, torn: Path) -> None:
    """Moves to `torn` what a crash left of a turn's rows, or of a line."""
    begun = pending(path)
    size, tail = torn_tail(descriptor)
    if begun is not None and begun[0] < size < begun[1]:
        tail = os.pread(descriptor, size - begun[0], begun[0])
    elif _is_json(tail):
        tail = b""
    if tail:
        set_aside(descriptor, tail, torn)
    path.with_suffix(".pending").unlink(missing_ok=True)


@contextlib.contextmanager
def _together(path: Path, begin: int, end: int) -> Iterator[None]:
    """While it is open, a pool that does not reach `end` is read up to `begin`."""
    note = path.with_suffix(".pending")
    write_private(note, f"{begin} {end}".encode())
    yield
    note.unlink()


def _is_json(tail: bytes) -> bool:
    """Whether a last line is whole but for its LF, as an editor may leave it."""
    try:
        json.loads(tail)
    except (ValueError, RecursionError):
        return False
    return True
