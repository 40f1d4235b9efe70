"""`/correction`: the last turn was wrong. It is kept as bad, and the user approves the reasoning it should have had."""

import shlex
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
from machine.commands.turns import Kept, judged, keep_good, loosened, refused_noted, saved, source, write
from machine.correction.flow import Flow
from machine.correction.gates import RULES
from machine.correction.ledger import Approved, Correction, Ledger, NotProposed, Opened, Retry, new_id
from machine.correction.link import linked, rows_of
from machine.correction.moment import moment_of
from machine.correction.reasoning import with_answer, with_correction
from machine.errors import MachineError, Refused, ServiceError, UsageError
from machine.host import Host
from machine.privacy.redact import Names, redacted
from machine.report import Report
from machine.store.project import Project
from machine.trace import Row, well_formed


@click.command()
@click.argument("words", nargs=-1)
@click.option("--as", "answer", metavar="TEXT", help="What the answer should have been: it is kept as good.")
@click.option("--reasoning", metavar="TEXT", help="The reasoning that would have been right: approved as it is.")
@click.option("--override", multiple=True, metavar="RULE", help="With --reasoning: a gate to set aside, by name.")
@click.option("--retry", is_flag=True, help="Inside Pi: do the turn again, asked only where the work tree is dirty.")
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
    anew = bool(words) or no_prompt or any(each is not None for each in (answer, note, out, file, leaf))
    _check(anew, answer, reasoning, override, resume, out)
    wanted = _Wanted(reasoning, override, retry)
    if resume is not None:
        return _resumed(host, resume, wanted)
    tagging = source(host, "correction", file, leaf, no_prompt)
    with refused_noted(tagging):
        captured = tagging.capture("bad", note, said={"words": " ".join(words), "answer": answer or ""})
    if out is not None:
        sources = tagging.project.sources()
        replaced = [] if answer is None else [with_answer(captured.rows, answer, sources, captured.names)]
        rows = [*captured.rows, *replaced]
        kept = judged(tagging, write(tagging, "bad", rows, captured, out), "corrected")
        return saved(replace(kept, notes=[*kept.notes, "no correction is opened: its rows are not in the pool"]))
    ledger = Ledger(tagging.project)
    said = _Said(" ".join(words), answer, tagging.project, captured.names)
    before = [each for each in ledger.read().corrections if _is_of(each, captured.rows[0])]
    open_ = next((each for each in reversed(before) if each.pending and said.nothing_new(each)), None)
    held = _held(ledger, open_, f"Already open as {open_.id}", tagging.session) if open_ else None
    if open_ and held:
        unheard = ["--note is left out: the bad row is there already"] if note is not None else []
        return _go_on(host, ledger, open_, replace(held, notes=unheard), wanted)
    id = new_id()
    kept = judged(tagging, write(tagging, "bad", with_correction(captured.rows, id, None), captured, None), "corrected")
    opened = _open(ledger, id, kept.rows, said)
    for each in before:
        ledger.drop(each, "said anew")
    notes = [*kept.notes, *(f"{each.id} was about this turn too, and is dropped" for each in before)]
    return _go_on(host, ledger, opened, replace(kept, notes=[*notes, *loosened(ledger, kept)]), wanted)


@dataclass(frozen=True)
class _Said:
    """What the user says of the turn: the words of what was wrong, and what the answer should have been."""

    words: str
    answer: str | None
    project: Project
    names: Names

    def nothing_new(self, before: Correction) -> bool:
        """Whether a correction says it already; its texts are redacted."""
        clean, _ = redacted(well_formed([self.words, self.answer]), self.project.sources(), self.names)
        return clean[0] in ("", before.opened.words) and clean[1] in (None, before.opened.answer)


@dataclass(frozen=True)
class _Wanted:
    """What the user asked for on the command line."""

    reasoning: str | None
    override: Sequence[str]
    retry: bool


