"""Lines: a file of any size, read in blocks and cut at the byte LF alone, where Pi cuts it."""

from collections.abc import Iterator
from typing import BinaryIO

BLOCK = 1 << 18
"""Bytes read at a time, small enough to stay in a processor's cache; the longest line sets the memory."""


def lines(file: BinaryIO) -> Iterator[tuple[int, memoryview]]:
    """Every line from where `file` (unbuffered) stands: its offset in bytes, and its bytes without their LF.

    A line is a view of the reader's own buffer: it holds until the next one is asked for. The last may lack an LF.
    """
    offset = file.tell()
    buffer = bytearray(BLOCK)
    held = 0
    while count := file.readinto(memoryview(buffer)[held:]):  # type: ignore[attr-defined]  # of RawIOBase
        end, start = held + count, 0
        while (cut := buffer.find(b"\n", start, end)) >= 0:
            yield offset + start, memoryview(buffer)[start:cut]
            start = cut + 1
        offset, held = offset + start, end - start
        rest = buffer[start:end]
        if held == len(buffer):
            buffer = bytearray(2 * held)
        buffer[:held] = rest
    if held:
        yield offset, memoryview(buffer)[:held]
