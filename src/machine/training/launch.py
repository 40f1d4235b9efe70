"""Launch: run the training page as a child process, its lines on screen, Ctrl-C passed on once and properly.

The child is started before the user is asked, loads its libraries meanwhile, and runs the page when told (`gate.py`).
It has a session of its own, so that a Ctrl-C in the terminal reaches this side alone, which passes it on: the child
then saves its state and ends by itself. A second Ctrl-C ends it at once. If this side dies, the child notices at its
next line, saves and stops.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from machine.errors import TrainingError
from machine.store.files import write_all
from machine.training.gate import GO

LIBRARIES = ("tinker", "transformers.tokenization_utils_base", "tinker_cookbook.renderers")
"""What a page takes seconds to load."""

_LAST_LINES = 5


@dataclass(frozen=True)
class Fault:
    """What the page said at its end: the cause, what to do next, and its exit code."""

    message: str
    next_step: str
    exit_code: int


class Page:
    """The page at `page` in a child process with this Python, ready to run. Leave it unrun, and nothing of it runs."""

    def __init__(self, page: Path, arguments: Sequence[str], libraries: Sequence[str] = ()) -> None:
        environment = os.environ | {"PYTHONUNBUFFERED": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONIOENCODING": "utf-8"}
        environment["COLUMNS"] = str(shutil.get_terminal_size().columns - 1)  # the last one stays free for the cursor
        command = [sys.executable, "-m", "machine.training.gate", ",".join(libraries), str(page), *arguments]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by __exit__)
        try:
            self._child = subprocess.Popen(
                command,
                cwd=page.parent,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
                umask=-1 if sys.platform == "win32" else 0o077,
            )
        except OSError as error:
            self._errors.close()
            raise TrainingError(f"{page} cannot be started: {error}", next_step="machine doctor") from error

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._child.poll() is None:
            self._child.kill()
        with self._errors, self._child:
            pass

    def run(self, progress: Callable[[str], None], given: bytes = b"") -> Fault | None:
        """Runs the page to its end, every line that it prints given to `progress`. None: it succeeded.

        `given` is what was rendered already (see `handover`).
        """
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self._child.stdin as stdin:
                write_all(stdin.fileno(), GO + given)
        stopped = _follow(self._child, progress)
        if self._child.returncode == 0:
            return None
        self._errors.seek(0)
        return _fault(self._errors.read().decode("utf-8", "replace"), self._child.returncode, stopped)


def _follow(child: "subprocess.Popen[str]", progress: Callable[[str], None]) -> bool:
    """Shows the child's lines until it ends; True when it was asked to stop."""
    asked = 0
    while True:
        try:
            for line in child.stdout or ():
                try:
                    progress(line.rstrip("\n"))
                except OSError:  # nobody reads any more: the run is not to end without its state
                    asked, progress = asked + 1, _unheard
                    with contextlib.suppress(ProcessLookupError):
                        child.send_signal(signal.SIGINT)
            child.wait()
            return asked > 0
        except KeyboardInterrupt:
            asked += 1
            progress("saving the state before stopping; once more to stop at once")
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGINT if asked <= 2 else signal.SIGKILL)


def _unheard(line: str) -> None:
    """Progress that nobody sees."""


def _fault(text: str, code: int, stopped: bool) -> Fault:
    """The page's two last lines where it ended as pages do, else that it was stopped, or the end of what it wrote."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    said = {name: line.removeprefix(name) for line in lines for name in ("error: ", "next: ") if line.startswith(name)}
    exit_code = code if code in (1, 2) else 1
    if "error: " in said:
        return Fault(said["error: "], said.get("next: ", ""), exit_code)
    if stopped:
        return Fault("stopped at once; what was saved before stays", "machine train runs", 1)
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
        return Fault(
            f"the training page was killed ({name}); what was saved before stays", "machine train run --resume", 1
        )
    tail = " | ".join(lines[-_LAST_LINES:]) or f"it ended with {code} and said nothing"
    return Fault(
        f"the training page failed: {tail}", "mend train_sft.py, or write it anew: machine train sft --force", 1
    )
