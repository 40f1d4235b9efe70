"""Erasing: lines of an append-only log overwritten where they lie, since a person may ask for deletion.

A line is overwritten with one of its own length that says only what it was and when it went, so that no other line
moves. What is to go is noted first, durably, beside the log (`<log>.erasing`): a crash in the middle is finished by
whoever writes to the log next, and until then no reader takes those lines for anything. Torn pieces in `<log>.torn` go
the same way. Everything here is called under the log's lock, but for what only reads.

The note names places, and is bound to the bytes there by a salted hash of each line: where a log was edited or restored
meanwhile, other lines of the same place and length are neither hidden nor overwritten. The hash leaves out the line's
first bytes, which are overwritten first and synced before the rest: a line is known as it was, with any part of its
beginning overwritten, or by the word `erased`. Who has read a line, and finds it not begun as erased afterwards, has
read it whole.

What overwriting cannot promise: a solid-state disk writes elsewhere and keeps the old cells for a while; a file system
that copies on write (btrfs, ZFS, APFS), its snapshots, a journal of data, and every backup keep the old bytes; so does
what the system deleted before, such as SQLite's journals. There only an encrypted disk, and waiting, help.
"""

import contextlib
import datetime
import functools
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from machine.errors import StoreError
from machine.store.files import explained, is_private, open_private, read_private, sync_folder, write_private
from machine.store.wipe import put, wipe_strays, zero

_HEAD = b'{"erased":'
_SHORTEST = len(_HEAD + b"1}")
"""Bytes of the shortest line that says, once it is erased, what it was; a shorter one becomes blank."""
_CHUNK = 1 << 20
_SALT_BYTES = 32
_Bytes = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]


class Span(msgspec.Struct, frozen=True):
    """A line that is to go: its first byte in the log (`torn`: in what crashes left of it), its length without LF.

    `seal` is what `begin` knows its bytes by.
    """

    offset: _Bytes
    length: _Bytes
    id: str = ""
    torn: bool = False
    seal: str = ""


class _Note(msgspec.Struct, frozen=True):
    """What goes, since when, and the salt, in hex, of the seals."""

    at: str
    spans: tuple[Span, ...]
    salt: Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{2 * _SALT_BYTES}}}$")]
    version: Literal[2]


def is_erased(line: bytes) -> bool:
    """Whether a line of a log stands where another was erased."""
    return line.startswith(_HEAD)


def erasing(log: Path) -> frozenset[int]:
    """Where, in bytes, the lines of a log begin that are being erased, or were when a crash came; mostly none."""
    if not noted(log):
        return frozenset()
    with contextlib.suppress(StoreError):
        if (found := _read(_note_of(log))) is not None:
            with os.fdopen(open_private(log, os.O_RDONLY), "rb") as file, explained(log):
                spans = [span for span in found.spans if not span.torn]
                return frozenset(span.offset for span in spans if _meant(file.fileno(), span, found))
    return frozenset()


def gone(log: Path, offsets: Sequence[int]) -> set[int]:
    """Those of the lines of a log, by where they begin, that are erased by now, or being erased."""
    going = erasing(log)
    with explained(log), log.open("rb") as file:
        return {at for at in offsets if at in going or is_erased(os.pread(file.fileno(), len(_HEAD), at))}


