"""Erasing: lines of an append-only log overwritten where they lie, since a person may ask for deletion.

A line is overwritten with one of its own length that says only what it was and when it went, so that no other line
moves. What is to go is noted first, durably, beside the log (`<log>.erasing`): a crash in the middle is finished by
whoever writes to the log next, and until then no reader takes those lines for anything. Torn pieces in `<log>.torn` go
the same way. Everything here is called under the log's lock, but for what only reads.

What overwriting cannot promise: a solid-state disk writes elsewhere and keeps the old cells for a while; a file system
that copies on write (btrfs, ZFS, APFS), its snapshots, a journal of data, and every backup keep the old bytes; so does
what the system deleted before, such as SQLite's journals. There only an encrypted disk, and waiting, help.
"""

import contextlib
import datetime
import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from machine.errors import StoreError
from machine.store.files import explained, is_private, open_private, read_private, sync_folder, write_private

_HEAD = b'{"erased":'
_CHUNK = 1 << 20
_Bytes = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]


class Span(msgspec.Struct, frozen=True):
    """A line that is to go: its first byte in the log (`torn`: in what crashes left of it), its length without LF."""

    offset: _Bytes
    length: _Bytes
    id: str = ""
    torn: bool = False


class _Note(msgspec.Struct, frozen=True):
    """What goes, since when, and how many bytes the log, and the file of torn pieces, had then."""

    at: str
    spans: tuple[Span, ...]
    size: _Bytes
    torn_size: _Bytes
    version: int = 1


def is_erased(line: bytes) -> bool:
    """Whether a line of a log stands where another was erased."""
    return line.startswith(_HEAD)


def erasing(log: Path) -> frozenset[int]:
    """Where, in bytes, the lines of a log begin that are being erased, or were when a crash came; mostly none."""
    note = _note_of(log)
    if not os.path.lexists(note):
        return frozenset()
    with contextlib.suppress(StoreError):
        found = _read(note)
        return frozenset(span.offset for span in found.spans if not span.torn) if found else frozenset()
    return frozenset()


def torn_of(log: Path) -> Path:
    """Where bytes of a log go that a crash left half-written."""
    return log.with_suffix(".torn")


def erase_lines(log: Path, pick: Callable[[bytes], bool]) -> int:
    """Erases the lines that `pick` says, whole ones and what crashes left of some, here and in `<log>.torn`.

    `pick` is given the bytes of each line without LF; those that are blank or erased already it never sees. Call it
    under the log's lock.

    Returns:
        How many lines of the log itself were overwritten.

    Raises:
        StoreError: it could not be done. Either nothing has changed, or the lines are noted as going (`erasing`) and
            the next call of `finish` goes on.
    """
    finish(log)
    spans = [
        Span(offset, len(line), torn=torn)
        for path, torn in ((log, False), (torn_of(log), True))
        for offset, line in all_lines(path)
        if pick(line)
    ]
    begin(log, spans)
    finish(log)
    return sum(not span.torn for span in spans)


def begin(log: Path, spans: Sequence[Span]) -> None:
    """Notes what is to go; from here on it counts as gone.

    Raises:
        StoreError: it could not be written; nothing goes.
    """
    if spans:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        note = _Note(at, tuple(spans), _size(log), _size(torn_of(log)))
        write_private(_note_of(log), msgspec.json.encode(note))


def finish(log: Path, then: Callable[[], None] = lambda: None) -> None:
    """Erases what is noted, if anything is: overwrites it, syncs, does what comes `then`, and takes the note away.

    Raises:
        StoreError: it could not be done; the note stays. Or the log no longer has a line where one was noted.
    """
    note = _note_of(log)
    if not os.path.lexists(note):
        return
    found = _read(note)
    if found is not None:
        for path, torn, size in ((log, False, found.size), (torn_of(log), True, found.torn_size)):
            spans = [span for span in found.spans if span.torn is torn]
            if spans and is_private(path):
                if _size(path) < size:
                    raise _moved(path, note)
                _overwrite(path, spans, found.at, note)
        then()
    with explained(note):
        note.unlink(missing_ok=True)
        sync_folder(note.parent)


def wipe(path: Path) -> bool:
    """Overwrites the bytes of a private file with zeros, syncs, and removes it; False if there is none.

    Raises:
        StoreError: it is a link or another user's, has a second name, or could not be overwritten.
    """
    if not is_private(path):
        return False
    descriptor = open_private(path, os.O_RDWR)
    try:
        with explained(path):
            _zero(descriptor)
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
    finally:
        os.close(descriptor)
    return True


