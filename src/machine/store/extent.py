"""Extent: how far a pool can be read, line by line, and what ties an index to those bytes."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

_ENDS = 4096
"""Bytes at the start of a pool, and before the end of what an index covers, whose hash ties the two."""


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
        size = pool.stat().st_size
        begin, end = pending(pool) or (size, size)
        return begin if size < end else size
    return 0


def pending(pool: Path) -> tuple[int, int] | None:
    """From which byte of the pool to which one the rows of one turn are being written, or were when a crash came."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        begin, end = map(int, pool.with_suffix(".pending").read_bytes().split())
        return begin, end
    return None


def mark_of(pool: Path, covered: int) -> str:
    """A hash of the first bytes and of the last ones before `covered`: an edit that moves a row changes it."""
    if not covered:
        return ""
    with contextlib.suppress(FileNotFoundError), pool.open("rb") as file:
        head = file.read(min(covered, _ENDS))
        file.seek(max(0, covered - _ENDS))
        return hashlib.sha256(head + file.read(min(covered, _ENDS))).hexdigest()
    return "gone"
