"""Selection: which lines of a pool go when rows are erased, and which pieces that crashes left of them."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.store.erase import Span, all_lines, torn_of

_CONTENT = b'"messages":'
"""In a row's line, what comes after this is the same however often the turn was tagged."""


class _From(msgspec.Struct):
    entries: tuple[str, ...] = ()
    part: int = 0


class _Glance(msgspec.Struct):
    id: str
    digest: str = ""
    source: _From = msgspec.field(default_factory=_From)

    @property
    def keys(self) -> set[object]:
        """What makes another row one of the same turn, or of the same content."""
        turn = (self.source.entries, self.source.part) if self.source.entries else ""
        return {key for key in (self.digest, turn) if key}


@dataclass(frozen=True)
class _Line:
    """A line of the pool and what it says of itself; None: it is no row."""

    offset: int
    length: int
    row: _Glance | None


def selected(pool: Path, ids: Sequence[str], in_force: Set[int] | None) -> list[Span]:
    """Every line of the pool with one of the ids, also those that are damaged, and what `torn_of(pool)` holds of them.

    With `in_force`, where the rows in force begin: also those not in force of the same turns, or of the same content.
    """
    wanted = frozenset(ids)
    if not wanted:
        return []
    lines = [_line(offset, line, wanted) for offset, line in all_lines(pool)]
    chosen = [line for line in lines if line.length and (line.row is None or line.row.id in wanted)]
    if in_force is not None:
        chosen += _superseded(lines, chosen, in_force)
    spans = [Span(line.offset, line.length, line.row.id if line.row else "") for line in chosen]
    return sorted(spans, key=lambda span: span.offset) + list(_torn(pool, spans, wanted))


def _line(offset: int, line: bytes, wanted: frozenset[str]) -> _Line:
    """The line as it counts here; one that is no row and names no row that is wanted is of length 0."""
    try:
        return _Line(offset, len(line), _GLANCE.decode(line))
    except (msgspec.MsgspecError, RecursionError):
        named = any(msgspec.json.encode(id) in line for id in wanted)
        return _Line(offset, len(line) if named else 0, None)


def _superseded(lines: Sequence[_Line], chosen: Sequence[_Line], in_force: Set[int]) -> list[_Line]:
    """Rows not in force that share a turn or a content with a chosen one, or with one that does."""
    keys: set[object] = {key for line in chosen if line.row for key in line.row.keys}
    taken = {line.offset for line in chosen} | in_force
    left = {line.offset: line for line in lines if line.row and line.offset not in taken}
    found: list[_Line] = []
    while more := [line for line in left.values() if line.row and line.row.keys & keys]:
        found += more
        keys |= {key for line in more if line.row for key in line.row.keys}
        left = {line.offset: line for line in left.values() if line.row and not line.row.keys <= keys}
    return found


def _torn(pool: Path, spans: Sequence[Span], wanted: frozenset[str]) -> Iterator[Span]:
    """Pieces that crashes left of the rows of `spans`: they hold an id or a digest of theirs, or begin as they do."""
    pieces = [(offset, line) for offset, line in all_lines(torn_of(pool)) if not line.startswith(b"#")]
    if not pieces:
        return
    with pool.open("rb") as file:
        contents, marks = [], [msgspec.json.encode(id) for id in wanted]
        for span in spans:
            file.seek(span.offset)
            line = file.read(span.length)
            contents.append(_content(line))
            marks += [msgspec.json.encode(mark) for mark in _marks(line)]
    for offset, piece in pieces:
        begun = _content(piece)
        begins = begun and any(content.startswith(begun) for content in contents)
        if begins or any(mark in piece for mark in marks):
            yield Span(offset, len(piece), torn=True)


def _marks(line: bytes) -> list[str]:
    try:
        row = _GLANCE.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return []
    return [row.id, *([row.digest] if row.digest else [])]


def _content(line: bytes) -> bytes:
    return line.partition(_CONTENT)[2]


_GLANCE = msgspec.json.Decoder(_Glance)