def rewrite(path: Path, data: bytes) -> None:
    """Replaces a private file as `write_private` does, then overwrites the bytes that it had before with zeros.

    Raises:
        StoreError: it could not be replaced, and is as it was; or it was, and its old bytes could not be overwritten.
    """
    descriptor = open_private(path, os.O_RDWR)
    try:
        write_private(path, data)
        with explained(path):
            _zero(descriptor)
    finally:
        os.close(descriptor)


def copies(folder: Path, needles: Sequence[bytes]) -> list[Path]:
    """The files anywhere below a folder whose bytes hold one of the `needles`, in order of their paths.

    Files are read as they are, a piece at a time, SQLite's too; links are not followed. Text that is spelt otherwise
    (escaped, compressed), or that SQLite keeps in several pages, is not found: spelling is the caller's matter.

    Raises:
        StoreError: a file, or a folder, cannot be read.
    """
    sought = [needle for needle in needles if needle]
    found = []
    with explained(folder):
        for place, folders, names in os.walk(folder, onerror=_raise):
            folders.sort()
            for path in (Path(place, name) for name in sorted(names)):
                if not path.is_symlink() and path.is_file() and sought and _holds(path, sought):
                    found.append(path)
    return sorted(found)


def all_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a private file, blank and erased ones left out, and where they begin; the last may lack its LF."""
    if not is_private(path):
        return
    with explained(path), path.open("rb") as file:
        offset = 0
        for line in file:
            if line.strip() and not is_erased(line):
                yield offset, line.removesuffix(b"\n")
            offset += len(line)


def _holds(path: Path, needles: Sequence[bytes]) -> bool:
    longest, last = max(map(len, needles)), b""
    with explained(path), path.open("rb") as file:
        while piece := file.read(_CHUNK):
            window = last + piece
            if any(needle in window for needle in needles):
                return True
            last = window[len(window) - longest + 1 :] if longest > 1 else b""
    return False


def _raise(error: OSError) -> None:
    raise error


@functools.lru_cache(maxsize=16)
def _note_of(log: Path) -> Path:
    return log.with_suffix(".erasing")


def _read(note: Path) -> _Note | None:
    """What is noted; None if the note has gone away."""
    try:
        return msgspec.json.decode(read_private(note), type=_Note)
    except msgspec.MsgspecError as error:
        raise StoreError(
            f"{note} says what is being erased, and is damaged: {error}",
            next_step=f"rm {note}, then erase once more",
        ) from error
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _overwrite(path: Path, spans: Sequence[Span], at: str, note: Path) -> None:
    """Overwrites lines of a file. First how each begins, so that it can be read as nothing else, then the rest."""
    descriptor = open_private(path, os.O_RDWR)
    try:
        with explained(path):
            size = os.fstat(descriptor).st_size
            for span in spans:
                if span.offset + span.length > size or not _fits(descriptor, span):
                    raise _moved(path, note)
            for span in spans:
                _put(descriptor, _words(span, at), span.offset)
            os.fsync(descriptor)
            for span in spans:
                length = len(_words(span, at))
                for offset in range(length, span.length, _CHUNK):
                    _put(descriptor, b" " * min(_CHUNK, span.length - offset), span.offset + offset)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fits(descriptor: int, span: Span) -> bool:
    """Whether a line of that length is at that place."""
    before = os.pread(descriptor, 1, span.offset - 1) if span.offset else b"\n"
    line = os.pread(descriptor, span.length + 1, span.offset)
    return before == b"\n" and len(line.partition(b"\n")[0]) == span.length


def _moved(path: Path, note: Path) -> StoreError:
    return StoreError(
        f"{path} was edited while lines of it were being erased, and they are not where they were",
        next_step=f"rm {note}, then erase once more",
    )


def _size(path: Path) -> int:
    with explained(path):
        return path.lstat().st_size if is_private(path) else 0


def _words(span: Span, at: str) -> bytes:
    """What an erased line begins with: as much as it has room for."""
    id = json.dumps(span.id).encode() if span.id else b"true"
    for words in (_HEAD + b" %b, " % id + b'"at": "%b"}' % at.encode(), _HEAD + b" %b}" % id, _HEAD + b"1}"):
        if len(words) <= span.length:
            return words
    return b" " * min(span.length, len(_HEAD))


def _zero(descriptor: int) -> None:
    """Overwrites all of a file with zeros, and syncs."""
    size = os.fstat(descriptor).st_size
    for offset in range(0, size, _CHUNK):
        _put(descriptor, bytes(min(_CHUNK, size - offset)), offset)
    os.fsync(descriptor)


def _put(descriptor: int, data: bytes, offset: int) -> None:
    """Writes every byte at a place."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