def noted(log: Path) -> bool:
    """Whether a note says that lines of a log are being erased, of this log or of what lay there before."""
    return os.path.lexists(_note_of(log))


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
    wipe_strays(log)
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
        StoreError: it could not be written, or there is no such line; nothing goes.
    """
    if spans:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        salt = secrets.token_bytes(_SALT_BYTES)
        sealed = tuple(msgspec.structs.replace(span, seal=_seal(_bytes_of(log, span), salt)) for span in spans)
        wipe_strays(_note_of(log))
        write_private(_note_of(log), msgspec.json.encode(_Note(at, sealed, salt.hex(), 2)))


def finish(log: Path, then: Callable[[], None] = lambda: None) -> None:
    """Erases what is noted, if anything is: overwrites it, syncs, does what comes `then`, and takes the note away.

    Raises:
        StoreError: it could not be done; the note stays. Or where a line was noted there is another, which is left as
            it is: then the note is gone as well, and the next call has nothing to finish.
    """
    if not noted(log):
        return
    note, others = _note_of(log), list[Span]()
    found = _read(note)
    if found is not None:
        for path, torn in ((log, False), (torn_of(log), True)):
            spans = [span for span in found.spans if span.torn is torn]
            if spans and is_private(path):
                others += _overwrite(path, spans, found)
        then()
        _take_away(note)
    if others:
        raise _unmatched(log, note, others)


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


@functools.lru_cache(maxsize=16)
def _note_of(log: Path) -> Path:
    return log.with_suffix(".erasing")


def _read(note: Path) -> _Note | None:
    """What is noted; None if the note has gone away."""
    try:
        return msgspec.json.decode(read_private(note), type=_Note)
    except msgspec.MsgspecError as error:
        raise StoreError(
            f"{note} says what is being erased, and is damaged, or of another version: {error}",
            next_step=f"rm {note}, then erase once more",
        ) from error
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _overwrite(path: Path, spans: Sequence[Span], note: _Note) -> list[Span]:
    """Overwrites lines of a file, and returns those that are not the ones that the note means, which stay.

    First how each begins, so that it can be read as nothing else, then the rest.
    """
    descriptor = open_private(path, os.O_RDWR)
    try:
        with explained(path):
            meant = {span: _words(span, note.at) for span in spans if _meant(descriptor, span, note)}
            for span, said in meant.items():
                put(descriptor, said[: _beginning(span.length)], span.offset)
            os.fsync(descriptor)
            for span, said in meant.items():
                put(descriptor, said, span.offset)
                for offset in range(len(said), span.length, _CHUNK):
                    put(descriptor, b" " * min(_CHUNK, span.length - offset), span.offset + offset)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return [span for span in spans if span not in meant]


def _meant(descriptor: int, span: Span, note: _Note) -> bool:
    """Whether the line at a place is the one that the note means, or what overwriting has made of it."""
    line = _line_at(descriptor, span)
    if line is None:
        return False
    done = is_erased(line) if span.length >= _SHORTEST else not line.strip()
    return done or _seal(line, bytes.fromhex(note.salt)) == span.seal


def _seal(line: bytes, salt: bytes) -> str:
    """What a line is known by though its beginning is overwritten; without the salt it says nothing of what it was."""
    rest = line[_beginning(len(line)) :] if len(line) >= _SHORTEST else line
    return hashlib.blake2b(rest, key=salt, digest_size=32).hexdigest()


def _beginning(length: int) -> int:
    """How many bytes of a line of that length are overwritten, and synced, before the others."""
    return len(_HEAD) if length >= _SHORTEST else length


def _line_at(descriptor: int, span: Span) -> bytes | None:
    """The line of that length at that place; None if there is no such line."""
    if span.offset + span.length > os.fstat(descriptor).st_size:
        return None
    before = os.pread(descriptor, 1, span.offset - 1) if span.offset else b"\n"
    line, _, after = os.pread(descriptor, span.length + 1, span.offset).partition(b"\n")
    return line if before == b"\n" and len(line) == span.length and not after else None


def _bytes_of(log: Path, span: Span) -> bytes:
    path = torn_of(log) if span.torn else log
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file, explained(path):
        line = _line_at(file.fileno(), span)
    if line is None:
        raise StoreError(f"{path} was edited while lines of it were sought", next_step="run the command again")
    return line


def _unmatched(log: Path, note: Path, spans: Sequence[Span]) -> StoreError:
    ids = sorted({span.id for span in spans if span.id})
    again = f": machine privacy erase {' '.join(ids)}" if ids else ""
    return StoreError(
        f"{log} was edited or restored while {len(spans)} line(s) of it were being erased: other bytes lie where they "
        f"were, and stay as they are; {note}, which named them, was dropped",
        next_step=f"run the command again, then erase once more what is there still{again}",
    )


def _take_away(note: Path) -> None:
    """Removes a note, then overwrites its bytes, where the disk lets it: seals and salt need not be found later."""
    descriptor = open_private(note, os.O_RDWR)
    try:
        with explained(note):
            note.unlink(missing_ok=True)
            sync_folder(note.parent)
        with contextlib.suppress(OSError):
            zero(descriptor)
    finally:
        os.close(descriptor)


def _words(span: Span, at: str) -> bytes:
    """What an erased line begins with: as much as it has room for."""
    id = json.dumps(span.id).encode() if span.id else b"true"
    for words in (_HEAD + b" %b, " % id + b'"at": "%b"}' % at.encode(), _HEAD + b" %b}" % id, _HEAD + b"1}"):
        if len(words) <= span.length:
            return words
    return b" " * span.length
