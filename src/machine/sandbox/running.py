"""Starts a box, feeds it its job, listens to it, and ends it, whatever happens; every kind of box goes through here."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from machine.errors import Refused
from machine.sandbox import frame
from machine.sandbox.frame import BrokenBox, Place, Result
from machine.sandbox.job import Ended, Job, Outcome
from machine.sandbox.relay import Relay

GRACE = 30.0
"""Seconds that a box may take to start and to report, beyond the job's own; then it is ended from outside."""
_COMPLAINT = 1 << 16
_PATIENCE = 3.0
_LONGEST_SOCKET = 100


@dataclass(frozen=True)
class Plan:
    """How to start one box: its command line and what the job is told; `met` is asked last, `end` always called."""

    command: list[str]
    place: Place
    env: Mapping[str, str]
    met: Callable[[], Ended | None] = lambda: None
    end: Callable[[], None] = lambda: None


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder of this run alone, mode 0700, removed with all that lies in it."""
    folder = Path(tempfile.mkdtemp(prefix="machine-box-"))
    try:
        if len(str(folder / "model.sock")) > _LONGEST_SOCKET:
            raise Refused(f"{folder} is too long a path for a socket", next_step="set TMPDIR to a shorter folder")
        yield folder
    finally:
        _remove(folder)


def run(job: Job, folder: Path, box: str, plan: Callable[[], Plan]) -> Outcome:
    """Runs the job in the box that `plan` describes once the relay's socket lies in `folder`.

    Raises:
        BrokenBox: the box did not come as far as the command.
    """
    with contextlib.ExitStack() as held:
        child: list[_Child] = []
        relay = (
            Relay(job.door, folder / "model.sock", job.limits.requests, lambda: child[0].spent()) if job.door else None
        )
        if relay:
            held.enter_context(relay)
        planned = plan()
        held.callback(planned.end)
        child.append(_Child(planned, job))
        held.callback(child[0].stop)
        result = child[0].result(planned)
    return Outcome(
        code=result.code, ended=result.ended, stdout=result.stdout, stderr=result.stderr, files=result.files,
        odd=result.odd, seconds=result.seconds, requests=tuple(relay.requests) if relay else (),
        refused=tuple(relay.refused) if relay else (), box=box,
    )  # fmt: skip


class _Child:
    """The box's process on this side, with a thread on each of its streams."""

    def __init__(self, plan: Plan, job: Job) -> None:
        self._job = job
        self._began = time.monotonic()
        try:
            self._process = subprocess.Popen(
                plan.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                env=dict(plan.env), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise _crowded(error) from error
        self._said, self._complaint = bytearray(), bytearray()
        data = frame.pack(job, plan.place)
        assert self._process.stdout
        assert self._process.stderr
        self._threads = [
            threading.Thread(target=self._feed, args=(data,), daemon=True),
            threading.Thread(target=self._keep, args=(self._process.stdout, self._said, frame.most(job)), daemon=True),
            threading.Thread(target=self._keep, args=(self._process.stderr, self._complaint, _COMPLAINT), daemon=True),
        ]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            self._process.kill()
            self._process.wait()
            raise _crowded(error) from error

    def spent(self) -> None:
        """Tells the box that its requests are used up."""
        self._feed(b"r")

    def result(self, plan: Plan) -> Result:
        """Waits for the end, and reads what the box says of it."""
        late = False
        try:
            self._process.wait(self._job.limits.seconds + GRACE)
        except subprocess.TimeoutExpired:
            late = True
        self.stop()
        met: Ended | None = "time" if late else plan.met()
        try:
            result = frame.unpack(bytes(self._said), self._job)
        except BrokenBox as error:
            if met is None and self._said.startswith(frame.BEGUN):
                met = "broken"
            if met is None:
                complaint = self._complaint.decode(errors="replace").strip()[-500:]
                raise BrokenBox(f"the sandbox did not start: {complaint or error.message}",
                                next_step="run `machine doctor`") from error  # fmt: skip
            return Result(None, met, time.monotonic() - self._began, b"", b"", {}, ())
        return replace(result, ended=met) if met and result.ended == "exited" else result

    def stop(self) -> None:
        """Ends the box: its first process dies with this one's child, and all others with it."""
        for blow in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, blow)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_PATIENCE)
        for thread in self._threads:
            thread.join(_PATIENCE)
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _feed(self, data: bytes) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _keep(self, stream: IO[bytes], kept: bytearray, most: int) -> None:
        """Reads to the end and keeps the first `most` bytes."""
        with stream:
            while data := os.read(stream.fileno(), 1 << 16):
                kept.extend(data[: most - len(kept)])


def _remove(folder: Path) -> None:
    """Removes a folder, also one that a job without a box has locked or made deeper than Python follows."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for words in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*words, "--", str(folder)], capture_output=True)


def _crowded(error: Exception) -> BrokenBox:
    return BrokenBox(
        f"the sandbox could not be started: {error}", next_step="close what else is running, then try again"
    )