def _check(
    anew: bool,
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
    if resume is not None and anew:
        raise UsageError(
            "--resume goes on with what was said before",
            next_step='/correction "..." for the last turn, or --resume alone',
        )
    if out is not None and reasoning is not None:
        raise UsageError(
            "a reasoning belongs to a correction, and --out opens none", next_step="leave --out or --reasoning away"
        )


def _is_of(correction: Correction, row: Row) -> bool:
    """Whether a correction is about the turn of `row`, and is not settled by another turn."""
    settled = correction.link is not None and correction.link.entries != correction.opened.entries
    return correction.opened.entries == row.source.entries and correction.state != "dropped" and not settled


def _held(ledger: Ledger, correction: Correction, title: str, session: Session | None = None) -> Kept | None:
    """The rejected turn as the pool holds it; None where rows of it are gone."""
    rows = rows_of(ledger, correction.opened.rows)
    if len(rows) < len(correction.opened.rows):
        return None
    return Kept(title, rows, session or _session(rows[0]))


def _open(ledger: Ledger, id: str, rows: Sequence[Row], said: _Said) -> Correction:
    first = rows[0]
    opened = ledger.append(
        Opened(
            correction=id,
            rows=tuple(row.id for row in rows),
            session=first.source.session,
            entries=first.source.entries,
            question=preview(first)[0],
            words=said.words,
            answer=said.answer,
        ),
        said.names,
    )
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
    kept = _held(ledger, found, f"Correction {found.id} goes on")
    if kept is None:
        raise Refused(
            f"rows of correction {found.id} are no longer in the pool", next_step=f"machine corrections drop {found.id}"
        )
    return _go_on(host, ledger, found, kept, wanted)


def _session(row: Row) -> Session | None:
    """The session that a row was captured in, where its file is still there and holds the turn."""
    try:
        session = read(Path(row.source.file)) if row.source.file else None
    except MachineError:
        return None
    return session if session and session.heads.keys() >= {*row.source.entries} else None


def _go_on(host: Host, ledger: Ledger, opened: Correction, kept: Kept, wanted: _Wanted) -> Report:
    """From wherever a correction stands as far as the user goes with it."""
    settings = ledger.project.settings()
    hidden = hidden_reasoning(kept.session, opened.opened.entries) if kept.session else None
    moment = moment_of(kept.rows, opened.opened, hidden or [], ledger.project.sources())
    flow = Flow(host, ledger, opened, kept.rows, moment, settings.contributors or (None,), settings.teacher)
    refusal = None
    try:
        if wanted.reasoning is not None:
            flow.approve(wanted.reasoning, wanted.override)
        elif opened.approved is None and host.interactive:
            flow.ask()
        _check_pending(ledger, opened)
        if opened.opened.answer is not None:
            if opened.approved is not None or not host.interactive:
                kept = _keep_answer(ledger, opened, kept)
        elif opened.approved is not None and flow.retry(ask=not wanted.retry):
            kept = _keep_retried(host, opened, kept)
    except (Refused, ServiceError) as error:  # what is in the pool and the ledger by now stays, and is said
        refusal = error
    return _report(host, ledger, ledger.find(opened.id), kept, refusal, hidden_known=hidden is not None)


def _check_pending(ledger: Ledger, correction: Correction) -> None:
    """Refuses to go on with a correction that somebody else (another Pi) has ended while a dialog was open."""
    now = ledger.find(correction.id)
    if not now.pending:
        raise Refused(f"correction {now.id} is {now.state} by now", next_step=f"machine corrections {now.id}")


def _keep_answer(ledger: Ledger, correction: Correction, kept: Kept) -> Kept:
    """Puts the answer that the user gave into the pool, with the approved reasoning if there is one."""
    approved, answer = correction.approved, correction.opened.answer
    assert answer is not None
    replaced = with_answer(kept.rows, answer, ledger.project.sources())
    good = with_correction([replaced], correction.id, approved.reasoning if approved else None)
    [held] = ledger.project.pool.append_all(good).rows
    rows = [structs.replace(good[0], id=held.id)]
    linked(ledger, correction, "its answer was given", rows)
    return replace(kept, title=f"{kept.title}; your answer is saved as good, in its place", rows=rows)


def _keep_retried(host: Host, correction: Correction, kept: Kept) -> Kept:
    """Puts the turn that was done again, and that the user finds good, into the pool."""
    tagging = replace(source(host, "good", None, None, False), leaf=correction.of(Retry)[-1].leaf)
    with refused_noted(tagging):
        good = keep_good(tagging, tagging.capture("good", None), None, correction.id)
    return replace(good, notes=[*kept.notes, *good.notes], facts=())


def _from(root: Path, host: Host, step: str) -> str:
    """A next step that works where the user is: what is said of one project is not known in the folder of another."""
    here = Project.at(host.cwd).root == root
    return step if here else step.replace("machine ", f"cd {shlex.quote(str(root))} && machine ", 1)


def _report(
    host: Host, ledger: Ledger, correction: Correction, kept: Kept, refusal: MachineError | None, hidden_known: bool
) -> Report:
    said = saved(kept)
    notes = [*said.notes]
    if not hidden_known and correction.of(Approved):
        notes.append("the session's file is gone or another: the reasoning could not be compared with the model's own")
    failed = [f"no reasoning from {each.model}: {each.why}" for each in correction.of(NotProposed)]
    notes += failed if correction.approved is None else []
    title = kept.title if refusal is None else f"{kept.title}, but {refusal.message}"
    return replace(
        said,
        title=title,
        rows=[row for row in said.rows if correction.link or row[0] != "Learns from"] + facts_of(correction),
        notes=notes,
        data={**said.data, "correction": structs.asdict(correction.opened) | {"state": correction.state}},
        next_step=_from(ledger.project.root, host, refusal.next_step if refusal else next_of(correction)),
        exit_code=refusal.exit_code if refusal else 0,
    )
