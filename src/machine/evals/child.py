"""Child: the far end of `process`, `python -P -m machine.evals.child`: scores one answer a line, from stdin to stdout.

A line is {case, text, message, function}: `function` is the file and the name of the user's own function, or null. The
answer is {score} or {fault}. What the user's function prints goes to stderr; it has nothing to read.

Whoever started it ends it when an answer takes too long. Where that one is gone, the system's alarm does (POSIX): a
pattern that never ends would never see that its input has.
"""

import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from machine.evals.case import Case
from machine.evals.score import score

LONGEST = 180
"""Seconds after which an answer that is not there ends the process; more than `process` ever waits."""


class Question(msgspec.Struct):
    """An answer to be scored."""

    case: Case
    text: str
    message: dict[str, Any]
    function: tuple[str, str] | None = None


class Answer(msgspec.Struct):
    """Its score, or why there is none."""

    score: float = 0.0
    fault: str = ""


class Functions:
    """The user's functions, each file loaded once; its folder is where it imports from."""

    def __init__(self) -> None:
        self._modules: dict[str, Any] = {}

    def score(self, question: Question, file: str, name: str) -> Answer:
        """What the function gives, checked to be a truth value or a number from 0 to 1."""
        me = os.getpid()
        try:
            function: Callable[..., Any] = getattr(self._module(file), name)
            found = function(question.text, msgspec.to_builtins(question.case), question.message)
        except (Exception, SystemExit) as error:
            return Answer(fault=f"raised {type(error).__name__}{_line(error, file)}: {error}")
        finally:
            if os.getpid() != me:  # it forked, and this is the copy: only one of the two may answer
                os._exit(0)
        if isinstance(found, bool | int | float) and 0 <= found <= 1:
            return Answer(float(found))
        return Answer(fault=f"returned {found!r:.80}, not a truth value or a number from 0 to 1")

    def _module(self, file: str) -> Any:
        if file not in self._modules:
            sys.path.insert(0, str(Path(file).parent))
            spec = importlib.util.spec_from_file_location(f"scorer_{len(self._modules)}", file)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._modules[file] = module
        return self._modules[file]


def _line(error: BaseException, file: str) -> str:
    """Where in the user's file it was raised, the innermost place."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return f" at line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" at line {lines[-1]}" if lines else ""


def _answers(lines: BinaryIO) -> Iterator[Answer]:
    functions = Functions()
    for line in lines:
        question = msgspec.json.decode(line, type=Question)
        _alarm(LONGEST)
        if question.function:
            yield functions.score(question, *question.function)
        else:
            yield _plain(question)
        _alarm(0)


def _alarm(seconds: int) -> None:
    """The signal's default action, not a handler: Python's own would wait for the pattern."""
    if sys.platform != "win32":
        signal.alarm(seconds)


def _plain(question: Question) -> Answer:
    try:
        return Answer(score(question.case, question.text, question.message))
    except Exception as error:  # a schema's reference that leads nowhere, a nesting too deep
        return Answer(fault=f"raised {type(error).__name__}: {error}")


def main() -> None:
    """Says that it is ready, then answers until its input ends."""
    out, questions = os.fdopen(os.dup(1), "wb", buffering=0), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    out.write(b"ready\n")
    for answer in _answers(questions):
        out.write(msgspec.json.encode(answer) + b"\n")


if __name__ == "__main__":
    main()
