"""`/tagged`: what the pool holds, newest first, or one row whole."""

import json
import re

import click
import msgspec

from machine.capture.projection import COMPACTED
from machine.capture.rows import preview
from machine.errors import UsageError
from machine.host import Host
from machine.report import Report, Table
from machine.store.project import Project
from machine.trace import TAGS, Row

DEFAULT_COUNT = 10
MOST_CHARS = 2000
"""A message longer than this is shown cut in a listing of one row; `--json` gives it whole."""


@click.command()
@click.argument("what", required=False, metavar="[N|ID]")
@click.option("--tag", type=click.Choice(TAGS), help="Only rows of this tag.")
@click.pass_obj
def tagged(host: Host, what: str | None, tag: str | None) -> Report:
    """The N newest rows of this project's pool (default 10), or the row whose id begins with ID."""
    pool = Project.at(host.cwd).pool
    if what and what.startswith("t_"):
        return _whole(pool.get(what))
    if what and not re.fullmatch("[1-9][0-9]{0,8}", what):
        raise UsageError(f"{what!r} is neither a number nor a row's id", next_step="machine tagged, machine tagged 20")
    rows = pool.recent(int(what) if what else DEFAULT_COUNT, tag)
    counts = pool.counts()
    total = counts.get(tag, 0) if tag else sum(counts.values())
    if not rows:
        return Report(title="Nothing tagged yet", next_step="/good after an answer that you liked", data={"rows": []})
    lines = [(row.id, row.tag, *preview(row, 44), row.note or "") for row in rows]
    table = Table("newest first", ("id", "tag", "question", "answer", "note"), lines)
    data = {
        "total": total,
        "rows": [{"id": r.id, "tag": r.tag, "created_at": r.created_at, "note": r.note} for r in rows],
    }
    return Report(title=f"{len(rows)} of {total} rows", tables=[table], data=data, next_step="machine tagged ID")


def _whole(row: Row) -> Report:
    facts = [
        ("Tag", row.tag),
        ("Tagged at", row.created_at),
        ("Session", f"{row.source.session} in {row.source.cwd}"),
        ("Turn", _turn(row)),
        ("Tools", ", ".join(tool["name"] for tool in row.tools) or "none"),
        ("Learns from", "messages " + ", ".join(map(str, row.target))),
    ]
    if row.note:
        facts.append(("Note", row.note))
    lines = [(("*" if i in row.target else "") + str(i), _who(row, i), _shown(m)) for i, m in enumerate(row.messages)]
    notes = [f"edit: {e.kind}{'' if e.message is None else f' (message {e.message})'}: {e.detail}" for e in row.edits]
    tables = [Table("messages (* is learnt)", ("#", "role", "content"), lines)]
    return Report(title=row.id, rows=facts, tables=tables, notes=notes, data=msgspec.to_builtins(row))


def _turn(row: Row) -> str:
    first, last = row.source.entries[0], row.source.entries[-1]
    part = f", part {row.source.part + 1}: the context changed within" if row.source.part else ""
    return f"from the user message {first} to the answer {last}{part}"


def _who(row: Row, at: int) -> str:
    """The message's role, and whether a user's message began the turn or came while it ran."""
    role, entry = str(row.messages[at]["role"]), (row.source.messages or (None,) * len(row.messages))[at]
    if role != "user" or entry not in row.source.entries:
        return role
    if str(row.messages[at]["content"]).startswith(COMPACTED):
        return "user, a summary"
    return "user, began the turn" if entry == row.source.entries[0] else "user, during the turn"


def _shown(message: dict[str, object]) -> str:
    content = message["content"]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        text += "".join(f" → {call['function']['name']}({call['function']['arguments']})" for call in calls)
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}… ({len(text)} characters)"
