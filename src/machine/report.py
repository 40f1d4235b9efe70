"""Report: what a command has to say, before a door decides how it looks.

Markdown for Pi, `rich` for a terminal (in `cli`), JSON for programs. A command fills in the parts that it has.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_OPENING = re.compile(r"^(\d*)([#+=.)-])")
TEXT_WIDTH = 96
"""Columns that plain text may take before a table is written row by row."""


@dataclass(frozen=True)
class Table:
    """A titled table; every cell is text, every row as long as `columns`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Span:
    """A run of text of one look: trained or not, control tokens of the renderer or not. A note is not of the text."""

    text: str
    trained: bool = False
    control: bool = False
    note: bool = False


@dataclass(frozen=True)
class Passage:
    """A titled text of several lines; what is trained of it stands out."""

    title: str
    spans: Sequence[Span]


@dataclass(frozen=True)
class Report:
    """What happened: `rows` are (label, value) pairs, `data` is the whole of it for `--json`.

    `next_step` is what to type next. `exit_code` 0 is done, 1 failed, 2 refused.
    """

    title: str
    rows: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    passages: Sequence[Passage] = ()
    notes: Sequence[str] = ()
    next_step: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0


def printable(text: str) -> str:
    """`text` with what could steer a terminal or reorder a line spelt out (`\\x1b`, `\\u202e`), whoever wrote it.

    Control characters but LF and tab, line separators, bidirectional overrides, and surrogates that are half a pair.
    """
    return _CONTROL.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters, to be shown in a cell."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def as_markdown(report: Report) -> str:
    """The report for Pi. Texts are escaped, so that no content can open markup, break a table, or hide what follows."""
    blocks = [f"**{_escape(report.title)}**"]
    if report.rows:
        blocks.append("\n".join(f"- {_escape(label)}: {_escape(value)}" for label, value in report.rows))
    for table in report.tables:
        lines = [_row(table.columns), _row(["---"] * len(table.columns)), *map(_row, table.rows)]
        blocks.append(f"{_block(table.title)}\n\n" + "\n".join(lines))
    blocks += [f"{_block(passage.title)}\n\n{_fenced(printable(marked(passage)))}" for passage in report.passages]
    blocks.extend(_block(note) for note in report.notes)
    if report.next_step:
        blocks.append(f"Next: {_code(report.next_step)}")
    return "\n\n".join(blocks)


def as_text(report: Report) -> str:
    """The report as plain lines, for places that render nothing (a notification, stderr of headless Pi)."""
    lines = [report.title]
    width = max((len(label) for label, _ in report.rows), default=0)
    lines += [f"  {label.ljust(width)}  {value}" for label, value in report.rows]
    for table in report.tables:
        lines += ["", table.title] if table.title else [""]
        lines += _aligned([table.columns, *table.rows])
    for passage in report.passages:
        lines += ["", passage.title, *(f"  {line}".rstrip() for line in marked(passage).split("\n")), ""]
    lines += [f"  {note}" for note in report.notes]
    if report.next_step:
        lines.append(f"Next: {report.next_step}")
    return printable("\n".join(lines))


def marked(passage: Passage) -> str:
    """The text of a passage with marks around what is trained: `⟦ ⟧`."""
    text = ""
    for trained, spans in groupby(passage.spans, lambda span: span.trained):
        run = "".join(span.text for span in spans)
        text += f"⟦{run}⟧" if trained else run
    return text


def _fenced(text: str) -> str:
    """`text` in a Markdown fence that no line of it can close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


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
    """`text` as one line without markup. Pi reads `\\[` and `$` as the beginning of mathematics, `[x\\]` as text."""
    return re.sub(r"[\\`*_\]<>|~$]", r"\\\g<0>", printable(text).replace("\n", " "))


def _block(text: str) -> str:
    """`text` as a paragraph: what it begins with makes no heading, list, quotation, rule or indented code of it."""
    line = _OPENING.sub(r"\1\\\2", _escape(text).strip())
    odd = line.startswith("\\\\[")  # behind the first backslash Pi would begin mathematics
    return f"\u2060{line}" if odd else line


def _code(text: str) -> str:
    """`text` between backticks, of which it has none that could end them."""
    line = " ".join(printable(text).split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell if cell == "---" else _escape(cell) for cell in cells) + " |"
