"""Kept: the attempts of one model in `<folder>/attempts.jsonl`, and Pi's events of each in `<folder>/transcripts/`.

The first line says who was asked and how; each further line is an attempt. An attempt's transcript is written before
its line: a crash loses at most the attempt that is under way, and what it leaves of a line is cut off. Attempts of
another model, or asked otherwise, are set aside beside the new ones under the first number that is free, not dropped.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from machine.agentic.attempt import Attempt
from machine.agentic.task import Task
from machine.errors import Refused, StoreError
from machine.store.files import append_line, explained, private_folder, whole_lines, write_private

ATTEMPTS = "attempts.jsonl"
TRANSCRIPTS = "transcripts"


class Header(msgspec.Struct, frozen=True):
    """Who is asked, and how: attempts under one header can be counted together. `limits` are those of the box."""

    model: str
    instruction: str | None
    context: int
    max_tokens: int
    temperature: float | None
    limits: dict[str, float]
    pi: str
    version: int = 1

    def differences(self, other: "Header") -> list[str]:
        """What two headers do not agree in, in words."""
        names = [name for name in self.__struct_fields__ if getattr(self, name) != getattr(other, name)]
        return ["another " + {"pi": "version of Pi", "max_tokens": "max-tokens"}.get(name, name) for name in names]


class Kept:
    """The attempts that are there already, by task.

    `aside` says where earlier attempts were set aside to, and why; empty where none were.
    """

    def __init__(self, folder: Path, header: Header, *, again: bool = False) -> None:
        self.folder, self.path = private_folder(folder), folder / ATTEMPTS
        self.attempts: dict[str, Attempt] = {}
        self.aside = ""
        lines = whole_lines(self.path)
        why = self._reasons(lines, header, again)
        if why:
            self.aside = f"{_set_aside(folder)} holds the earlier attempts: {', '.join(why)}"
        private_folder(folder / TRANSCRIPTS)
        if why or not lines:
            write_private(self.path, msgspec.json.encode(header) + b"\n")
        for number, line in enumerate([] if why else lines[1:], 2):
            attempt = self._attempt(number, line)
            self.attempts[attempt.task] = attempt

    def ensure_same(self, tasks: Iterable[Task]) -> None:
        """Raises where a task is not what it was when it was tried.

        Raises:
            Refused: it names the tasks.
        """
        other = [task.id for task in tasks if task.id in self.attempts and self.attempts[task.id].digest != task.digest]
        if other:
            raise Refused(
                f"{len(other)} task(s) are no longer what they were when they were tried: {', '.join(other)}",
                next_step=f"try all of them anew, or draw the tasks as {self.path} has them",
            )

    def add(self, attempt: Attempt, events: bytes) -> None:
        """Keeps an attempt and its events, durably."""
        write_private(self.folder / TRANSCRIPTS / attempt.transcript, events)
        append_line(self.path, msgspec.json.encode(attempt), cut_torn=True)
        self.attempts[attempt.task] = attempt

    def _reasons(self, lines: list[bytes], header: Header, again: bool) -> list[str]:
        """Why what is there cannot be gone on with; empty where it can, or where nothing is there."""
        if not lines:
            return []
        try:
            found = msgspec.json.decode(lines[0], type=Header)
        except msgspec.MsgspecError:
            return ["its first line cannot be read"]
        return found.differences(header) or (["asked for anew"] if again else [])

    def _attempt(self, number: int, line: bytes) -> Attempt:
        try:
            return msgspec.json.decode(line, type=Attempt)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"{self.path} line {number} is damaged: {error}", next_step=f"remove that line from {self.path}"
            ) from error


def read_attempts(folder: Path) -> tuple[Header, list[Attempt]]:
    """The attempts in a folder, and how they were asked for; nothing is changed.

    Raises:
        Refused: there are none.
        StoreError: the file cannot be read, or a line is damaged.
    """
    path = folder / ATTEMPTS
    lines = whole_lines(path)
    if not lines:
        raise Refused(f"there are no attempts in {folder}", next_step="try the tasks first")
    number = 1
    try:
        header = msgspec.json.decode(lines[0], type=Header)
        attempts = []
        for number, line in enumerate(lines[1:], 2):  # noqa: B007
            attempts.append(msgspec.json.decode(line, type=Attempt))
    except msgspec.MsgspecError as error:
        raise StoreError(f"{path} line {number} is damaged: {error}", next_step=f"remove {path}") from error
    return header, attempts


def _set_aside(folder: Path) -> Path:
    """Moves attempts and transcripts to the first number that is free; returns the file of the attempts."""
    number = 1
    while (folder / f"attempts.{number}.jsonl").exists() or (folder / f"{TRANSCRIPTS}.{number}").exists():
        number += 1
    path = folder / f"attempts.{number}.jsonl"
    with explained(folder):
        if (folder / TRANSCRIPTS).exists():
            (folder / TRANSCRIPTS).rename(folder / f"{TRANSCRIPTS}.{number}")
        (folder / ATTEMPTS).rename(path)
    return path
