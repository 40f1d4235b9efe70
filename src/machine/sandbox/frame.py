"""The bytes that pass the wall of a box: a job going in, and a result coming out, read as those of an enemy.

A frame is eight bytes (big-endian) with the length of a head, the head in JSON, and the contents one after another.
What comes out is bounded before it is kept: the head, the number of files, every size, and every path are checked again
here, whatever the box has already done.
"""

import json
from dataclasses import dataclass
from typing import get_args

from machine.errors import MachineError
from machine.sandbox.job import Ended, Job, is_inside

LARGEST_HEAD = 32 << 20
FILES, ODD = 20_000, 1_001
BEGUN = b"\x01"
"""What a box says before its result: the command is about to start. What breaks from then on, the command broke."""
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class BrokenBox(MachineError, RuntimeError):
    """A box ended without a result that can be used."""


@dataclass(frozen=True)
class Place:
    """Where a job finds itself: the folder of its `work` and `home`, its temporary folder, its own file systems.

    `isolated` says whether it has processes, network and files of its own; `socket` is the relay's Unix socket and
    `port` the port that leads there; `tasks` is the kernel's limit for processes and threads, 0 for none.
    """

    root: str
    temporary: str
    mounts: tuple[str, ...] = ()
    isolated: bool = True
    socket: str = ""
    port: int = 0
    tasks: int = 0


@dataclass(frozen=True)
class Result:
    """What the box says of its job; the fields of `job.Outcome` that it can know."""

    code: int | None
    ended: Ended
    seconds: float
    stdout: bytes
    stderr: bytes
    files: dict[str, bytes]
    odd: tuple[str, ...]


def pack(job: Job, place: Place) -> bytes:
    """The frame that the first process reads."""
    laid = [(f"work/{path}", data, 0o755 if path in job.executable else 0o644) for path, data in job.files.items()]
    laid += [(f"home/{path}", data, 0o600) for path, data in job.home.items()]
    head = {
        "isolated": place.isolated,
        "command": list(job.command),
        "env": environment(job, place),
        "root": place.root,
        "files": [[path, len(data), mode] for path, data, mode in laid],
        "size": sum(len(data) for _, data, _ in laid),
        "mounts": place.mounts,
        "socket": place.socket,
        "port": place.port,
        "limits": vars(job.limits) | {"tasks": place.tasks},
    }
    data = json.dumps(head).encode()
    return b"".join((len(data).to_bytes(8, "big"), data, *(data for _, data, _ in laid)))


def environment(job: Job, place: Place) -> dict[str, str]:
    """All of the command's environment but `MACHINE_MODEL_URL`, which is added inside: nothing of the caller's."""
    return {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8"} | dict(job.env) | {
        "HOME": f"{place.root}/home", "TMPDIR": place.temporary, "MACHINE_WORK": f"{place.root}/work",
    }  # fmt: skip


def most(job: Job) -> int:
    """The most bytes that a whole result can have."""
    return len(BEGUN) + 8 + LARGEST_HEAD + 2 * job.limits.output + job.limits.disk


def unpack(data: bytes, job: Job) -> Result:
    """Reads a result, checking all that it says.

    Raises:
        BrokenBox: it is cut off, does not add up, or goes beyond the job's limits.
    """
    try:
        return _unpack(data, job)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BrokenBox(f"the sandbox's result cannot be read: {error}", next_step="run it again") from error


def _unpack(data: bytes, job: Job) -> Result:
    _hold(data.startswith(BEGUN), "it has not begun")
    data = data.removeprefix(BEGUN)
    size = int.from_bytes(data[:8], "big")
    _hold(len(data) > 8 and size <= LARGEST_HEAD, "its head is too long")
    head = json.loads(data[8 : 8 + size])
    sizes = [head["stdout"], head["stderr"], *(size for _, size in head["files"])]
    _hold(len(head["files"]) <= FILES and len(head["odd"]) <= ODD, "it has too many files")
    _hold(all(type(n) is int and n >= 0 for n in sizes), "a size is not a number")
    _hold(max(sizes[:2]) <= job.limits.output, "it holds too much output")
    _hold(sum(sizes[2:]) <= job.limits.disk, "it holds too much data")
    _hold(8 + size + sum(sizes) == len(data), "it is cut off")
    parts = _parts(memoryview(data)[8 + size :], sizes)
    _hold(head["ended"] in get_args(Ended) and type(head["seconds"]) is float, "its end is not one")
    _hold(head["code"] is None or type(head["code"]) is int, "its exit code is not one")
    files: dict[str, bytes] = {}
    for (path, _), content in zip(head["files"], parts[2:], strict=True):
        _hold(isinstance(path, str) and is_inside(path) and path not in files, "a path leaves the work folder")
        files[path] = content
    odd = tuple(str(name)[:1100].encode("utf-8", "backslashreplace").decode() for name in head["odd"])
    return Result(head["code"], head["ended"], head["seconds"], parts[0], parts[1], files, odd)


def _parts(view: memoryview, sizes: list[int]) -> list[bytes]:
    parts = []
    for size in sizes:
        parts.append(bytes(view[:size]))
        view = view[size:]
    return parts


def _hold(true: bool, otherwise: str) -> None:
    if not true:
        raise ValueError(otherwise)
