"""Log: every step of every release of a project, `releases/log.jsonl`, append-only and hash-chained.

Each entry holds the SHA-256 of the one before it, so that none can be changed, left out or put in without a break that
`faults` names. `head.json` says how far the log reached, so that entries that were cut off its end are missed too. It
is no signature: whoever rewrites all of the log and the head is not found out.

A crash loses at most the entry being written; what it left of that one is set aside by the next. The head may then be
one entry behind, never ahead of what is on disk; it is there before the first entry is.
"""

import contextlib
import getpass
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from machine.errors import Refused, StoreError
from machine.store.files import append_line, explained, locked, private_folder, write_private
from machine.trace import canonical, well_formed
from machine.training.run import now

Step = Literal[
    "drafted", "frozen", "amended", "candidate", "gating", "gated", "trial", "trial ended", "eligible", "activated",
    "rolled back", "rejected", "restarted",
]  # fmt: skip
LOG, HEAD, TORN, LOCK = "log.jsonl", "head.json", "log.torn", "log.lock"
FIRST = "0" * 64
"""What the first entry holds in place of a digest before it."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of one release's version, by whom, with what belongs to it; `at` is UTC, digests are SHA-256 (hex)."""

    number: int
    at: str
    release: str
    version: int
    step: Step
    by: str
    data: dict[str, Any]
    previous: str
    digest: str


class _Head(msgspec.Struct):
    number: int
    digest: str


def read(folder: Path) -> list[Entry]:
    """The entries, oldest first; none where there is no log.

    Raises:
        Refused: the chain is broken (the message names the first break).
    """
    found, broken = look(folder)
    if broken:
        raise _broken(broken)
    return found


def look(folder: Path) -> tuple[list[Entry], list[str]]:
    """The entries that can be read, and every break of the chain, in words.

    Raises:
        StoreError: it cannot be read at all.
    """
    entries, broken = _look(folder)
    if broken:  # or another process added some between the two files that were read
        with contextlib.suppress(StoreError), locked(folder / LOCK):
            return _look(folder)
    return entries, broken


def append(folder: Path, release: str, version: int, step: Step, data: dict[str, Any], by: str = "") -> Entry:
    """Adds an entry, durably, and returns it.

    Raises:
        Refused: the chain is broken; nothing was added.
        StoreError: it cannot be written; the log is as it was.
    """
    with locked(private_folder(folder) / LOCK):
        return _append(folder, release, version, step, data, by)


def restart(folder: Path, reason: str) -> Path:
    """Sets a broken log aside and begins another, whose first entry names it; returns where the old one is.

    Raises:
        Refused: the log is sound.
        StoreError: it cannot be read or written.
    """
    with locked(private_folder(folder) / LOCK):
        _, broken = _look(folder)
        if not broken:
            raise Refused(
                "the log of releases is sound, there is no reason to begin another", next_step="machine release"
            )
        held = _bytes(folder / LOG) or b""
        sha256 = hashlib.sha256(held).hexdigest()
        aside = folder / f"log.broken-{now()[:19].replace(':', '')}-{sha256[:8]}.jsonl"
        write_private(aside, held)
        with explained(folder):
            for name in (HEAD, LOG):
                (folder / name).unlink(missing_ok=True)
        about = {"reason": reason, "set_aside": aside.name, "sha256": sha256, "faults": broken}
        _append(folder, "", 0, "restarted", about)
    return aside


def user() -> str:
    """Who works here, by the system's name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


def _look(folder: Path) -> tuple[list[Entry], list[str]]:
    path, (head, broken) = folder / LOG, _head(folder)
    data = _bytes(path)
    if data is None:
        return [], [*broken, *([f"{path} is gone"] if head and head.number else [])]
    *lines, _torn = data.split(b"\n")
    entries, previous = list[Entry](), FIRST
    for number, line in enumerate(lines, 1):
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except (msgspec.MsgspecError, RecursionError) as error:
            broken.append(f"{path} line {number} is no entry: {error}")
            previous = ""
            continue
        if fault := _fault(entry, line, number, previous):
            broken.append(f"{path} line {number}: {fault}")
        entries.append(entry)
        previous = entry.digest
    if head:
        broken += _behind(path, head, entries)
    elif entries and not broken:
        broken.append(f"{folder / HEAD} is gone")
    return entries, broken


def _append(folder: Path, release: str, version: int, step: Step, data: dict[str, Any], by: str = "") -> Entry:
    before, broken = _look(folder)
    if broken:
        raise _broken(broken)
    if not before:
        _write_head(folder, _Head(0, FIRST))
    previous = before[-1].digest if before else FIRST
    plain = well_formed(msgspec.to_builtins(data))
    entry = Entry(len(before) + 1, now(), release, version, step, by or user(), plain, previous, "")
    entry = msgspec.structs.replace(entry, digest=_digest(entry))
    append_line(folder / LOG, msgspec.json.encode(entry), torn=folder / TORN)
    _write_head(folder, _Head(entry.number, entry.digest))
    return entry


def _broken(broken: Sequence[str]) -> Refused:
    return Refused(f"the log of releases is broken: {broken[0]}", next_step="machine release verify")


def _digest(entry: Entry) -> str:
    plain = msgspec.to_builtins(entry)
    del plain["digest"]
    return hashlib.sha256(canonical(plain)).hexdigest()


def _fault(entry: Entry, line: bytes, number: int, previous: str) -> str:
    if entry.number != number:
        return f"it is entry {entry.number}, and entry {number} belongs here"
    if entry.previous != previous:
        return "it does not follow the entry before it"
    if entry.digest != _digest(entry) or line != msgspec.json.encode(entry):
        return "it was changed after it was written"
    return ""


def _head(folder: Path) -> tuple[_Head | None, list[str]]:
    """How far the log reached, None where nothing says so; and what is wrong with the file that says it."""
    path = folder / HEAD
    try:
        data = _bytes(path)
        return (None if data is None else msgspec.json.decode(data, type=_Head)), []
    except (StoreError, msgspec.MsgspecError, RecursionError) as error:
        return None, [f"{path} cannot be read: {error}"]


def _behind(path: Path, head: _Head, entries: Sequence[Entry]) -> list[str]:
    """What the head knows and the log in `path` lacks."""
    if head.number > len(entries):
        return [f"{path} ends at entry {len(entries)}, and it had {head.number}"]
    named = entries[head.number - 1].digest if head.number > 0 else FIRST
    if not 0 <= len(entries) - head.number <= 1 or named != head.digest:
        return [f"{path.with_name(HEAD)} names another entry {head.number} than the log has"]
    return []


def _write_head(folder: Path, head: _Head) -> None:
    write_private(folder / HEAD, msgspec.json.encode(head) + b"\n")


def _bytes(path: Path) -> bytes | None:
    """None where there is no such file."""
    with explained(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
