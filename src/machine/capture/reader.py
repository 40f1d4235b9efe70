"""Reader of Pi's session files: untrusted data, read as bytes framed by LF alone.

Every line is checked to be JSON, but only its place in the tree is kept. A file of any size is read in bounded memory,
and one that has only grown since it was last read is read on from there. Source: Pi's `docs/session-format.md`,
versions 1 to 3.
"""

import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from machine.capture.entries import parse
from machine.capture.lines import BLOCK, lines
from machine.capture.session import VERSION, Head, Load, Record, Session
from machine.errors import SessionFault


class _Placed(msgspec.Struct, rename="camel", gc=False):
    """What of a line says that it is an entry; the rest is checked to be JSON, and let go."""

    type: str
    id: str
    parent_id: str | None = None


class _Old(msgspec.Struct):
    type: str


_PLACED = msgspec.json.Decoder(_Placed)


@dataclass
class _Index:
    """What is known of a file up to the byte `end`. `mark` is the hash of the `last` line (offset, length)."""

    session: Session
    heads: dict[str, Head]
    damaged: list[int] = field(default_factory=list)
    repeated: set[str] = field(default_factory=set)
    line: int = 1
    end: int = 0
    last: tuple[int, int] = (0, 0)
    mark: bytes = b""

    def read_on(self, file: BinaryIO) -> None:
        """Takes in the lines that come after `end`."""
        file.seek(self.end)
        heads, number, (offset, length) = self.heads, self.line, self.last
        place = self._chained if self.session.version == 1 else _placed
        for number, (offset, line) in enumerate(lines(file), start=self.line + 1):
            length, placed = len(line), place(line)
            if placed is None:
                if bytes(line).strip():
                    self.damaged.append(number)
                continue
            if placed.id in heads:  # Pi takes the last of one id, and the file's order decides where it resumes
                self.repeated.add(placed.id)
                del heads[placed.id]
            heads[placed.id] = Head(placed.id, placed.type, placed.parent_id, number, offset, length)
        self.line, self.end, self.last = number, offset + length + 1, (offset, length)

    def _chained(self, line: memoryview) -> _Placed | None:
        """An entry of version 1, which had no ids: each follows the one before it."""
        try:
            old = msgspec.convert(_value(line), _Old)
        except (msgspec.ValidationError, UnicodeEncodeError):
            return None
        return _Placed(old.type, f"v1-{len(self.heads) + 1:08x}", next(reversed(self.heads), None))

    def mark_end(self, file: BinaryIO) -> None:
        """Notes by what the last line is to be known again."""
        self.mark = self._mark(file)

    def found(self) -> Session:
        """The session as far as it was read."""
        repeated = frozenset(self.repeated)
        return replace(self.session, heads=dict(self.heads), damaged=list(self.damaged), repeated=repeated)

    def still_fits(self, file: BinaryIO) -> bool:
        """Whether the file has only grown since: Pi appends, and where it rewrites one no line stays in its place."""
        return self._mark(file) == self.mark

    def _mark(self, file: BinaryIO) -> bytes:
        offset, length = self.last
        file.seek(offset)
        return hashlib.blake2b(file.read(length + 1), digest_size=16).digest()


_latest: dict[tuple[Path, int, int], _Index] = {}
"""The file that `latest` read last, by path, device and inode."""
_READING = threading.Lock()


def read(file: Path) -> Session:
    """Reads a session file.

    Raises:
        SessionFault: it is not there, is not a Pi session, or is of a version that is not known.
    """
    with _opened(file) as opened:
        index = _begun(file, opened)
        index.read_on(opened)
    return index.found()


def latest(file: Path) -> Session:
    """As `read`; a file that has only grown since it was last read so is read on from there, its entries kept."""
    with _READING, _opened(file) as opened:
        status = os.fstat(opened.fileno())
        key = (file, status.st_dev, status.st_ino)
        index = _latest.pop(key, None)
        if index is None or not index.still_fits(opened):
            index = _begun(file, opened)
        index.read_on(opened)
        if index.end <= status.st_size:  # else the last line lacks its LF: it may not be whole yet
            index.mark_end(opened)
            _latest.clear()
            _latest[key] = index
        return index.found()


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    try:
        with open(file, "rb", buffering=0, opener=_without_waiting) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise _fault(file, "it is no regular file")
            yield cast(BinaryIO, opened)
    except SessionFault:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise _fault(file, getattr(error, "strerror", error)) from error


def _without_waiting(file: str, flags: int) -> int:
    """A pipe opens at once, to be refused; a regular file knows no difference."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))


def _begun(file: Path, opened: BinaryIO) -> _Index:
    """The index of a file of which the header is read."""
    opened.seek(0)
    _, line = next(lines(opened), (0, memoryview(b"")))
    header = _value(line)
    if not isinstance(header, dict) or header.get("type") != "session":
        raise _fault(file, "line 1 is not the header of a Pi session")
    version = header.get("version", 1)
    if version not in range(1, VERSION + 1) or isinstance(version, bool | float):
        raise SessionFault(
            f"{file}: session version {version!r}; this Machine reads versions 1 to {VERSION}",
            next_step="update Machine, then tag it again",
        )
    cwd = header.get("cwd") or ""
    if not isinstance(cwd, str) or (cwd and not _is_absolute(cwd)):
        raise _fault(file, "the header's cwd is not an absolute path")
    session = Session(str(header.get("id", "")), cwd, file.absolute(), {}, _loader(file), version)
    return _Index(session, {}, end=len(line) + 1, last=(0, len(line)))


def _fault(file: Path, what: object) -> SessionFault:
    return SessionFault(f"{file}: {what}", next_step="check the path of the session file")


def _is_absolute(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path) and Path(path).is_absolute()
    except UnicodeEncodeError:
        return False


def _placed(line: memoryview) -> _Placed | None:
    try:
        return _PLACED.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        try:
            return msgspec.convert(_value(line), _Placed)
        except (msgspec.ValidationError, UnicodeEncodeError):
            return None


def _value(line: memoryview) -> Any:
    try:
        return parse(bytes(line))
    except (ValueError, RecursionError):
        return None


def _loader(file: Path) -> Load:
    def load(wanted: Sequence[Head]) -> Iterator[tuple[Head, Record]]:
        with file.open("rb", buffering=BLOCK) as opened:
            for head in wanted:
                opened.seek(head.offset)
                yield head, opened.read(head.length)

    return load
