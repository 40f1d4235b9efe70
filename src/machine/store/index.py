"""The pool's index: where each row lies and what its listings need, in SQLite, always rebuildable from the pool.

The pool is the truth. The index says how many of its bytes it has read (`covers`); whatever lies beyond is read when
the index is opened, and kept once it is worth a sync. An index that does not fit its pool (another file, a shorter or
an edited one), is of another schema, or is damaged is made anew; one that cannot be written, or that another process
holds, is left alone and made in memory for this once. Of what a row says it holds ids and hashes alone, not its words.

A later row of the same turn, or of the same content, supersedes the earlier one: listings show the last word on a turn.
An observed row has no say over a good or a bad one: where one of the same content is in force, no row of its turn is.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from machine.errors import StoreError
from machine.store.erase import erasing, gone, is_erased, noted
from machine.store.extent import lines, mark_of, readable
from machine.store.files import explained, open_private
from machine.store.wipe import wipe
from machine.trace import Row, Tag, check, decode

_VERSION = 5
_SCHEMA = """
DROP TABLE IF EXISTS covers;
DROP TABLE IF EXISTS rows;
DROP TABLE IF EXISTS tally;
CREATE TABLE tally (tag TEXT PRIMARY KEY, rows INTEGER NOT NULL);
CREATE TABLE covers (bytes INTEGER NOT NULL, mark TEXT NOT NULL, broken INTEGER NOT NULL, erased INTEGER NOT NULL);
CREATE TABLE rows (
    offset INTEGER PRIMARY KEY, length INTEGER NOT NULL, id TEXT NOT NULL UNIQUE, tag TEXT NOT NULL,
    digest BLOB NOT NULL, turn BLOB NOT NULL, session TEXT NOT NULL, last_entry TEXT NOT NULL,
    note BLOB, superseded INTEGER NOT NULL DEFAULT 0);
