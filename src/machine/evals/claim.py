"""Claim: one process at a time evaluates what goes by one name; another is refused at once, and told who is at it.

`evals/<name>.lock` is held as long as the evaluation runs; the system frees it whatever ends the process. Who holds it
stands beside it in `evals/<name>.holder`, for the words alone: what a dead process left there stops nobody.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from machine.errors import Refused
from machine.store.files import FILE_MODE, explained, open_private, private_folder, write_private
from machine.training.run import now


class Holder(msgspec.Struct, frozen=True):
    """A process, and since when (UTC) it holds a claim."""

    pid: int
    since: str


@contextlib.contextmanager
def claimed(folder: Path, name: str) -> Iterator[None]:
    """Holds the evaluation called `name` in `folder`, alone among processes and threads.

    Raises:
        Refused: another holds it.
        StoreError: the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    private_folder(folder)
    lock, about = folder / f"{name}.lock", folder / f"{name}.holder"
    os.close(open_private(lock, os.O_RDWR | os.O_CREAT))
    held = FileLock(lock, timeout=0, mode=FILE_MODE)
    with explained(lock):
        try:
            held.acquire()
        except Timeout as error:
            raise Refused(
                f"{name} is already being evaluated by {_holder(about)}",
                next_step="wait until it is done, or end it with Ctrl-C: no answer is lost",
            ) from error
    try:
        write_private(about, msgspec.json.encode(Holder(os.getpid(), now())) + b"\n")
        yield
    finally:
        with explained(lock):
            about.unlink(missing_ok=True)
            held.release()


def _holder(about: Path) -> str:
    """Who holds it, in words."""
    try:
        found = msgspec.json.decode(about.read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):  # it is only just beginning, or ending
        return "another process"
    return f"process {found.pid}, since {found.since}"
