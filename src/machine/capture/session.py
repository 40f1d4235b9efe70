"""A Pi session file: a header and entries that form a tree. Untrusted data, read as bytes framed by LF alone.

Source: Pi's `docs/session-format.md` (version 3).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
            SessionFault: `leaf` is unknown, an entry's parent is missing, or parents form a cycle.
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
            seen.add(current)
            found.append(entry)
            current = entry.get("parentId")
        return found[::-1]

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
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise SessionFault(f"{file}: {error.strerror}", next_step="check --session") from error
    lines = raw.split(b"\n")
    header = _record(lines[0])
    if header is None or header.get("type") != "session":
        raise SessionFault(f"{file}: line 1 is not the header of a Pi session", next_step="check --session")
    if header.get("version") != VERSION:
        raise SessionFault(
            f"{file}: session version {header.get('version')!r}; this Machine reads version {VERSION}",
            next_step="open it once in a current Pi, which rewrites it, then tag it again",
        )
    entries: list[Entry] = []
    damaged: list[int] = []
    at_line: dict[str, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        entry = _record(line)
        if entry is None or not isinstance(entry.get("id"), str) or not isinstance(entry.get("type"), str):
            damaged.append(number)
            continue
        if entry["id"] in at_line:
            raise SessionFault(f"{file}: line {number} repeats the id {entry['id']} of line {at_line[entry['id']]}")
        at_line[entry["id"]] = number
        entries.append(entry)
    return Session(str(header.get("id", "")), str(header.get("cwd", "")), file, entries, damaged)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