CREATE INDEX by_digest ON rows (digest);
CREATE INDEX by_turn ON rows (turn);
CREATE INDEX by_session ON rows (session);
CREATE INDEX by_tag ON rows (tag, offset) WHERE superseded = 0
"""
_INTO_ROWS = "INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_BUSY_SECONDS = 10.0
_KEPT_LINES, _KEPT_BYTES = 8, 1 << 18
"""What an opening reads beyond the covered bytes is kept from here on: less is read again faster than it is synced."""
_CACHE_KIB = 65536
_LAST = "\U0010ffff"
"""After every character that an id is made of."""


@dataclass(frozen=True)
class Place:
    """Where a row lies in the pool, in bytes (`length` without its LF), and what identifies it (`note`: its `key`)."""

    offset: int
    length: int
    id: str
    tag: Tag
    note: bytes | None


class Index:
    """An open index of the pool at `pool`; a context manager. One writer at a time (the pool's lock)."""

    def __init__(self, pool: Path, path: Path) -> None:
        self._pool = pool
        self._path = path
        self._opened: int | None = None
        with explained(pool):
            self._db = self._open()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def counts(self) -> dict[str, int]:
        """Rows by tag, superseded ones not counted."""
        return dict(self._ask("SELECT tag, rows FROM tally WHERE rows > 0"))

    def broken(self) -> int:
        """Lines of the pool that are not rows; they are left where they are and never read as rows."""
        return int(self._ask("SELECT coalesce(sum(broken), 0) FROM covers")[0][0])

    def erased(self) -> int:
        """Lines of the pool that stand where rows were erased, or are being."""
        return int(self._ask("SELECT coalesce(sum(erased), 0) FROM covers")[0][0])

    def places(self, tag: str | None = None, newest: int | None = None) -> list[Place]:
        """Rows in the pool's order, or the `newest` ones, newest first."""
        where, values = ("AND tag = ?", [tag]) if tag else ("", [])
        order = "ASC" if newest is None else "DESC"
        return self._places(
            f"superseded = 0 {where} ORDER BY offset {order} LIMIT ?", [*values, -1 if newest is None else newest]
        )

    def find(self, prefix: str) -> list[Place]:
        """Rows, superseded ones too, whose id begins with `prefix`; at most two, which is enough to say: ambiguous."""
        return self._places("id >= ? AND id < ? ORDER BY id LIMIT 2", [prefix, prefix + _LAST])

    def same(self, row: Row) -> Place | None:
        """The row in force that has the same content as `row`."""
        return next(iter(self._places("superseded = 0 AND digest = ?", [key(row.digest)])), None)

    def in_force(self, id: str, turn: bytes, tag: Tag) -> bool:
        """Whether the row `id` is the one in force of a turn (`turn_key`), and of that tag."""
        asked = "SELECT 1 FROM rows WHERE superseded = 0 AND id = ? AND turn = ? AND tag = ?"
        return bool(self._ask(asked, [id, turn, tag]))

    def holds(self, turn: bytes) -> bool:
        """Whether a turn (`turn_key`) has a row, superseded ones too."""
        return bool(self._ask("SELECT 1 FROM rows WHERE turn = ? LIMIT 1", [turn]))

    def tagged_entries(self, session: str) -> set[str]:
        """The last entry of every turn of `session` that the user has tagged."""
        asked = "SELECT last_entry FROM rows WHERE session = ? AND tag != 'observed'"
        return {entry for (entry,) in self._ask(asked, [session])}

    def added(self, rows: Sequence[tuple[int, int, Row]]) -> bool:
        """Takes in rows that were just written at the pool's end: the offset and length in bytes of each, and the row.

        They are known until the index is closed, so that nobody who writes waits for its disk; the next opening reads
        them, and keeps what it has read. False if they cannot be known now.
        """
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            if self._db.execute("SELECT bytes FROM covers").fetchone() != (rows[0][0],):
                return False  # something lies between: a last line that lacked its LF
            for offset, length, row in rows:
                _insert(self._db, offset, length, row)
        except sqlite3.DatabaseError:
            return False
        return True

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
        if noted(self._pool):
            return self._caught_up(":memory:")
        try:
            return self._caught_up(self._file())
        except (StoreError, sqlite3.OperationalError):
            return self._caught_up(":memory:")
        except sqlite3.DatabaseError:
            return self._anew()

    def _anew(self) -> sqlite3.Connection:
        """In place of the damaged one; another process may have been faster."""
        with contextlib.suppress(OSError, sqlite3.DatabaseError):
            if _number(self._path) == self._opened:
                self._path.unlink()
            return self._caught_up(self._file())
        return self._caught_up(":memory:")

    def _file(self) -> Path:
        """The index file, made where there is none, and which one it is noted."""
        os.close(open_private(self._path, os.O_RDWR | os.O_CREAT))
        self._opened = _number(self._path)
        return self._path

    def _caught_up(self, path: Path | str) -> sqlite3.Connection:
        """An index that has read all of the pool; what is not kept of it is forgotten when it is closed."""
        db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            db.execute("PRAGMA temp_store = MEMORY")
            db.execute("PRAGMA secure_delete = ON")
            if _version(db) != _VERSION:
                _make(db)
            end = readable(self._pool)
            if self._covered(db, end) != end:
                db.execute("BEGIN IMMEDIATE")
                if self._catch_up(db):
                    db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        return db

    def _covered(self, db: sqlite3.Connection, end: int) -> int:
        """The bytes of the pool, which has `end`, that the index has read; -1 if they are no longer the same."""
        covered, mark = db.execute("SELECT bytes, mark FROM covers").fetchone() or (-1, "")
        return int(covered) if 0 <= covered <= end and mark == mark_of(self._pool, covered) else -1

    def _catch_up(self, db: sqlite3.Connection) -> bool:
        """Reads what the index has not read yet, and says whether that was enough to be kept."""
        end = readable(self._pool)
        start = self._covered(db, end)
        if start < 0:
            db.execute("DELETE FROM rows")
            db.execute("DELETE FROM tally")
            db.execute("DELETE FROM covers")
            db.execute("INSERT INTO covers VALUES (0, '', 0, 0)")
            start = 0
        reached, count, erased, others, going = start, 0, 0, list[int](), erasing(self._pool)
        for offset, line in lines(self._pool, start, end):
            reached = offset + len(line) + 1
            count += 1
            if offset in going or is_erased(line):
                erased += 1
            elif not _add(db, offset, line):
                others.append(offset)
        since = len(gone(self._pool, others)) if others else 0
        values = [reached, mark_of(self._pool, reached), len(others) - since, erased + since]
        db.execute("UPDATE covers SET bytes = ?, mark = ?, broken = broken + ?, erased = erased + ?", values)
        return count >= _KEPT_LINES or reached - start >= _KEPT_BYTES


def drop(path: Path) -> None:
    """Overwrites and removes the index at `path`, and what SQLite keeps beside it, so that nothing is left of a row.

    Whoever is writing to it is waited for; whoever reads from it meets damage, and makes an index anew.

    Raises:
        StoreError: its bytes could not be overwritten.
    """
    with contextlib.ExitStack() as held:
        if path.is_file() and not path.is_symlink():
            with contextlib.suppress(sqlite3.DatabaseError):
                db = held.enter_context(contextlib.closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)))
                db.execute("PRAGMA journal_mode = PERSIST")  # else a crash's journal is removed as it is
                db.execute("BEGIN EXCLUSIVE")
        for each in (*(path.with_name(path.name + end) for end in ("-journal", "-wal", "-shm")), path):
            if each.is_file() and not each.is_symlink():
                wipe(each)


