"""The kernel's own limits on a box's memory and tasks, where this user can have a control group.

Two ways: a group of our own under the first version's hierarchies (usually root alone may), or a transient scope of the
user's systemd (second version, most Linux desktops and servers). Without either, the box's own watch and its resource
limits are what holds: memory that no process maps (a `memfd`, System V segments) then escapes the count.
"""

import contextlib
import functools
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from machine.sandbox.job import Ended

MOUNT = Path("/sys/fs/cgroup")
_PATIENCE = 10.0
_JOIN = 'echo $$ > "$0" && echo $$ > "$1" && shift && exec "$@"'


class Group:
    """No group: commands run as they are."""

    def around(self, command: list[str]) -> list[str]:
        """The command line that runs `command` in the group."""
        return command

    def met(self) -> Ended | None:
        """Which of the group's limits was met, once the command has ended."""
        return None


class Scope(Group):
    """A transient scope of the user's systemd, which ends with its last process."""

    def __init__(self, memory: int, tasks: int) -> None:
        self._memory, self._tasks = memory, tasks

    def around(self, command: list[str]) -> list[str]:
        """The command line that runs `command` in the group."""
        bounds = [f"MemoryMax={self._memory}", "MemorySwapMax=0", f"TasksMax={self._tasks}"]
        words = ["systemd-run", "--user", "--scope", "--quiet", "--collect"]
        return [*words, *(f"--property={b}" for b in bounds), "--", *command]


class Folders(Group):
    """A group in each of the hierarchies `memory` and `pids` of the first version."""

    def __init__(self, memory: Path, pids: Path) -> None:
        self._memory, self._pids = memory, pids

    def around(self, command: list[str]) -> list[str]:
        """The command line that runs `command` in the group."""
        files = [str(self._memory / "cgroup.procs"), str(self._pids / "cgroup.procs")]
        return ["/bin/sh", "-c", _JOIN, *files, *command]

    def met(self) -> Ended | None:
        """Which of the group's limits was met, once the command has ended."""
        if _counter(self._memory / "memory.oom_control", "oom_kill"):
            return "memory"
        return "processes" if _counter(self._pids / "pids.events", "max") else None


@contextlib.contextmanager
def group(memory: int, tasks: int) -> Iterator[Group]:
    """The best group to be had, of `memory` bytes and `tasks` processes and threads; gone afterwards."""
    with contextlib.ExitStack() as made:
        try:
            folders = [made.enter_context(_folder(name)) for name in ("memory", "pids")]
            (folders[0] / "memory.limit_in_bytes").write_text(str(memory))
            with contextlib.suppress(OSError):
                (folders[0] / "memory.memsw.limit_in_bytes").write_text(str(memory))
            (folders[1] / "pids.max").write_text(str(tasks))
        except OSError:
            yield Scope(memory, tasks) if has_scopes() else Group()
        else:
            yield Folders(*folders)


@functools.cache
def has_scopes() -> bool:
    """Whether the user's systemd gives a scope: found out by asking for one."""
    if not (MOUNT / "cgroup.controllers").exists() or not shutil.which("systemd-run"):
        return False
    try:
        done = subprocess.run(Scope(256 << 20, 64).around(["true"]), capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def environment() -> dict[str, str]:
    """What systemd's client has to know of this environment."""
    names = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
    return {name: os.environ[name] for name in names if name in os.environ}


@contextlib.contextmanager
def _folder(controller: str) -> Iterator[Path]:
    own = {c: p for _, names, p in _own_groups() for c in names.split(",")}
    if controller not in own:
        raise FileNotFoundError(controller)
    folder = MOUNT / controller / own[controller].lstrip("/") / f"machine-box-{os.getpid()}-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        _remove(folder)


def _own_groups() -> list[list[str]]:
    return [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]


def _remove(folder: Path) -> None:
    """Ends what is left in a group, which can grow no more, and removes it; the last process takes a moment to go."""
    with contextlib.suppress(OSError):
        if (folder / "pids.max").exists():
            (folder / "pids.max").write_text("0")
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        with contextlib.suppress(OSError, ValueError):
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
        time.sleep(0.01)


def _counter(file: Path, name: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(dict(line.split() for line in file.read_text().splitlines()).get(name, 0))
    return 0
