"""Process: a Python process of its own for scorers that may hang or crash: patterns, schemas, the user's functions.

One process scores the answers of a whole evaluation, one at a time; one that is slow or dead is replaced. It has a
session of its own, so that Ctrl-C in the terminal reaches this side alone, and whatever it started ends with it.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import msgspec

from machine.errors import Refused, TrainingError
from machine.evals.case import Case, function_of
from machine.evals.child import Answer, Question
from machine.evals.sample import Sample
from machine.privacy.sources import without_secrets

SECONDS = 10.0
"""How long the user's function may take with one answer."""
PATTERN_SECONDS = 5.0
"""How long a pattern or a schema may: thousands of times what any but a catastrophic one needs."""
LOAD_SECONDS = 120.0
"""How long it may take the first time a file is used, which loads it."""


class TooSlow(Exception):
    """A pattern or a schema was not through with an answer in `PATTERN_SECONDS`."""


class Process:
    """Scores in a process that starts when it is first needed; `evals` is the folder of the suite."""

    def __init__(self, evals: Path, seconds: float = SECONDS) -> None:
        self._evals, self._seconds = evals, seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._loaded: set[Path] = set()

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def score(self, case: Case, sample: Sample) -> float:
        """The score of a sample by the case's pattern, schema or function.

        Raises:
            TooSlow: the pattern or the schema takes too long.
            Refused: the user's function raised, returned no score, took too long, or ended the process.
        """
        question = Question(case, sample.text, sample.message or {})
        limit = min(self._seconds, PATTERN_SECONDS)
        if case.scorer.kind == "python":
            limit = self._seconds
            path, name = function_of(str(case.scorer.value), self._evals)
            question.function = (str(path), name)
            if path not in self._loaded:
                limit = max(limit, LOAD_SECONDS)
            self._loaded.add(path)
        try:
            answer = self._ask(question, limit)
        except queue.Empty:
            self._end()
            if question.function is None:
                raise TooSlow from None
            answer = Answer(fault=f"took longer than {limit:g} s")
        if answer.fault:
            words = f"case {case.id}: {case.scorer.value if question.function else case.scorer.kind} {answer.fault}"
            step = f"mend {question.function[0] if question.function else 'the scorer in the suite'}"
            raise Refused(words, next_step=f"{step}, then run the command again: no answer is lost")
        return answer.score

    def _ask(self, question: Question, limit: float) -> Answer:
        child = self._running()
        assert child.stdin
        try:
            child.stdin.write(msgspec.json.encode(question) + b"\n")
            child.stdin.flush()
        except OSError:
            line = b""
        else:
            line = self._lines.get(timeout=limit)
        if not line:
            self._end()
            return Answer(fault="ended the process that scores")
        return msgspec.json.decode(line, type=Answer)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            command = [sys.executable, "-P", "-m", "machine.evals.child"]
            self._lines = queue.SimpleQueue()
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self._evals,
                env=without_secrets(os.environ),
                start_new_session=True,
                umask=-1 if sys.platform == "win32" else 0o077,
            )
            threading.Thread(target=_read, args=(self._child, self._lines), daemon=True).start()
            try:
                ready = self._lines.get(timeout=LOAD_SECONDS)
            except queue.Empty:
                ready = b""
            if not ready:
                self._end()
                raise TrainingError("the process that scores does not start", next_step="machine doctor")
        return self._child

    def _end(self) -> None:
        child, self._child, self._loaded = self._child, None, set()
        if child is not None:
            if sys.platform != "win32":  # what the user's function started goes too
                with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone already
                    os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child.wait()
            assert child.stdin
            child.stdin.close()


def _read(child: subprocess.Popen[bytes], lines: "queue.SimpleQueue[bytes]") -> None:
    """Passes lines on; an empty one says that the process has ended."""
    assert child.stdout
    with child.stdout:
        for line in child.stdout:
            lines.put(line)
    lines.put(b"")
