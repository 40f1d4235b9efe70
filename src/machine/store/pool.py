"""The pool: `traces.jsonl`, append-only, one row a line.

What a crash can lose: nothing that `append` has returned for. A row is written under the project's lock in one go and
synced before `append` returns; a write that fails half-way is cut off again. Bytes after the last LF (a crash in the
middle of a write) are moved to `traces.torn`, never deleted, before the next append, unless they are a whole line that
only lacks its LF. Readers see whole lines only.
"""

import contextlib
import datetime
import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from machine.errors import Refused, StoreError
from machine.home import machine_home
from machine.store.files import append_line, explained, open_private, private_folder, sync_folder, torn_tail, write_all
from machine.store.index import Index, Place
from machine.trace import Row, decode, encode

LOCK_SECONDS = 30.0
_T = TypeVar("_T")


@dataclass(frozen=True)
class Appended:
    """What became of a row: the id under which the pool holds it, and whether it was there before."""

    id: str
    duplicate: bool


class Pool:
    """The rows of one project. Cheap to make; files are opened by the method that needs them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def torn(self) -> Path:
        """Where bytes go that a crash left half-written."""
        return self.path.with_suffix(".torn")

    def append(self, row: Row) -> Appended:
        """Adds a row, durably, unless the pool holds the same content with the same tag and note.

        Raises:
            StoreError: it could not be written (disk full, no permission, lock held); the pool is as it was.
        """
        private_folder(self.path.parent)
        with _locked(self.path.with_suffix(".lock")):
            held = self._ask(lambda index: index.same(row), None)
            if held and held.tag == row.tag and row.note in (None, held.note):
                return Appended(held.id, duplicate=True)
            _append(self.path, encode(row), torn=self.torn)
        return Appended(row.id, duplicate=False)

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
        """The last entry id of every turn of a session that has a row."""
        return self._ask(lambda index: index.tagged_entries(session), set())

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
        if not self.path.exists():
            return nothing
        with Index(self.path, self.path.with_suffix(".index")) as index:
            return ask(index)


def append_elsewhere(path: Path, row: Row) -> None:
    """Adds a row to a file of the user's choosing; its folder must be there, and nothing in the file is moved.

    Raises:
        StoreError: the folder is missing, or the row could not be written; the file is as it was.
    """
    if not path.parent.is_dir():
        raise StoreError(f"{path.parent} is not a folder", next_step=f"mkdir -p {shlex.quote(str(path.parent))}")
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    with _locked(private_folder(machine_home() / "locks") / f"{name}.lock"):
        _append(path, encode(row), torn=None)


@contextlib.contextmanager
def _locked(lock: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    os.close(open_private(lock, os.O_RDWR | os.O_CREAT))
    try:
        with FileLock(lock, timeout=LOCK_SECONDS, mode=0o600):
            yield
    except Timeout as error:
        raise StoreError(
            f"{lock} has been held by another process for {LOCK_SECONDS:.0f} s",
            next_step="wait for the other Machine process, then run the command again",
        ) from error


def _append(path: Path, line: bytes, torn: Path | None) -> None:
    new = not path.exists()
    descriptor = open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        with explained(path):
            size, tail = torn_tail(descriptor)
            if tail and torn is not None and not _is_json(tail):
                stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
                append_line(torn, f"# set aside {stamp}\n".encode() + tail)
                size -= len(tail)
                os.ftruncate(descriptor, size)
                tail = b""
            try:
                write_all(descriptor, (b"\n" if tail else b"") + line + b"\n")
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
            if new:
                sync_folder(path.parent)
    finally:
        os.close(descriptor)


def _is_json(tail: bytes) -> bool:
    """Whether a last line is whole but for its LF, as an editor may leave it."""
    try:
        json.loads(tail)
    except (ValueError, RecursionError):
        return False
    return True
