"""Log: every step of every release of a project, `releases/log.jsonl`, append-only and hash-chained.

Each entry holds the SHA-256 of the one before it, so that none can be changed, left out or put in without a break that
`faults` names. `head.json` says how far the log reached, so that entries that were cut off its end are missed too. It
is no signature: whoever rewrites all of the log and the head is not found out.

A crash loses at most the entry being written; what it left of that one is set aside. The head may then be one entry
behind, never ahead of what is on disk.
"""

import getpass
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from machine.errors import Refused
from machine.store.files import append_line, explained, locked, private_folder, write_private
from machine.trace import canonical
from machine.training.run import now

Step = Literal[
    "drafted", "frozen", "amended", "candidate", "gating", "gated", "trial", "trial ended", "eligible", "activated",
    "rolled back", "rejected", "restarted",
]  # fmt: skip
LOG, HEAD, TORN = "log.jsonl", "head.json", "log.torn"
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
        raise Refused(f"the log of releases is broken: {broken[0]}", next_step="machine release verify")
    return found


def look(folder: Path) -> tuple[list[Entry], list[str]]:
    """The entries that can be read, and every break of the chain, in words."""
    path = folder / LOG
    if not path.exists():
        return [], [f"{path} is gone"] if (folder / HEAD).exists() else []
    with explained(path):
        *lines, torn = path.read_bytes().split(b"\n")
    entries, broken, previous = list[Entry](), list[str](), FIRST
    for number, line in enumerate(lines, 1):
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except msgspec.MsgspecError as error:
            broken.append(f"{path} line {number} is no entry: {error}")
            previous = ""
            continue
        if fault := _fault(entry, number, previous):
            broken.append(f"{path} line {number}: {fault}")
        entries.append(entry)
        previous = entry.digest
    if torn:
        broken += [] if _is_torn(torn) else [f"{path} line {len(lines) + 1} is a whole entry without an end"]
    return entries, broken + _behind(folder, entries)


def append(folder: Path, release: str, version: int, step: Step, data: dict[str, Any], by: str = "") -> Entry:
    """Adds an entry, durably, and returns it.

    Raises:
        Refused: the chain is broken; nothing was added.
        StoreError: it cannot be written; the log is as it was.
    """
    private_folder(folder)
    with locked(folder / "log.lock"):
        before = read(folder)
        previous = before[-1].digest if before else FIRST
        entry = Entry(len(before) + 1, now(), release, version, step, by or user(), data, previous, "")
        entry = msgspec.structs.replace(entry, digest=_digest(entry))
        append_line(folder / LOG, msgspec.json.encode(entry), torn=folder / TORN)
        write_private(folder / HEAD, msgspec.json.encode(_Head(entry.number, entry.digest)) + b"\n")
    return entry


def restart(folder: Path, reason: str) -> Path:
    """Sets a broken log aside and begins another, whose first entry names it; returns where the old one is.

    Raises:
        Refused: the log is sound.
    """
    with locked(private_folder(folder) / "log.lock"):
        _, broken = look(folder)
        if not broken:
            raise Refused(
                "the log of releases is sound, there is no reason to begin another", next_step="machine release"
            )
        aside = folder / f"log.broken-{now().replace(':', '')}.jsonl"
        held = (folder / LOG).read_bytes() if (folder / LOG).exists() else b""
        write_private(aside, held)
        for name in (HEAD, LOG):
            (folder / name).unlink(missing_ok=True)
    about = {"reason": reason, "set_aside": aside.name, "sha256": hashlib.sha256(held).hexdigest(), "faults": broken}
    append(folder, "", 0, "restarted", about)
    return aside


def user() -> str:
    """Who works here, by the system's name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


def _digest(entry: Entry) -> str:
    plain = msgspec.to_builtins(entry)
    del plain["digest"]
    return hashlib.sha256(canonical(plain)).hexdigest()


def _fault(entry: Entry, number: int, previous: str) -> str:
    if entry.number != number:
        return f"it is entry {entry.number}, and entry {number} belongs here"
    if entry.previous != previous:
        return "it does not follow the entry before it"
    if entry.digest != _digest(entry):
        return "it was changed after it was written"
    return ""


def _behind(folder: Path, entries: Sequence[Entry]) -> list[str]:
    """What the head knows and the log lacks."""
    path = folder / HEAD
    try:
        head = msgspec.json.decode(path.read_bytes(), type=_Head)
    except FileNotFoundError:  # the first entry was written, and then the crash came
        return [f"{path} is gone"] if len(entries) > 1 else []
    except (OSError, msgspec.MsgspecError) as error:
        return [f"{path} cannot be read: {error}"]
    if head.number > len(entries):
        return [f"{folder / LOG} ends at entry {len(entries)}, and it had {head.number}"]
    if len(entries) - head.number > 1 or (head.number and entries[head.number - 1].digest != head.digest):
        return [f"{path} names another entry {head.number} than the log has"]
    return []


def _is_torn(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=Entry)
    except msgspec.MsgspecError:
        return True
    return False
