"""Status: where releases stand, as reports: one release on one page, all of a project in a list, and their log."""

import dataclasses
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from machine.release import tried, words
from machine.release.log import Entry
from machine.release.standing import Ledger
from machine.release.summary import Summary
from machine.release.words import GateLine
from machine.report import TEXT_WIDTH, Passage, Report, Span, Table, one_line

_VALUE = 76
"""Characters of a value that is not to be a paragraph."""
_DIGEST = 12
_TOLD = 24
"""Columns for what an entry of the log tells, beside the rest of it."""


def status_report(summary: Summary) -> Report:
    """One page on one release; `data` is all that is known of it."""
    lines, tally = words.gate_lines(summary), summary.tally
    tables = [_gates(lines)] if lines else []
    if tally:
        heads, *rows = tried.arms(tally)
        tables.append(Table("What came of the turns of the trial", heads, rows))
    notes = words.warnings(summary)
    if tally:
        notes += [note for note in (tried.compared(tally), tried.explained(tally)) if note]
    return Report(
        title=words.title(summary),
        rows=[*_loud(summary), *_rows(summary)],
        tables=tables,
        passages=list(_passages(lines)),
        notes=notes,
        next_step=words.next_step(summary),
        data=_data(summary, lines),
    )


def list_report(ledger: Ledger, summaries: Sequence[Summary]) -> Report:
    """The releases of a project, a line each, and which is active."""
    now = ledger.now
    rows = [
        [
            f"{each.standing.release} v{each.standing.version}",
            each.standing.stage + (", FORCED" if each.standing.forced else ""),
            words.utc(each.standing.since).removesuffix(" UTC"),
            words.counted(words.gate_lines(each)),
            one_line(each.preregistration.title if each.preregistration else "(cannot be read)", 26),
        ]
        for each in summaries
    ]
    active = f"{now.release} v{now.version}" if now else "none: machine/student is the default base model"
    notes = [f"{each.standing.release}: {warning}" for each in summaries for warning in words.warnings(each)]
    heads = ["release", "stands at", "since (UTC)", "gates", "title"]
    return Report(
        title=f"{words.plural(len(summaries), 'behavior release')}",
        rows=[("Active", active + (f" (FORCED: {now.forced})" if now and now.forced else ""))],
        tables=[Table("", heads, rows)] if rows else [],
        notes=list(dict.fromkeys(notes)),
        next_step=f"machine release {f'status {summaries[0].standing.release}' if summaries else 'new BR-001'}",
        data={
            "active": msgspec.to_builtins(now) if now else None,
            "releases": [_brief(each) for each in summaries],
        },
    )


def log_report(entries: Sequence[Entry], broken: Sequence[str] = ()) -> Report:
    """Every step of every release, oldest first; `broken` are the breaks of the chain (see `log.look`)."""
    rows = [row for entry in entries for row in _logged(entry)]
    heads = ["entry", "when (UTC)", "release", "step", "by", "digest", "what"]
    sound = "every entry follows the one before it" if entries else "nothing is in it yet"
    return Report(
        title=f"Log of releases: {words.plural(len(entries), 'entry', 'entries')}" + (", BROKEN" if broken else ""),
        rows=[("BROKEN", each) for each in broken] or [("Chain", sound)],
        tables=[Table("", heads, rows)] if rows else [],
        notes=[f"THE LOG IS BROKEN: {each}." for each in broken],
        next_step="machine release verify",
        data={"entries": [msgspec.to_builtins(entry) for entry in entries], "broken": list(broken)},
        exit_code=1 if broken else 0,
    )


def _logged(entry: Entry) -> Iterator[list[str]]:
    """An entry as a row, with further rows for what does not fit beside it."""
    first, *others = textwrap.wrap(one_line(words.told(entry), 1000), _TOLD) or [""]
    yield [
        str(entry.number),
        words.utc(entry.at).removesuffix(" UTC"),
        f"{entry.release} v{entry.version}" if entry.release else "",
        entry.step,
        one_line(entry.by, 10),
        entry.digest[:8],
        first,
    ]
    yield from (["", "", "", "", "", "", each] for each in others)


def _loud(summary: Summary) -> list[tuple[str, str]]:
    """What has to be read before everything else, in a word each; the notes say it whole."""
    found = []
    if summary.broken:
        found.append(("LOG BROKEN", "nothing below may be relied on; see the notes"))
    if summary.standing.forced:
        found.append(("FORCED", one_line(summary.standing.forced, _VALUE)))
    if summary.changed:
        found.append(("CHANGED" if summary.standing.seal else "NOT READ", one_line("; ".join(summary.changed), _VALUE)))
    return found


