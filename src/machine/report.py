"""Report: what a command has to say, before a door decides how it looks.

Markdown for Pi, `rich` for a terminal (in `cli`), JSON for programs. A command fills in the parts that it has.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
TEXT_WIDTH = 96
"""Columns that plain text may take before a table is written row by row."""


@dataclass(frozen=True)
class Table:
    """A titled table; every cell is text, every row as long as `columns`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """What happened: `rows` are (label, value) pairs, `data` is the whole of it for `--json`.

    `next_step` is what to type next. `exit_code` 0 is done, 1 failed, 2 refused.
    """

    title: str
    rows: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    next_step: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0


def printable(text: str) -> str:
    """`text` with control characters spelt out (`\\x1b`): what comes from a session must not steer a terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def one_line(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters, to be shown in a cell."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def as_markdown(report: Report) -> str:
    """The report for Pi. Cells are escaped, so that no content can open markup or break a table."""
    blocks = [f"**{_escape(report.title)}**"]
    if report.rows:
        blocks.append("\n".join(f"- {_escape(label)}: {_escape(value)}" for label, value in report.rows))
    for table in report.tables:
        lines = [_row(table.columns), _row(["---"] * len(table.columns)), *map(_row, table.rows)]
        blocks.append(f"{_escape(table.title)}\n\n" + "\n".join(lines))
    blocks.extend(_escape(note) for note in report.notes)
    if report.next_step:
        blocks.append(f"Next: `{report.next_step}`")
    return "\n\n".join(blocks)


def as_text(report: Report) -> str:
    """The report as plain lines, for places that render nothing (a notification, stderr of headless Pi)."""
    lines = [report.title]
    width = max((len(label) for label, _ in report.rows), default=0)
    lines += [f"  {label.ljust(width)}  {value}" for label, value in report.rows]
    for table in report.tables:
        lines += ["", table.title] if table.title else [""]
        lines += _aligned([table.columns, *table.rows])
    lines += [f"  {note}" for note in report.notes]
    if report.next_step:
        lines.append(f"Next: {report.next_step}")
    return printable("\n".join(lines))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side where they fit `TEXT_WIDTH`; else a row's cells follow each other, unpadded."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    if sum(widths) + 2 * len(widths) > TEXT_WIDTH:
        return ["  " + " · ".join(" ".join(cell.split()) for cell in row if cell) for row in rows[1:]]
    return ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def as_json(report: Report) -> str:
    """The report for programs, on one line of ASCII JSON."""
    body = {"title": report.title, "exit_code": report.exit_code, "notes": list(report.notes)}
    body |= {"next_step": report.next_step, "data": report.data}
    return json.dumps(body, ensure_ascii=True)


def _escape(text: str) -> str:
    return re.sub(r"[\\`*_\[\]<>|]", r"\\\g<0>", printable(text).replace("\n", " "))


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell if cell == "---" else _escape(cell) for cell in cells) + " |"
