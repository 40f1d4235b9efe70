"""A batch: rows that are written to a pool together, and what a crash left of one."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from machine.store.extent import pending, pending_note
from machine.store.files import explained, open_private, set_aside, sync_folder, torn_tail, write_or_cut, write_private


def write_rows(path: Path, rows: Sequence[bytes], torn: Path | None) -> int:
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
            with _together(path, size, data) if torn and len(rows) > 1 else contextlib.nullcontext():
                write_or_cut(descriptor, data, size)
    finally:
        os.close(descriptor)
    return size + len(data) - sum(len(row) + 1 for row in rows)


def _set_aside(path: Path, descriptor: int, torn: Path) -> None:
    """Moves to `torn` what a crash left of a turn's rows, or of a line."""
    begun = pending(path)
    size, tail = torn_tail(descriptor)
    if begun is not None:
        tail = os.pread(descriptor, size - begun, begun)
    elif _is_json(tail):
        tail = b""
    if tail:
        set_aside(descriptor, tail, torn)
    path.with_suffix(".pending").unlink(missing_ok=True)


@contextlib.contextmanager
def _together(path: Path, begin: int, data: bytes) -> Iterator[None]:
    """While it is open, a pool that does not hold all of `data` from byte `begin` on is read up to there."""
    note = path.with_suffix(".pending")
    write_private(note, pending_note(path, begin, data))
    yield
    note.unlink()


def _is_json(tail: bytes) -> bool:
    """Whether a last line is whole but for its LF, as an editor may leave it."""
    try:
        json.loads(tail)
    except (ValueError, RecursionError):
        return False
    return True
