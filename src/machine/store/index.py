"""The pool's index: where each row lies and what its listings need, in SQLite, always rebuildable from the pool.

The pool is the truth. The index says how many of its bytes it has read (`covers`); whatever lies beyond is read when
the index is opened. An index that does not fit its pool (another file, a shorter or an edited one) or is damaged is
made anew; one that cannot be written, or that another process holds, is left alone and made in memory for this once. A
later row of the same turn, or of the same content, supersedes the earlier one: listings show the last word on a turn.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from machine.errors import StoreError
from machine.store.files import explained, open_private
from machine.trace import Row, Tag, check, decode

_SCHEMA = """
CREATE TABLE IF NOT EXISTS covers (bytes INTEGER NOT NULL, mark TEXT NOT NULL, broken INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS rows (
    offset INTEGER PRIMARY KEY, length INTEGER NOT NULL, id TEXT NOT NULL UNIQUE, tag TEXT NOT NULL,
    digest TEXT NOT NULL, turn TEXT NOT NULL, session TEXT NOT NULL, last_entry TEXT NOT NULL,
    note TEXT, superseded INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS by_digest ON rows (digest);
CREATE INDEX IF NOT EXISTS by_turn ON rows (turn);
CREATE INDEX IF NOT EXISTS by_session ON rows (session);
CREATE INDEX IF NOT EXISTS by_tag ON rows (superseded, tag);
"""
_MARK = 4096
"""Bytes at the start of the pool, and before the end of what is covered, whose hash ties an index to its pool."""
_BUSY_SECONDS = 10.0


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
        with explained(pool):
            self._db = self._open()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def counts(self) -> dict[str, int]:
        """Rows by tag, superseded ones not counted."""
        return dict(self._ask("SELECT tag, count(*) FROM rows WHERE superseded = 0 GROUP BY tag"))

    def broken(self) -> int:
        """Lines of the pool that are not rows; they are left where they are and never read as rows."""
        return int(self._ask("SELECT coalesce(sum(broken), 0) FROM covers")[0][0])

    def places(self, tag: str | None = None, newest: int | None = None) -> list[Place]:
        """Rows in the pool's order, or the `newest` ones, newest first."""
        where, values = ("AND tag = ?", [tag]) if tag else ("", [])
        order = "ASC" if newest is None else "DESC"
        return self._places(
            f"superseded = 0 {where} ORDER BY offset {order} LIMIT ?", [*values, -1 if newest is None else newest]
        )

    def find(self, prefix: str) -> list[Place]:
        """Rows, superseded ones too, whose id begins with `prefix`; at most two, which is enough to say: ambiguous."""
        return self._places("substr(id, 1, ?) = ? ORDER BY offset LIMIT 2", [len(prefix), prefix])

    def same(self, row: Row) -> Place | None:
        """The row in force that has the same content as `row`."""
        return next(iter(self._places("superseded = 0 AND digest = ?", [row.digest])), None)

    def tagged_entries(self, session: str) -> set[str]:
        """The last entry of every turn of `session` that has a row."""
        return {entry for (entry,) in self._ask("SELECT last_entry FROM rows WHERE session = ?", [session])}

    def _places(self, where: str, values: Sequence[object]) -> list[Place]:
        return [
            Place(*row) for row in self._ask(f"SELECT offset, length, id, tag, note FROM rows WHERE {where}", values)
        ]

    def _ask(self, question: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            return self._db.execute(question, values).fetchall()
        except sqlite3.DatabaseError:  # a page that was damaged, and not needed until now
            self._db.close()
            self._db = self._anew()
            return self._db.execute(question, values).fetchall()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._caught_up(_private(self._path))
        except (StoreError, sqlite3.OperationalError):
            return self._caught_up(":memory:")
        except sqlite3.DatabaseError:
            return self._anew()

    def _anew(self) -> sqlite3.Connection:
        with contextlib.suppress(OSError):
            self._path.unlink()
            return self._caught_up(_private(self._path))
        return self._caught_up(":memory:")

    def _caught_up(self, path: Path | str) -> sqlite3.Connection:
        db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            db.executescript(_SCHEMA)
            if self._covered(db) != _size(self._pool):
                db.execute("BEGIN IMMEDIATE")
                self._catch_up(db)
                db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        return db

    def _covered(self, db: sqlite3.Connection) -> int:
        """The bytes of the pool that the index has read; -1 if what it has read is no longer there."""
        covered, mark = db.execute("SELECT bytes, mark FROM covers").fetchone() or (-1, "")
        return int(covered) if 0 <= covered <= _size(self._pool) and mark == _mark(self._pool, covered) else -1

    def _catch_up(self, db: sqlite3.Connection) -> None:
        start = self._covered(db)
        if start < 0:
            db.execute("DELETE FROM rows")
            db.execute("DELETE FROM covers")
            db.execute("INSERT INTO covers VALUES (0, '', 0)")
            start = 0
        end, broken = start, 0
        for offset, line in lines(self._pool, start):
            end = offset + len(line) + 1
            broken += not _add(db, offset, line)
        values = [end, _mark(self._pool, end), broken]
        db.execute("UPDATE covers SET bytes = ?, mark = ?, broken = broken + ?", values)


def _private(path: Path) -> Path:
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    return path


def _add(db: sqlite3.Connection, offset: int, line: bytes) -> bool:
    """Indexes a line; False if it is not a row."""
    try:
        row = decode(line)
        check(row)
    except (msgspec.MsgspecError, RecursionError):
        return not line.strip()
    turn = turn_key(row.source.entries)
    db.execute("UPDATE rows SET superseded = 1 WHERE digest = ? OR turn = ?", [row.digest, turn])
    values = (
        offset,
        len(line),
        row.id,
        row.tag,
        row.digest,
        turn,
        row.source.session,
        row.source.entries[-1],
        row.note,
    )
    db.execute(
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


def _size(pool: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return pool.stat().st_size
    return 0


def _mark(pool: Path, covered: int) -> str:
    """A hash of the first bytes and of the last ones before `covered`: an edit that moves a row changes it."""
    if not covered:
        return ""
    with contextlib.suppress(FileNotFoundError), pool.open("rb") as file:
        head = file.read(min(covered, _MARK))
        file.seek(max(0, covered - _MARK))
        return hashlib.sha256(head + file.read(min(covered, _MARK))).hexdigest()
    return "gone"
