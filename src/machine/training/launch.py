"""Launch: run the training page as a child process, its lines on screen, Ctrl-C passed on once and properly.

The child has a session of its own, so that a Ctrl-C in the terminal reaches this side alone, which passes it on:
the child then saves its state and ends by itself. A second Ctrl-C ends it at once. If this side dies, the child
notices at its next line, saves and stops.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from machine.errors import TrainingError

_LAST_LINES = 5


@dataclass(frozen=True)
class Fault:
    """What the page said at its end: the cause, what to do next, and its exit code."""

    message: str
    next_step: str
    exit_code: int


def launch(page: Path, arguments: Sequence[str], progress: Callable[[str], None]) -> Fault | None:
    """Runs `page` with this Python until it ends, every line that it prints given to `progress`. None: it succeeded."""
    command = [sys.executable, str(page), *arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONIOENCODING": "utf-8"}
    with tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(
                command,
                cwd=page.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise TrainingError(f"{page} cannot be started: {error}", next_step="machine doctor") from error
        with child:
            stopped = _follow(child, progress)
        if child.returncode == 0:
            return None
        errors.seek(0)
        return _fault(errors.read().decode("utf-8", "replace"), child.returncode, stopped)


def _follow(child: "subprocess.Popen[str]", progress: Callable[[str], None]) -> bool:
    """Shows the child's lines until it ends; True when it was asked to stop."""
    asked = 0
    while True:
        try:
            for line in child.stdout or ():
                progress(line.rstrip("\n"))
            child.wait()
            return asked > 0
        except KeyboardInterrupt:
            asked += 1
            progress("saving the state before stopping; once more to stop at once")
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGINT if asked <= 2 else signal.SIGKILL)


def _fault(text: str, code: int, stopped: bool) -> Fault:
    """The page's two last lines where it ended as pages do, else that it was stopped, or the end of what it wrote."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    said = {name: line.removeprefix(name) for line in lines for name in ("error: ", "next: ") if line.startswith(name)}
    exit_code = code if code in (1, 2) else 1
    if "error: " in said:
        return Fault(said["error: "], said.get("next: ", ""), exit_code)
    if stopped:
        return Fault("stopped at once; what was saved before stays", "machine train runs", 1)
    tail = " | ".join(lines[-_LAST_LINES:]) or f"it ended with {code} and said nothing"
    return Fault(
        f"the training page failed: {tail}", "mend train_sft.py, or write it anew: machine train sft --force", 1
    )
