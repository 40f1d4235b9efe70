"""The pool's index: where each row lies and what its listings need, in SQLite, always rebuildable from the pool.

The pool is the truth. The index says how many of its bytes it has read (`covered`); whatever lies beyond is read when
the index is opened, and an index that does not fit its pool (another file, a shorter one, a damaged database) is made
anew. A later row of the same turn, or of the same content, supersedes the earlier one: listings show the last word on a
turn.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.store.files import open_private
from machine.trace import Row, Tag, decode

_SCHEMA = """
CREATE TABLE IF NOT EXISTS covered (bytes INTEGER NOT NULL, head TEXT NOT NULL, broken INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS rows (
    offset INTEGER PRIMARY KEY, length INTEGER NOT NULL, id TEXT NOT NULL UNIQUE, tag TEXT NOT NULL,
    digest TEXT NOT NULL, turn TEXT NOT NULL, session TEXT NOT NULL, last_entry TEXT NOT NULL,
    note TEXT, superseded INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS by_digest ON rows (digest);
CREATE INDEX IF NOT EXISTS by_turn ON rows (turn);
CREATE INDEX IF NOT EXISTS by_session ON rows (session);
CREATE INDEX IF NOT EXISTS by_tag ON rows (superseded, tag);
"""
_HEAD = 4096
"""Bytes at the pool's start whose hash ties an index to its pool."""


@dataclass(frozen=True)
class Place:
    """Where a row lies in the pool, in bytes (`length` without its LF), and what identifies it."""

    offset: int
    length: int
    id: str
    tag: Tag
    note: str | None


class Index:
    """An open index of the pool at `pool`; a context manager. One writer at a time (the pool's lock)."""

    def __init__(self, pool: Path, path: Path) -> None:
        self._pool = pool
        self._path = path
        self._db = self._open()
        self._catch_up()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def counts(self) -> dict[str, int]:
        """Rows by tag, superseded ones not counted."""
        return dict(self._db.execute("SELECT tag, count(*) FROM rows WHERE superseded = 0 GROUP BY tag"))

    def broken(self) -> int:
        """Lines of the pool that are not rows; they are left where they are and never read as rows."""
        return int(self._db.execute("SELECT broken FROM covered").fetchone()[0])

    def places(self, tag: str | None = None, newest: int | None = None) -> list[Place]:
        """Rows in the pool's order, or the `newest` ones, newest first."""
        where, values = ("AND tag = ?", [tag]) if tag else ("", [])
        order = f"DESC LIMIT {int(newest)}" if newest is not None else "ASC"
        found = self._db.execute(
            f"SELECT offset, length, id, tag, note FROM rows WHERE superseded = 0 {where} ORDER BY offset {order}",
            values,
        )
        return [Place(*row) for row in found]

    def find(self, prefix: str) -> list[Place]:
        """Rows, superseded ones too, whose id begins with `prefix`; at most two, which is enough to say: ambiguous."""
        found = self._db.execute(
            "SELECT offset, length, id, tag, note FROM rows WHERE substr(id, 1, ?) = ? ORDER BY offset LIMIT 2",
            [len(prefix), prefix],
        )
        return [Place(*row) for row in found]

    def same(self, row: Row) -> Place | None:
        """The row in force that has the same content as `row`."""
        found = self._db.execute(
            "SELECT offset, length, id, tag, note FROM rows WHERE superseded = 0 AND digest = ?", [row.digest]
        ).fetchone()
        return Place(*found) if found else None

    def tagged_entries(self, session: str) -> set[str]:
        """The last entry of every turn of `session` that has a row."""
        return {entry for (entry,) in self._db.execute("SELECT last_entry FROM rows WHERE session = ?", [session])}

    def _open(self) -> sqlite3.Connection:
        os.close(open_private(self._path, os.O_RDWR | os.O_CREAT))
        try:
            return self._connect()
        except sqlite3.DatabaseError:
            self._path.unlink()
            os.close(open_private(self._path, os.O_RDWR | os.O_CREAT))
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=10)
        try:
            db.executescript(_SCHEMA)
            if db.execute("SELECT count(*) FROM covered").fetchone()[0] == 0:
                with db:
                    db.execute("INSERT INTO covered VALUES (0, '', 0)")
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db

    def _catch_up(self) -> None:
        size = self._pool.stat().st_size if self._pool.exists() else 0
        covered, head = self._db.execute("SELECT bytes, head FROM covered").fetchone()
        if covered == size and covered == 0:
            return
        fits = covered <= size and (not covered or head == _head(self._pool, covered))
        if fits and covered == size:
            return
        with self._db:
            if not fits:
                self._db.execute("DELETE FROM rows")
                self._db.execute("UPDATE covered SET bytes = 0, head = '', broken = 0")
                covered = 0
            end, broken = covered, 0
            for offset, line in lines(self._pool, covered):
                end = offset + len(line) + 1
                broken += not self._add(offset, line)
            self._db.execute(
                "UPDATE covered SET bytes = ?, head = ?, broken = broken + ?", [end, _head(self._pool, end), broken]
            )

    def _add(self, offset: int, line: bytes) -> bool:
        try:
            row = decode(line)
        except msgspec.MsgspecError:
            return not line.strip()
        turn = turn_key(row.source.entries)
        self._db.execute("UPDATE rows SET superseded = 1 WHERE digest = ? OR turn = ?", [row.digest, turn])
        last = row.source.entries[-1] if row.source.entries else ""
        values = (offset, len(line), row.id, row.tag, row.digest, turn, row.source.session, last, row.note)
        self._db.execute(
            "INSERT OR REPLACE INTO rows (offset, length, id, tag, digest, turn, session, last_entry, note) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        return True


def turn_key(entries: Sequence[str]) -> str:
    """What makes two rows rows of the same turn: its entry ids, which forks and clones of a session keep."""
    return hashlib.sha256("\n".join(entries).encode()).hexdigest()


def lines(pool: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Every complete line of the pool from byte `start` on, with its offset; a torn last line is not read."""
    with contextlib.suppress(FileNotFoundError), pool.open("rb") as file:
        file.seek(start)
        offset = start
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield offset, line[:-1]
            offset += len(line)


def _head(pool: Path, covered: int) -> str:
    with pool.open("rb") as file:
        return hashlib.sha256(file.read(min(covered, _HEAD))).hexdigest()
