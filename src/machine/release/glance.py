"""Glance: the little that Pi's footer says of a release, from the lines that hold it; it is read after every turn.

Nothing is checked here: whether the log is whole, `machine release verify` says.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from machine.store.files import explained

_LOG, _OUTCOMES = "log.jsonl", "outcomes.jsonl"


class _Step(msgspec.Struct):
    release: str
    step: str
    at: str
    data: dict[str, msgspec.Raw]


class _Came(msgspec.Struct):
    session: str
    turn: str
    arm: str
    what: str
    at: str


_Line = TypeVar("_Line", bound=msgspec.Struct)


def progress(releases: Path, release: str) -> tuple[int, int | None]:
    """How many turns the candidate of a trial was asked in so far, and how many there are to be, where the log says so.

    `releases` is the project's folder of releases.

    Raises:
        StoreError: a file is there and cannot be read.
    """
    begun = _latest(releases, release, "trial")
    if begun is None:
        return 0, None
    came: dict[tuple[str, str], _Came] = {}
    for each in _lines(releases / release / _OUTCOMES, _Came):
        came[each.session, each.turn] = each
    asked = [each for each in came.values() if each.arm == "candidate" and each.what != "unavailable"]
    turns = begun.data.get("turns")
    return sum(each.at >= begun.at for each in asked), msgspec.json.decode(turns, type=int) if turns else None


def forced(releases: Path, release: str) -> bool:
    """Whether a release was ever activated against the rules.

    Raises:
        StoreError: the log is there and cannot be read.
    """
    return any(each.data.get("forced", _NONE) != _NONE for each in _steps(releases, release, "activated"))


_NONE = msgspec.Raw(b'""')


def _latest(releases: Path, release: str, step: str) -> _Step | None:
    found = list(_steps(releases, release, step))
    return found[-1] if found else None


def _steps(releases: Path, release: str, step: str) -> Iterator[_Step]:
    for each in _lines(releases / _LOG, _Step, f'"{step}"'.encode()):
        if (each.release, each.step) == (release, step):
            yield each


def _lines(file: Path, kind: type[_Line], marked: bytes = b"") -> Iterator[_Line]:
    """The lines that are of that kind; of a damaged one, others speak."""
    if not file.exists():
        return
    with explained(file):
        lines = file.read_bytes().split(b"\n")
    for line in lines:
        if marked in line:
            try:
                yield msgspec.json.decode(line, type=kind)
            except (msgspec.MsgspecError, RecursionError):
                continue
