"""A session: entries that form a tree, of which a branch is what the model goes on from.

An entry is read when it is first asked for: a session costs the memory of its entries' heads, whatever they hold.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, overload

import msgspec

from machine.capture.entries import Compaction, Custom, Entry, Hook, Message, read_entry, value_of
from machine.errors import SessionFault

VERSION = 3
"""The newest version of the format that is read, and that Pi writes."""
KEPT = 1 << 25
"""Bytes of lines whose entries are kept in memory for the next look."""


class Head(msgspec.Struct, gc=False):
    """An entry's place: in the tree, and in the file (`line` is 1-based; `offset` and `length` in bytes)."""

    id: str
    type: str
    parent: str | None
    line: int
    offset: int
    length: int


Record: TypeAlias = bytes | dict[str, Any]
"""An entry as it was written: its line, or its value."""
Load: TypeAlias = Callable[[Sequence[Head]], Iterator[tuple[Head, Record]]]
"""Reads entries again."""


@dataclass
class Kept:
    """Entries that were read, shared by the branches of a session."""

    entries: dict[str, Entry] = field(default_factory=dict)
    size: int = 0

    def add(self, entries: dict[str, Entry], size: int) -> None:
        """Keeps entries whose lines have so many bytes; what was kept before goes where there is too much."""
        if self.size + size > KEPT:  # a new one: another thread may be reading in the old one
            self.entries, self.size = {}, 0
        self.entries |= entries
        self.size += size


@dataclass(frozen=True)
class Session:
    """A session as read. `damaged` are the lines (1-based) that are not entries, `repeated` ids that several have."""

    id: str
    cwd: str
    file: Path | None
    heads: dict[str, Head]
    load: Load
    version: int = VERSION
    damaged: Sequence[int] = ()
    repeated: frozenset[str] = frozenset()
    kept: Kept = field(default_factory=Kept)

    @property
    def name(self) -> str:
        """The session, as messages name it."""
        return str(self.file) if self.file else f"session {self.id}"

    @property
    def last(self) -> str | None:
        """The entry where Pi would resume."""
        return next(reversed(self.heads.values())).id if self.heads else None

    def leaves(self) -> list[str]:
        """The ends of all branches, in the file's order."""
        parents = {head.parent for head in self.heads.values()}
        return [id for id in self.heads if id not in parents]

    def path(self, leaf: str | None = None) -> "Branch":
        """The branch that ends at `leaf` (None: at the last entry).

        Raises:
            SessionFault: `leaf` is unknown, an entry's parent is missing or is its descendant, or two entries on the
                branch have one id.
        """
        current = leaf or self.last
        found: dict[str, Head] = {}
        while current is not None:
            head = self.heads.get(current)
            if head is None:
                child = next(reversed(found), None)
                what = f"entry {child} names parent {current}, which is not there" if child else f"no entry {current}"
                raise SessionFault(f"{self.name}: {what}", next_step=self._damage_hint())
            if current in found:
                raise SessionFault(f"{self.name}: entry {current} is its own ancestor", next_step=self._damage_hint())
            if current in self.repeated:
                raise SessionFault(
                    f"{self.name}: line {head.line} repeats the id {current}",
                    next_step="tag a turn that does not depend on that entry",
                )
            found[current] = head
            current = head.parent
        return Branch(self, list(found.values())[::-1])

    def _damage_hint(self) -> str:
        if self.damaged:
            return f"line {self.damaged[0]} of the file is damaged; tag a turn that does not depend on it"
        return "check the session file and --leaf"


class Branch(Sequence[Entry]):
    """A branch of a session, root first. Entries are read when they are asked for, and kept up to `KEPT` bytes."""

    def __init__(self, session: Session, heads: Sequence[Head]) -> None:
        self.session = session
        self.heads = heads

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> "Branch": ...
    def __getitem__(self, index: int | slice) -> "Entry | Branch":
        """One entry, or a part of the branch.

        Raises:
            SessionFault: as `read`.
        """
        if isinstance(index, slice):
            return Branch(self.session, self.heads[index])
        return self.read([range(len(self.heads))[index]])[0]

    def of_type(self, kind: str) -> list[int]:
        """Where the entries of a type are."""
        return [at for at, head in enumerate(self.heads) if head.type == kind]

    def read(self, places: Iterable[int]) -> list[Entry]:
        """The entries at `places`.

        Raises:
            SessionFault: one has not the shape that its type must have, or the file has changed since it was indexed.
        """
        wanted = [self.heads[at] for at in places]
        kept = self.session.kept.entries
        missing = [head for head in wanted if head.id not in kept]
        found = {head.id: self._entry(head, record) for head, record in self.session.load(missing)} if missing else {}
        self.session.kept.add(found, sum(head.length for head in missing))
        return [found.get(head.id) or kept[head.id] for head in wanted]

    def _entry(self, head: Head, record: Record) -> Entry:
        session = self.session
        try:
            if session.version == 1:
                record = {**value_of(record), "id": head.id}
            entry = read_entry(head.type, record)
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            raise SessionFault(
                f"{session.name}: entry {head.id} is malformed: {error}",
                next_step="tag a turn that does not depend on that entry",
            ) from error
        if entry.id != head.id:
            raise SessionFault(f"{session.name} changed while it was read", next_step="run the command again")
        return entry if session.version == VERSION else self._migrated(entry)

    def _migrated(self, entry: Entry) -> Entry:
        """As Pi migrates it: version 1 named kept entries by their place, versions 1 and 2 called `custom` a hook's."""
        if isinstance(entry, Message) and isinstance(entry.message, Hook):
            return Message(id=entry.id, message=Custom(entry.message.content))
        if isinstance(entry, Compaction) and entry.first_kept_entry_index and self.session.version == 1:
            ids = list(self.session.heads)
            at = entry.first_kept_entry_index - 1
            kept = ids[at] if 0 <= at < len(ids) else entry.first_kept_entry_id
            return msgspec.structs.replace(entry, first_kept_entry_id=kept)
        return entry


def live(id: str, cwd: str, file: Path | None, entries: Sequence[dict[str, Any]]) -> Session:
    """A session that no file holds (yet), from its entries as Pi has them."""
    held = {entry["id"]: entry for entry in entries}
    heads = {
        entry["id"]: Head(entry["id"], entry["type"], entry.get("parentId"), number, 0, 0)
        for number, entry in enumerate(entries, start=2)
    }
    return Session(id, cwd, file, heads, lambda wanted: ((head, held[head.id]) for head in wanted))
