"""A Pi session file: a header and entries that form a tree. Untrusted data, read as bytes framed by LF alone.

Source: Pi's `docs/session-format.md` (version 3).
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from machine.capture.shapes import check
from machine.errors import SessionFault

Entry = dict[str, Any]
VERSION = 3


@dataclass(frozen=True)
class Session:
    """A session as read. `damaged` are the lines (1-based) that are not entries."""

    id: str
    cwd: str
    file: Path | None
    entries: Sequence[Entry]
    damaged: Sequence[int] = ()

    def path(self, leaf: str | None = None) -> list[Entry]:
        """The active path, root first, up to `leaf` (None: the last entry, which is where Pi would resume).

        Raises:
            SessionFault: `leaf` is unknown, an entry's parent is missing, parents form a cycle, or an entry on the path
                has not the shape that its type must have.
        """
        by_id = {entry["id"]: entry for entry in self.entries}
        current = leaf or (self.entries[-1]["id"] if self.entries else None)
        found: list[Entry] = []
        seen: set[str] = set()
        while current is not None:
            entry = by_id.get(current)
            if entry is None:
                child = found[-1]["id"] if found else None
                what = f"entry {child} names parent {current}, which is not there" if child else f"no entry {current}"
                raise SessionFault(f"{self._name()}: {what}", next_step=self._damage_hint())
            if current in seen:
                raise SessionFault(
                    f"{self._name()}: entry {current} is its own ancestor", next_step=self._damage_hint()
                )
            self._check(entry)
            seen.add(current)
            found.append(entry)
            current = entry.get("parentId")
        return found[::-1]

    def _check(self, entry: Entry) -> None:
        try:
            check(entry)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise SessionFault(
                f"{self._name()}: entry {entry['id']} is malformed: {error}",
                next_step="tag a turn that does not depend on that entry",
            ) from error

    def _name(self) -> str:
        return str(self.file) if self.file else f"session {self.id}"

    def _damage_hint(self) -> str:
        if self.damaged:
            return f"line {self.damaged[0]} of the file is damaged; tag a turn that does not depend on it"
        return "check --session and --leaf"


def read(file: Path) -> Session:
    """Reads a session file.

    Raises:
        SessionFault: not there, not a Pi session, of an unknown version, or with two entries of one id.
    """
    entries: dict[str, Entry] = {}
    damaged: list[int] = []
    try:
        with file.open("rb") as lines:  # of bytes: they end at LF, and nowhere else
            header = _header(file, lines.readline())
            for number, line in enumerate(lines, start=2):
                if not line.strip():
                    continue
                entry = _record(line)
                if entry is None or not _linked(entry):
                    damaged.append(number)
                elif entry["id"] in entries:
                    raise SessionFault(
                        f"{file}: line {number} repeats the id {entry['id']}",
                        next_step="two entries of one id: the session cannot be told apart; tag in another session",
                    )
                else:
                    entries[entry["id"]] = entry
    except SessionFault:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise SessionFault(f"{file}: {getattr(error, 'strerror', error)}", next_step="check --session") from error
    return Session(str(header.get("id", "")), header.get("cwd") or "", file.absolute(), list(entries.values()), damaged)


def _header(file: Path, line: bytes) -> dict[str, Any]:
    header = _record(line)
    if header is None or header.get("type") != "session":
        raise SessionFault(f"{file}: line 1 is not the header of a Pi session", next_step="check --session")
    if header.get("version") != VERSION:
        raise SessionFault(
            f"{file}: session version {header.get('version')!r}; this Machine reads version {VERSION}",
            next_step="open it once in a current Pi, which rewrites it, then tag it again",
        )
    cwd = header.get("cwd") or ""
    if not isinstance(cwd, str) or (cwd and not _is_absolute(cwd)):
        raise SessionFault(f"{file}: the header's cwd is not an absolute path", next_step="check --session")
    return header


def _is_absolute(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path) and Path(path).is_absolute()
    except UnicodeEncodeError:
        return False


def _linked(entry: dict[str, Any]) -> bool:
    """Whether an entry says what it is and where it hangs in the tree."""
    named = isinstance(entry.get("id"), str) and isinstance(entry.get("type"), str)
    return named and isinstance(entry.get("parentId"), str | None)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
