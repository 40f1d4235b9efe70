"""The command under its limits: its streams are read, its processes and files watched, its end told."""

import math
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import processes, tree

TURN = 0.05
"""Seconds between two looks at the limits."""


class Run:
    """One command under its limits: `code`, `ended`, `seconds` and the kept output once `watch` has returned."""

    def __init__(self, head: dict[str, Any]) -> None:
        self.isolated: bool = head["isolated"]
        self.folder, self.root = Path(head["root"]) / "work", Path(head["root"])
        self.mounts: list[str] = head["mounts"]
        self.limits: dict[str, Any] = head["limits"]
        self.kept = (bytearray(), bytearray())
        self.code: int | None = None
        self.ended = "exited"
        self.seconds = 0.0
        self._began = time.monotonic()
        self._pid = 0
        self._pipes: dict[int, bytearray] = {}
        self._processes = processes.Processes(self.isolated)

    def start(self, command: list[str], env: dict[str, str]) -> None:
        """Starts the command; one that cannot be started ends as a shell would say it, with code 127 or 126."""
        try:
            child = subprocess.Popen(
                command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, start_new_session=True, preexec_fn=self._bounds(),
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self.kept[1].extend(f"{command[0]}: {getattr(error, 'strerror', None) or error}\n".encode())
            self.code = 127 if isinstance(error, FileNotFoundError) else 126
            return
        assert child.stdout is not None
        assert child.stderr is not None
        self._pid = child.pid
        child.returncode = 0  # it is reaped here, with its orphans
        for pipe, kept in zip((child.stdout, child.stderr), self.kept, strict=True):
            copy = os.dup(pipe.fileno())
            os.set_blocking(copy, False)
            self._pipes[copy] = kept
            pipe.close()

    def _bounds(self) -> Callable[[], None]:
        """What the command's process does before it becomes the command: the limits that the kernel holds for it."""
        bounds = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: self.limits["file"],
            resource.RLIMIT_NOFILE: 1024,
            resource.RLIMIT_CPU: math.ceil(self.limits["seconds"]) * (os.cpu_count() or 1) + 1,
        }
        if not self.isolated:
            bounds[resource.RLIMIT_NPROC] = processes.tasks_of_user() + self.limits["tasks"]
        elif self.limits["tasks"] and processes.counts_by_namespace():
            bounds[resource.RLIMIT_NPROC] = self.limits["tasks"]

        def set_bounds() -> None:
            for kind, most in bounds.items():
                hard = resource.getrlimit(kind)[1]
                most = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(kind, (most, most))

        return set_bounds

    def watch(self) -> None:
        """Returns when the command has ended or met a limit, which `ended` then names."""
        looked = 0.0
        while self.code is None and self.ended == "exited":
            self._listen(TURN)
            self._reap()
            if time.monotonic() - looked >= TURN:
                self.ended = self._exceeded() if self.code is None else self.ended
                looked = time.monotonic()
        if self.ended == "exited" and self._pid and self._full():
            self.ended = "disk"
        self.seconds = time.monotonic() - self._began

    def _listen(self, seconds: float) -> None:
        ready, _, _ = select.select([0, *self._pipes], [], [], seconds)
        for descriptor in ready:
            if descriptor == 0:
                if os.read(0, 1) != b"r":
                    raise SystemExit("nobody listens any more")
                self.ended = "requests"
            else:
                self._take(descriptor)

    def _take(self, descriptor: int) -> bool:
        """Reads some output; whether there may be more. Output beyond the limit ends the job."""
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return False
        kept = self._pipes[descriptor]
        room = self.limits["output"] - len(kept)
        kept.extend(data[:room])
        if len(data) > room and self.ended == "exited":
            self.ended = "output"
        if not data:
            os.close(descriptor)
            del self._pipes[descriptor]
        return bool(data) and len(data) <= room

    def _reap(self) -> None:
        for _ in range(1000):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._pid and self.ended == "exited":
                self.code = os.waitstatus_to_exitcode(status)
                if self.code in (-signal.SIGXFSZ, -signal.SIGXCPU):
                    self.ended = "disk" if self.code == -signal.SIGXFSZ else "time"

    def _exceeded(self) -> str:
        limits = self.limits
        pids = self._processes.groups()
        if time.monotonic() - self._began > limits["seconds"]:
            return "time"
        if len(pids) > limits["processes"]:
            return "processes"
        if sum(map(processes.memory, pids)) > limits["memory"]:
            return "memory"
        return "disk" if self._full() else self.ended

    def _full(self) -> bool:
        size, inodes = tree.use(self.mounts) if self.isolated else tree.weigh(self.root)
        return size >= self.limits["disk"] or inodes > tree.INODES

    def end(self) -> None:
        """Ends every process of the job and waits for them; then takes what output they had left."""
        if self._pid:
            self._processes.kill(self._pid, self._reap)
            for descriptor in list(self._pipes):
                while self._take(descriptor):
                    pass
