"""Wiping: private files whose bytes are overwritten before their place on the disk is given back.

How far that can be relied on is said in `machine.store.erase`.
"""

import os
from pathlib import Path

from machine.store.files import explained, is_private, open_private, sync_folder, write_private

_CHUNK = 1 << 20


def wipe(path: Path) -> bool:
    """Overwrites the bytes of a private file with zeros, syncs, and removes it; False if there is none.

    Raises:
        StoreError: it is a link or another user's, has a second name, or could not be overwritten.
    """
    if not is_private(path):
        return False
    descriptor = open_private(path, os.O_RDWR)
    try:
        with explained(path):
            zero(descriptor)
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
    finally:
        os.close(descriptor)
    return True


def rewrite(path: Path, data: bytes) -> None:
    """Replaces a private file as `write_private` does, then overwrites the bytes that it had before with zeros.

    Raises:
        StoreError: it could not be replaced, and is as it was; or it was, and its old bytes could not be overwritten.
    """
    descriptor = open_private(path, os.O_RDWR)
    try:
        write_private(path, data)
        with explained(path):
            zero(descriptor)
    finally:
        os.close(descriptor)


def wipe_strays(path: Path) -> None:
    """Wipes what crashes left of replacing a private file (`write_private`). Nobody may be replacing it meanwhile.

    Raises:
        StoreError: one could not be overwritten.
    """
    for stray in path.parent.glob(f".tmp-{path.name}-*"):
        wipe(stray)


def zero(descriptor: int) -> None:
    """Overwrites all of a file with zeros, and syncs."""
    size = os.fstat(descriptor).st_size
    for offset in range(0, size, _CHUNK):
        put(descriptor, bytes(min(_CHUNK, size - offset)), offset)
    os.fsync(descriptor)


def put(descriptor: int, data: bytes, offset: int) -> None:
    """Writes every byte at a place."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