def _number(path: Path) -> int | None:
    """What tells a file from another of its name; None if there is none."""
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _make(db: sqlite3.Connection) -> None:
    """Empty tables of this schema, in place of whatever is there."""
    db.execute("BEGIN IMMEDIATE")
    if _version(db) != _VERSION:  # else another process was faster
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {_VERSION}")
    db.execute("COMMIT")


def _add(db: sqlite3.Connection, offset: int, line: bytes) -> bool:
    """Indexes a line; False if it is not a row."""
    try:
        row = decode(line)
        check(row)
    except (msgspec.MsgspecError, RecursionError):
        return not line.strip()
    _insert(db, offset, len(line), row)
    return True


def _insert(db: sqlite3.Connection, offset: int, length: int, row: Row) -> None:
    source, keys = row.source, (key(row.digest), turn_key(row.source.entries, row.source.part))
    earlier = db.execute("SELECT tag FROM rows WHERE superseded = 0 AND (digest = ? OR turn = ?)", keys).fetchall()
    outranked = row.tag == "observed" and any(tag != "observed" for (tag,) in earlier)
    if outranked:  # where it is by a row of another turn, that one stands for what was observed of this turn before
        before = "superseded = 0 AND turn = ? AND tag = 'observed'"
        seen = db.execute(f"UPDATE rows SET superseded = 1 WHERE {before}", keys[1:]).rowcount
        _count(db, [("observed",)] * seen, -1)
    elif earlier:
        db.execute("UPDATE rows SET superseded = 1 WHERE superseded = 0 AND (digest = ? OR turn = ?)", keys)
        _count(db, earlier, -1)
    note = None if row.note is None else key(row.note)
    values = (offset, length, row.id, row.tag, *keys, source.session, source.entries[-1], note, outranked)
    try:
        db.execute(f"INSERT {_INTO_ROWS}", values)
    except sqlite3.IntegrityError:  # the id is there already; OR REPLACE would make every other row three times as slow
        _count(db, db.execute("SELECT tag FROM rows WHERE superseded = 0 AND id = ?", [row.id]).fetchall(), -1)
        db.execute(f"INSERT OR REPLACE {_INTO_ROWS}", values)
    if not outranked:
        _count(db, [(row.tag,)], 1)


def _count(db: sqlite3.Connection, tags: Sequence[tuple[str]], by: int) -> None:
    """Adds to the number of rows in force of each of the tags."""
    for (tag,) in tags:
        db.execute("INSERT INTO tally VALUES (?, ?) ON CONFLICT (tag) DO UPDATE SET rows = rows + ?", [tag, by, by])


def turn_key(entries: Sequence[str], part: int = 0) -> bytes:
    """What makes two rows rows of the same part of a turn: its entry ids, which forks and clones of a session keep."""
    return key("\n".join([str(part), *entries]))


def key(text: str) -> bytes:
    """A hash of 16 bytes, by which the index knows a text."""
    return hashlib.blake2b(text.encode(errors="ignore"), digest_size=16).digest()
