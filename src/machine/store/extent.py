"""Extent: how far a pool can be read, line by line, and what ties an index to those bytes."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

_ENDS = 4096
"""Bytes at the start of a pool, and before the end of what an index covers, whose hash ties the two."""
_FIRST = 64
"""Bytes that no row is shorter than, and that no two rows begin with: they hold the id."""
_EMPTY = "-"


def lines(pool: Path, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Every complete line of the pool from byte `start` to `end`, with its offset."""
    with contextlib.suppress(FileNotFoundError), pool.open("rb") as file:
        file.seek(start)
        offset = start
        for line in file:
            if not line.endswith(b"\n") or offset + len(line) > end:
                return
            yield offset, line[:-1]
            offset += len(line)


def readable(pool: Path) -> int:
    """The pool's size in bytes, less the rows of a turn that a crash kept from being written together."""
    with contextlib.suppress(FileNotFoundError):
        while True:
            size = pool.stat().st_size
            begun = pending(pool)
            if begun is not None:
                return begun
            if pool.stat().st_size == size:  # else it was a part of a turn, perhaps, that is there now
                return size
    return 0


def pending(pool: Path) -> int | None:
    """From which byte of the pool on the rows of one turn are being written, or were when a crash came.

    None where they are all there, or where the pool is not the one that they were written to: an old note hides no row
    of one that was restored or edited since.
    """
    with contextlib.suppress(FileNotFoundError, ValueError, UnicodeDecodeError):
        begin, end, mark, first = pool.with_suffix(".pending").read_bytes().decode().split()
        if not 0 <= int(begin) <= pool.stat().st_size < int(end) or mark != (mark_of(pool, int(begin)) or _EMPTY):
            return None
        with pool.open("rb") as file:
            file.seek(int(begin))
            written = file.read(_FIRST)
        torn = len(written) < _FIRST or b"\0" in written  # zeros: where a power cut took bytes, and left the size
        return int(begin) if torn or first == _hash(written) else None
    return None


def pending_note(pool: Path, begin: int, data: bytes) -> bytes:
    """What `<pool>.pending` says while `data`, the rows of one turn, is written to the pool from byte `begin` on."""
    end = begin + len(data)
    return f"{begin} {end} {mark_of(pool, begin) or _EMPTY} {_hash(data[:_FIRST])}".encode()


def mark_of(pool: Path, covered: int) -> str:
    """A hash of the first bytes and of the last ones before `covered`: an edit that moves a row changes it."""
    if not covered:
        return ""
    with contextlib.suppress(FileNotFoundError), pool.open("rb") as file:
        head = file.read(min(covered, _ENDS))
        file.seek(max(0, covered - _ENDS))
        return _hash(head + file.read(min(covered, _ENDS)))
    return "gone"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
