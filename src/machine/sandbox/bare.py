"""No box at all, for those who say so: a private folder, an environment of its own, and limits where they can be had.

What the command may do to this machine is what its user may do: read the home, reach the network, leave the group that
bounds it. What runs afterwards is ended: its process groups, the descendants of the first process, the control group,
and whatever still has the private folder in its environment or works in it.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from machine.errors import Refused
from machine.sandbox import cgroup, frame, running
from machine.sandbox.job import MIB, Job, Outcome
from machine.sandbox.view import PROGRAM, first_process

_SLACK = 64 * MIB
_PATIENCE = 5.0


class Bare:
    """Runs jobs without a box."""

    name = "none"

    def run(self, job: Job) -> Outcome:
        """Runs the job to its end in a folder that is removed afterwards.

        Raises:
            Refused: on Windows.
        """
        if sys.platform == "win32":
            raise Refused("jobs do not run on Windows", next_step="use Linux, or the Windows Subsystem for Linux")
        limits = job.limits
        tasks, memory = 8 * limits.processes, limits.memory + limits.disk + 2 * limits.output + _SLACK
        with running.private_folder() as folder, cgroup.group(memory, tasks + 16) as group:
            root = folder / "root"
            (root / "tmp").mkdir(parents=True)
            socket = str(folder / "model.sock") if job.door else ""
            place = frame.Place(str(root), str(root / "tmp"), isolated=False, socket=socket, tasks=tasks)
            command = group.around(first_process(str(PROGRAM.parent)))
            env = {"PATH": frame.DEFAULT_PATH} | cgroup.environment()
            return running.run(
                job, folder, self.name, lambda: running.Plan(command, place, env, group.met, lambda: sweep(folder))
            )


def sweep(folder: Path) -> None:
    """Ends every process that has `folder` in its environment or its current folder in it; waits until none is left."""
    until = time.monotonic() + _PATIENCE
    while (found := list(_strays(folder))) and time.monotonic() < until:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _strays(folder: Path) -> Iterator[int]:
    mark = os.fsencode(folder)
    for process in Path("/proc").glob("[0-9]*") if sys.platform == "linux" else ():
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes() or (process / "cwd").readlink().is_relative_to(folder):
                yield int(process.name)
