"""Copies: files of a folder that hold one of some texts, for whoever erased it elsewhere."""

import os
from collections.abc import Sequence
from pathlib import Path

from machine.store.files import explained

_CHUNK = 1 << 20


def copies(folder: Path, needles: Sequence[bytes]) -> list[Path]:
    """The files anywhere below a folder whose bytes hold one of the `needles`, in order of their paths.

    Files are read as they are, a piece at a time, SQLite's too; links are not followed. Text that is spelt otherwise
    (escaped, compressed), or that SQLite keeps in several pages, is not found: spelling is the caller's matter.

    Raises:
        StoreError: a file, or a folder, cannot be read.
    """
    sought = [needle for needle in needles if needle]
    found = []
    with explained(folder):
        for place, folders, names in os.walk(folder, onerror=_raise):
            folders.sort()
            for path in (Path(place, name) for name in sorted(names)):
                if not path.is_symlink() and path.is_file() and sought and _holds(path, sought):
                    found.append(path)
    return sorted(found)


def _holds(path: Path, needles: Sequence[bytes]) -> bool:
    longest, last = max(map(len, needles)), b""
    with explained(path), path.open("rb") as file:
        while piece := file.read(_CHUNK):
            window = last + piece
            if any(needle in window for needle in needles):
                return True
            last = window[len(window) - longest + 1 :] if longest > 1 else b""
    return False


def _raise(error: OSError) -> None:
    raise error
