"""`/correction`: the last turn was wrong. It is kept as bad, and the user approves the reasoning it should have had."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from msgspec import structs

from machine.capture.hidden import hidden_reasoning
from machine.capture.reader import read
from machine.capture.rows import preview
from machine.capture.session import Session
from machine.commands.corrections import facts_of, next_of
from machine.commands.turns import Kept, keep_good, refused_noted, saved, source, write
from machine.correction.flow import Flow
from machine.correction.gates import RULES
from machine.correction.ledger import Approved, Correction, Ledger, Linked, NotProposed, Opened, new_id
from machine.correction.link import rows_of
from machine.correction.moment import moment_of
from machine.correction.reasoning import with_answer, with_correction
from machine.errors import MachineError, Refused, UsageError
from machine.host import Host
from machine.report import Report
from machine.store.project import Project
from machine.trace import Row


@click.command()
@click.argument("words", nargs=-1)
@click.option("--as", "answer", metavar="TEXT", help="What the answer should have been: it is kept as good.")
@click.option("--reasoning", metavar="TEXT", help="The reasoning that would have been right: approved as it is.")
@click.option("--override", multiple=True, metavar="RULE", help="With --reasoning: a gate to set aside, by name.")
@click.option("--retry", is_flag=True, help="Inside Pi: do the turn again with the approved reasoning, unasked.")
@click.option("--resume", is_flag=False, flag_value="", metavar="[ID]", help="Go on with a correction, or the newest.")
@click.option("--note", metavar="TEXT", help="A note for the bad row.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Append the rows to FILE, not to the pool."
)
@click.option("--session", "file", type=click.Path(path_type=Path), metavar="FILE", help="A session file (in a shell).")
@click.option("--leaf", metavar="ID", help="With --session: the entry that the turn ends at or before.")
@click.option("--no-prompt", is_flag=True, help="With --session of a Pi before 0.86: keep the turn without its prompt.")
@click.pass_obj
def correction(
    host: Host,
    words: tuple[str, ...],
    answer: str | None,
    reasoning: str | None,
    override: tuple[str, ...],
    retry: bool,
    resume: str | None,
    note: str | None,
    out: Path | None,
    file: Path | None,
    leaf: str | None,
    no_prompt: bool,
) -> Report:
    """Say that the last turn was wrong, and approve a reasoning that would have been right."""
    _check(words, answer, reasoning, override, resume, out)
    wanted = _Wanted(reasoning, override, retry)
    if resume is not None:
        return _resumed(host, resume, wanted)
    tagging = source(host, "correction", file, leaf, no_prompt)
    with refused_noted(tagging):
        captured = tagging.capture("bad", note)
    if out is not None:
        rows = [*captured.rows, *([] if answer is None else [with_answer(captured.rows, answer)])]
        kept = write(tagging, "bad", rows, captured, out)
        return replace(saved(kept), notes=["no correction is opened: its rows are not in the pool"])
    ledger = Ledger(tagging.project)
    said = " ".join(words)
    opened = _same_turn(ledger, captured.rows[0], said, answer)
    if opened is None:
        id = new_id()
        kept = write(tagging, "bad", with_correction(captured.rows, id, None), captured, None)
        opened = _open(ledger, id, kept.rows, said, answer)
    else:
        kept = Kept(f"Already open as {opened.id}", rows_of(ledger, opened.opened.rows), tagging.session)
    return _go_on(host, ledger, opened, kept, wanted)


@dataclass(frozen=True)
class _Wanted:
    """What the user asked for on the command line."""

    reasoning: str | None
    override: Sequence[str]
    retry: bool


def _check(
    words: Sequence[str],
    answer: str | None,
    reasoning: str | None,
    override: Sequence[str],
    resume: str | None,
    out: Path | None,
) -> None:
    for option, text in (("--as", answer), ("--reasoning", reasoning)):
        if text is not None and not text.strip():
            raise UsageError(f"{option} is empty", next_step=f'/correction {option} "..."')
    if unknown := [rule for rule in override if rule not in RULES]:
        raise UsageError(f"no gate is called {unknown[0]!r}", next_step=f"one of {', '.join(RULES)}")
    if override and reasoning is None:
        raise UsageError("--override goes with --reasoning", next_step='/correction --reasoning "..." --override RULE')
    if resume is not None and (words or answer is not None or out is not None):
        raise UsageError(
            "--resume goes on with what was said before",
            next_step='/correction "..." for the last turn, or --resume alone',
        )
    if out is not None and reasoning is not None:
        raise UsageError(
            "a reasoning belongs to a correction, and --out opens none", next_step="leave --out or --reasoning away"
        )


def _same_turn(ledger: Ledger, row: Row, words: str, answer: str | None) -> Correction | None:
    """The pending correction of this turn, where the user says nothing new of it; one that is said anew is dropped."""
    for each in reversed(ledger.pending()):
        if each.opened.session == row.source.session and each.opened.entries == row.source.entries:
            if words in ("", each.opened.words) and answer in (None, each.opened.answer):
                return each
            ledger.drop(each, "said anew")
    return None


def _open(ledger: Ledger, id: str, rows: Sequence[Row], words: str, answer: str | None) -> Correction:
    first = rows[0]
    opened = ledger.append(
        Opened(
            correction=id,
            rows=tuple(row.id for row in rows),
            session=first.source.session,
            entries=first.source.entries,
            question=preview(first)[0],
            words=words,
            answer=answer,
        )
    )
    assert isinstance(opened, Opened)
    return Correction(opened, [opened])


def _resumed(host: Host, id: str, wanted: _Wanted) -> Report:
    project = Project.at(host.cwd)
    ledger = Ledger(project)
    pending = ledger.pending()
    if not id and not pending:
        raise Refused("no correction is pending in this project", next_step='/correction "what was wrong"')
    found = ledger.find(id) if id else pending[-1]
    if not found.pending:
        raise Refused(f"correction {found.id} is {found.state}", next_step=f"machine corrections {found.id}")
    rows = rows_of(ledger, found.opened.rows)
    if len(rows) < len(found.opened.rows):
        raise Refused(
            f"rows of correction {found.id} are no longer in the pool", next_step=f"machine corrections drop {found.id}"
        )
    return _go_on(host, ledger, found, Kept(f"Correction {found.id} goes on", rows, _session(rows[0])), wanted)


def _session(row: Row) -> Session | None:
    """The session that a row was captured in, where its file is still there."""
    try:
        return read(Path(row.source.file)) if row.source.file else None
    except MachineError:
        return None


def _go_on(host: Host, ledger: Ledger, opened: Correction, kept: Kept, wanted: _Wanted) -> Report:
    """From wherever a correction stands as far as the user goes with it."""
    settings = ledger.project.settings()
    entries = opened.opened.entries
    hidden = hidden_reasoning(kept.session, entries) if kept.session else []
    moment = moment_of(kept.rows, opened.opened, hidden)
    flow = Flow(host, ledger, opened, kept.rows, moment, settings.contributors or (None,), settings.teacher)
    refusal = None
    if wanted.reasoning is not None:
        try:
            flow.approve(wanted.reasoning, wanted.override)
        except Refused as error:
            refusal = error
    elif opened.approved is None and host.interactive:
        flow.ask()
    ended = opened.approved is not None or not host.interactive
    if refusal is None and opened.opened.answer is not None and ended:
        _keep_answer(ledger, opened, kept)
    elif refusal is None and opened.approved is not None and flow.retry(ask=not wanted.retry):
        tagging = source(host, "good", None, None, False)
        with refused_noted(tagging):
            return saved(keep_good(tagging, tagging.capture("good", None), None, opened.id))
    return _report(opened, kept, refusal, hidden_known=kept.session is not None)


def _keep_answer(ledger: Ledger, correction: Correction, kept: Kept) -> None:
    """Puts the answer that the user gave into the pool, with the approved reasoning if there is one."""
    approved, answer = correction.approved, correction.opened.answer
    assert answer is not None
    good = with_correction([with_answer(kept.rows, answer)], correction.id, approved.reasoning if approved else None)
    held = ledger.project.pool.append_all(good)
    how = "its answer was given"
    correction.events.append(
        ledger.append(Linked(correction=correction.id, rows=tuple(each.id for each in held.rows), how=how))
    )


def _report(correction: Correction, kept: Kept, refusal: Refused | None, hidden_known: bool) -> Report:
    said = saved(kept)
    notes = [*said.notes]
    if not hidden_known and correction.of(Approved):
        notes.append("the session's file is gone: the reasoning could not be compared with the model's own")
    failed = [f"no reasoning from {each.model}: {each.why}" for each in correction.of(NotProposed)]
    notes += failed if correction.approved is None else []
    title = kept.title if refusal is None else f"{kept.title}, but {refusal.message}"
    return replace(
        said,
        title=title,
        rows=[row for row in said.rows if row[0] != "Learns from"] + facts_of(correction),
        notes=notes,
        data={**said.data, "correction": structs.asdict(correction.opened) | {"state": correction.state}},
        next_step=refusal.next_step if refusal else next_of(correction),
        exit_code=refusal.exit_code if refusal else 0,
    )
