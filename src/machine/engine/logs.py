"""The engine's log: a line for each start, stop and failed request, and tracebacks of the engine's own faults.

The process writes to its standard error, which `life.start` points at `engine.log`. A new start, or `MAX_BYTES`, moves
the file to `engine.log.1` (one is kept), so that the end of the life before can be read. Lines hold ids, sizes, names
and paths; no prompt, no answer, no key.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from machine.store.files import open_private

LOG, BEFORE = "engine.log", "engine.log.1"
MAX_BYTES = 4 * 1024 * 1024
_STDOUT, _STDERR = 1, 2


def open_new(state: Path) -> int:
    """The descriptor of an empty log; what was there is kept as the one before."""
    if (state / LOG).exists():
        (state / LOG).replace(state / BEFORE)
    return open_private(state / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def configure() -> None:
    """Sends this process's log lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("machine.engine")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


def bound(state: Path, max_bytes: int = MAX_BYTES) -> None:
    """Begins a new log if this process writes to one that has become too long."""
    try:
        ours, log = os.fstat(_STDERR), (state / LOG).stat()
    except OSError:
        return
    if (ours.st_dev, ours.st_ino) == (log.st_dev, log.st_ino) and log.st_size > max_bytes:
        descriptor = open_new(state)
        os.dup2(descriptor, _STDOUT)
        os.dup2(descriptor, _STDERR)
        os.close(descriptor)


def tail(state: Path, lines: int) -> list[str]:
    """The last lines, those of the log before included where this one has not enough."""
    found: list[str] = []
    for name in (LOG, BEFORE):
        if len(found) < lines and (state / name).is_file():
            older = (state / name).read_text("utf-8", "replace").splitlines()
            found = older[max(0, len(older) - lines + len(found)) :] + found
    return found


def follow(state: Path, *, every: float = 0.25) -> Iterator[str]:
    """Each line that is written from this call on, in this log and in those after it; ends only with its caller."""
    return _lines(state, _end(state), every)


def _lines(state: Path, place: tuple[int, int], every: float) -> Iterator[str]:
    rest = b""
    while True:
        try:
            with (state / LOG).open("rb") as log:
                status = os.fstat(log.fileno())
                if status.st_ino != place[0]:
                    place, rest = (status.st_ino, 0), b""
                log.seek(place[1])
                new = log.read()
                place = (status.st_ino, place[1] + len(new))
        except FileNotFoundError:
            new = b""
        *whole, rest = (rest + new).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
        if not new:
            time.sleep(every)


def _end(state: Path) -> tuple[int, int]:
    try:
        status = (state / LOG).stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_size
