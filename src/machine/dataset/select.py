"""Select: which rows to train on. The good rows of a pool, or those of a file of rows."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from machine.errors import Refused
from machine.store.pool import Pool
from machine.trace import Row, canonical, decode, digest


def good_rows(pool: Pool) -> list[Row]:
    """The pool's rows tagged good, oldest first; one row for each turn.

    Raises:
        Refused: there are none.
    """
    rows = list(pool.rows(tag="good"))
    if not rows:
        raise Refused("this project's pool has no good rows yet", next_step="tag a turn: /good in Pi, or machine good")
    return rows


def rows_of(path: Path) -> list[Row]:
    """Every good row of a JSONL file, in the pool's format; rows with other tags are left out.

    Raises:
        Refused: the file cannot be read, a line is not a row (the message names the line), or no row is good.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise Refused(
            f"{path}: {error.strerror or error}", next_step="give the path of a JSONL file of rows"
        ) from error
    rows = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    good = [row for row in rows if row.tag == "good"]
    if not good:
        raise Refused(f"{path} holds no good rows ({len(rows)} rows of other tags)", next_step="machine tagged")
    return good


def rows_digest(rows: Iterable[Row]) -> str:
    """SHA-256 (hex) of what is in the rows, whatever their order: messages, tools, targets and tags, not their ids."""
    found = sorted([row.tag, digest(row.messages, row.tools, row.target)] for row in rows)
    return hashlib.sha256(canonical(found)).hexdigest()


def _row(path: Path, number: int, line: bytes) -> Row:
    try:
        row = decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused(
            f"{path} line {number} is not a row: {error}", next_step="give a JSONL file in the format of traces.jsonl"
        ) from error
    bad = [i for i in row.target if not 0 <= i < len(row.messages) or row.messages[i].get("role") != "assistant"]
    if bad:
        raise Refused(
            f"{path} line {number}: target {bad[0]} is not an assistant message", next_step="mend or remove the line"
        )
    return row