def _rows(summary: Summary) -> Iterator[tuple[str, str]]:
    standing, found = summary.standing, summary.preregistration
    since = f" since {words.utc(standing.since)}" if standing.since else ""
    yield "Stands at", f"{standing.stage}{since}"
    yield "Which means", words.meaning(standing)
    if found:
        yield "Behaviour", one_line(found.behaviour, _VALUE)
        yield "Base model", found.model
    if standing.candidate:
        yield "Candidate", f"run {standing.candidate.run}"
    elif standing.stage != "draft":
        yield "Candidate", "none yet"
    if found:
        bounds = words.bounds(found, standing.candidate)
        yield "Training", _bounded(bounds[1:4])
        yield "Size and cost", _bounded([bounds[0], *bounds[4:]])
        yield "Data", f"{found.data.rows:,} rows, SHA-256 {found.data.sha256[:_DIGEST]}…"
    if summary.gates and summary.gates.given:
        given = (f"{name} ({each.rpartition(', ')[0] or each})" for name, each in summary.gates.given.items())
        yield "From outside", one_line(", ".join(given), _VALUE)
    if found:
        yield "Trial", tried.length(found.trial, summary.tally)
        if found.trial.turns:
            yield "It stops at", ", ".join(tried.stops(found.trial, summary.tally)) or "no rule ends it early"
        yield "Who decides", words.decides(found)
    yield "Student", words.student(summary)


def _bounded(rows: Sequence[tuple[str, str, str]]) -> str:
    """`18 steps (10 to 40)` and so on; without a run, what it may be."""
    return ", ".join(f"{name} {did} ({may})" if did else f"{name} {may}" for name, did, may in rows)


def _gates(lines: Sequence[GateLine]) -> Table:
    """A line for what each gate came to, and under it one for what it needed."""
    title = f"Gates: {words.counted(lines)}"
    width = TEXT_WIDTH - 6 - max(len("gate"), len("verdict"), *(len(line.name) for line in lines)) - len("verdict")
    rows = []
    for line in lines:
        figure, needs = _clauses(line.figure, width), _clauses(line.threshold, width)
        first, *more = figure or needs or [""]
        rows += [[line.name, line.verdict, first], *(["", "", each] for each in more)]
        rows += [["", "" if number else "needs", each] for number, each in enumerate(needs if figure else [])]
    run = any(line.verdict != "not run" for line in lines)
    return Table(title, ["gate", "verdict", "figure, and what it needs" if run else "what it needs"], rows)


def _clauses(text: str, width: int) -> list[str]:
    """The text in lines of at most `width`, broken after a comma or semicolon outside of parentheses if it can be."""
    lines: list[str] = []
    for clause in re.split(r"(?<=[,;])\s+(?![^(]*\))", " ".join(text.split())):
        if lines and len(lines[-1]) + 1 + len(clause) <= width:
            lines[-1] += f" {clause}"
        else:
            lines += textwrap.wrap(clause, max(20, width)) if clause else []
    return lines


def _passages(lines: Sequence[GateLine]) -> Iterator[Passage]:
    """Why each gate failed that did, and the first thing that each other leaves open."""
    for line in lines:
        if line.verdict == "FAILED" and line.words:
            yield _passage(f"Why it FAILED: {line.name}", line.words)
    if open_still := [f"{line.name}: {line.limits[0]}" for line in lines if line.verdict == "passed" and line.limits]:
        yield _passage("What the gates that passed leave open", open_still)


def _passage(title: str, points: Sequence[str]) -> Passage:
    found = [textwrap.fill(point, TEXT_WIDTH - 4, initial_indent="- ", subsequent_indent="  ") for point in points]
    return Passage(title, [Span("\n".join(found))])


def _brief(summary: Summary) -> dict[str, Any]:
    standing = summary.standing
    return {
        "release": standing.release,
        "version": standing.version,
        "stage": standing.stage,
        "since": standing.since,
        "why": standing.why,
        "active": summary.is_active,
        "forced": standing.forced,
        "warnings": words.warnings(summary),
    }


def _data(summary: Summary, lines: Sequence[GateLine]) -> dict[str, Any]:
    standing, gates = summary.standing, summary.gates
    verdicts: Mapping[str, str] = {line.name: line.verdict for line in lines}
    return {
        **_brief(summary),
        "folder": str(summary.place.folder),
        "broken": list(summary.broken),
        "changed": list(summary.changed),
        "failed_before": words.failed_before(standing),
        "seal": _plain(standing.seal),
        "candidate": _plain(standing.candidate),
        "preregistration": _plain(summary.preregistration),
        "verdicts": verdicts,
        "gates": _plain(gates),
        "trial": _plain(summary.tally),
        "student": _plain(summary.active),
        "history": [_plain(entry) for entry in standing.entries],
    }


def _plain(value: Any) -> Any:
    """A struct or dataclass as JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return msgspec.to_builtins(dataclasses.asdict(value))
    return None if value is None else msgspec.to_builtins(value)
