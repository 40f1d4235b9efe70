"""Records: the lines of a log of JSON objects, read as one type."""

import contextlib
from pathlib import Path
from typing import TypeVar

import msgspec

from machine.store.files import whole_lines

_T = TypeVar("_T")


def records(path: Path, kind: type[_T]) -> list[_T]:
    """The whole lines of a file that are of `kind`, oldest first; others are skipped, and no file holds none.

    Raises:
        StoreError: it cannot be read.
    """
    found = []
    for line in whole_lines(path):
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            found.append(msgspec.json.decode(line, type=kind))
    return found
