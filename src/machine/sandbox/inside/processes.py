"""What runs in the box: counted, weighed, ended."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

_PATIENCE = 10.0
"""Seconds after which the killing is left to those outside."""


class Processes:
    """The other processes of the box; without a box those that descend from this one, which adopts their orphans."""

    def __init__(self, isolated: bool) -> None:
        self._isolated = isolated

    def groups(self) -> dict[int, int]:
        """The process group of each process, by id; zombies are among them."""
        if not Path("/proc/self/stat").exists():
            return {}
        pids = {int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()} - {os.getpid()}
        found = {pid: _parent_and_group(pid) for pid in pids}
        if self._isolated:
            return {pid: group for pid, (_, group) in found.items()}
        children: dict[int, list[int]] = {}
        for pid, (parent, _) in found.items():
            children.setdefault(parent, []).append(pid)
        known, stack = {}, [os.getpid()]
        while stack:
            for pid in children.get(stack.pop(), ()):
                known[pid] = found[pid][1]
                stack.append(pid)
        return known

    def kill(self, first: int, reap: Callable[[], None]) -> None:
        """Ends all processes, however fast they make new ones, and returns when none is left; `first` led the command.

        In a box one signal to all is one step for the kernel: nothing is born meanwhile. Without one a group at a
        time is struck so, again and again until two looks find none.
        """
        until, quiet = time.monotonic() + _PATIENCE, 0
        while quiet < 2 and time.monotonic() < until:
            if self._isolated:
                _strike(os.kill, -1)
            else:
                _strike(os.killpg, first)
                found = self.groups()
                for group in set(found.values()) - {0, os.getpgrp()}:
                    _strike(os.killpg, group)
                for pid in found:
                    _strike(os.kill, pid)
            reap()
            quiet = 0 if self.groups() else quiet + 1
            time.sleep(0.002)


def memory(pid: int) -> int:
    """Bytes that a process alone answers for: private, shared in memory, swapped; not the programs it maps."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    except OSError:
        return 0
    return sum(int(n.split()[1]) * 1024 for n in lines if n.startswith((b"RssAnon", b"RssShmem", b"VmSwap")))


def counts_by_namespace() -> bool:
    """Whether the kernel counts a user's processes by user namespace: older ones would count those outside too."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(filter(str.isdigit, minor)) or 0)) >= (5, 14)


def tasks_of_user() -> int:
    """How many processes and threads this user has now; a guess where that cannot be known."""
    tasks = 0
    for folder in Path("/proc").glob("[0-9]*/task") if sys.platform == "linux" else ():
        with contextlib.suppress(OSError):
            tasks += len(list(folder.iterdir())) if folder.stat().st_uid == os.getuid() else 0
    return tasks or 512


def _strike(kill: Callable[[int, int], None], whom: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(whom, signal.SIGKILL)


def _parent_and_group(pid: int) -> tuple[int, int]:
    """Both 0 where it has gone meanwhile."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(words[1]), int(words[2])
    except (OSError, IndexError):
        return 0, 0
