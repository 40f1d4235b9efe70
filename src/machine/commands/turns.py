"""Turns: what `/good` and `/correction` do the same way, from the session that they are called in to rows."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from machine.capture.policy import Doorkeeper, plain
from machine.capture.reader import latest, read
from machine.capture.rows import Captured, Recorder, capture, preview
from machine.capture.session import Session, live
from machine.errors import MachineError, Refused, StoreError, UsageError
from machine.host import Host, LiveSession
from machine.privacy.sources import Sources
from machine.report import Report
from machine.store.pool import append_elsewhere
from machine.store.project import Project
from machine.trace import Row, Tag

if TYPE_CHECKING:
    from machine.correction.ledger import Correction, Ledger
    from machine.release.outcomes import Said


@dataclass(frozen=True)
class Tagging:
    """A command that tags the last turn: its name, and the session, the place and the project that it is about."""

    host: Host
    command: str
    session: Session
    recorder: Recorder
    leaf: str | None
    project: Project

    def capture(
        self, tag: Tag, note: str | None, answer: str | None = None, said: Mapping[str, str] | None = None
    ) -> Captured:
        """The last turn, as rows that nothing holds yet; `said` is what the user says of it beside its note.

        Raises:
            Refused, SessionFault: as `machine.capture.rows.capture`; or the turn holds secrets, and the project's
                policy or the user does not want it.
        """

        def build(sources: Sources) -> Captured:
            return capture(
                self.session,
                tag=tag,
                leaf=self.leaf,
                note=note,
                answer=answer,
                recorder=self.recorder,
                sources=sources,
                said=said,
            )

        return Doorkeeper(self.project, self.host).let_in(build)


@dataclass(frozen=True)
class Kept:
    """What became of a turn: its rows, under the ids that hold them, and what to say of it."""

    title: str
    rows: Sequence[Row]
    session: Session | None
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    correction: str | None = None


def source(host: Host, command: str, file: Path | None, leaf: str | None, no_prompt: bool) -> Tagging:
    """What `command` was called for.

    Raises:
        Refused: a shell named no session, or the agent is at work.
        UsageError: an option that goes with `--session` came without it.
        SessionFault: the file is no session.
    """
    asked = host.session() if file is None else None
    if file is None and asked is None:
        raise Refused("a shell has no session", next_step=f"machine {command} --session FILE, or /{command} inside Pi")
    if file is None and (leaf is not None or no_prompt):
        option = "--leaf" if leaf is not None else "--no-prompt"
        raise UsageError(f"{option} goes with --session", next_step=f"machine {command} --session FILE {option} ...")
    session, recorder, leaf = _session(asked, file, leaf, no_prompt)
    project = Project.at(Path(session.cwd) if session.cwd else host.cwd)
    return Tagging(host, command, session, recorder, leaf, project)


@contextlib.contextmanager
def refused_noted(tagging: Tagging) -> Iterator[None]:
    """What is refused inside is noted for `/machine data`."""
    try:
        yield
    except MachineError as error:
        with contextlib.suppress(StoreError):  # what was refused matters more than that it could not be noted
            tagging.project.refused(tagging.command, plain(tagging.project, error.message))
        raise


def keep_good(tagging: Tagging, captured: Captured, out: Path | None, link: str | None, linking: bool = True) -> Kept:
    """Puts a good turn into the pool (or the file `out`); with `linking`, as the answer to a correction.

    `link` names the correction where it is not the obvious one. A link that the turn no longer answers is taken back.

    Raises:
        StoreError: it could not be written; the pool is as it was.
        Refused: there is no correction `link`, it is over, or it rejects this very turn.
    """
    if link is None and not tagging.project.corrections.exists():
        return write(tagging, "good", captured.rows, captured, out)
    from machine.correction.ledger import Ledger
    from machine.correction.link import answered, linked

    ledger = Ledger(tagging.project)
    answer = answered(ledger, captured.rows, link) if linking else None
    kept = write(tagging, "good", answer.rows if answer else captured.rows, captured, out)
    notes = [] if out else loosened(ledger, kept, answer.correction if answer else None)
    if answer is None:
        return replace(kept, notes=[*notes, *(_waiting(ledger, kept.rows) if linking else ())])
    if out is None:
        linked(ledger, answer.correction, answer.how, kept.rows)
    if answer.how == "the next turn":
        notes.append(
            "linked because it came right after the rejected turn; if it answers something else: /good --no-link"
        )
    return replace(kept, facts=[("Correction", answer.said)], notes=notes, correction=answer.correction.id)


def loosened(ledger: "Ledger", kept: Kept, but: "Correction | None" = None) -> list[str]:
    """Takes back the links to a turn that was tagged otherwise now, and says so; `but` it answers still."""
    from machine.correction.link import unlinked

    return [
        f"{each.id} was linked to this turn; it is {each.state} again" for each in unlinked(ledger, kept.rows[0], but)
    ]


def _waiting(ledger: "Ledger", rows: Sequence[Row]) -> Iterator[str]:
    """What to say of the corrections that a good turn might have answered."""
    from machine.correction.link import rejects, rows_of, same_context

    pending, session = ledger.pending(), rows[0].source.session
    if rejecting := next((each.id for each in pending if rejects(each, rows[0])), None):
        yield (
            f"correction {rejecting} rejects this turn or what it began with: its reasoning is not learnt. If it was "
            f'good: /corrections drop {rejecting}. If you know the right answer: /correction --as "..."'
        )
        return
    if waiting := ", ".join(each.id for each in pending if each.opened.session == session):
        yield f"this turn answers no correction; pending here: {waiting}. If it does answer one: /good --link ID"
    if alike := next((each.id for each in pending if same_context(rows_of(ledger, each.opened.rows), rows)), None):
        yield f"correction {alike} of another session began the same way. If this answers it: /good --link {alike}"


def write(tagging: Tagging, tag: Tag, rows: Sequence[Row], captured: Captured, out: Path | None) -> Kept:
    """Writes the rows of a turn, and the images that it names.

    Raises:
        StoreError: it could not be written; the pool is as it was.
    """
    project = tagging.project
    project.make()
    with project.blobs.holding(captured.pictures.values()):
        if out is not None:
            append_elsewhere(out.expanduser(), *rows)
            return Kept(f"Saved to {out}", rows, tagging.session)
        held = project.pool.append_all(rows)
    known = all(each.duplicate for each in held.rows)
    title = "Already tagged: nothing added" if known else f"Saved as {tag}, {held.counts.get(tag, 0)} in the pool"
    named = [structs.replace(row, id=each.id) for row, each in zip(rows, held.rows, strict=True)]
    return Kept(title, named, tagging.session)


def judged(tagging: Tagging, kept: Kept, what: "Said") -> Kept:
    """Notes for a trial, where one is on, what the user says of a turn that it may have drawn.

    What the user is to hear, should that end the trial, is a note. The turn is tagged: nothing here undoes that.
    """
    from machine.tinker.served import trial_of

    project = tagging.project
    try:
        trial = trial_of(project.root)
        if trial is None:
            return kept
        from machine.release.outcomes import note
        from machine.release.trial import settle

        fresh = note(project, tagging.session, trial.release, kept.rows[0].source.entries[0], what)
        words = settle(project, trial.release) if fresh else None
    except MachineError as error:
        words = f"the trial could not take this in: {error.whole}"
    return replace(kept, notes=[*kept.notes, words]) if words else kept


def taken_back(project: Project, rows: Sequence[Row]) -> list[str]:
    """Forgets, for a trial that is on, the correction of the turn that `rows` are of; what is to be said of that."""
    from machine.tinker.served import trial_of

    try:
        trial = trial_of(project.root)
        if trial is None or not rows:
            return []
        from machine.release.outcomes import take_back

        found = take_back(project, trial.release, rows[0].source.entries[0])
    except MachineError as error:
        return [f"the trial counts it still: {error.whole}"]
    return [f"the trial of {trial.release} counts that turn as answered again"] if found else []


def saved(kept: Kept) -> Report:
    """What a command says of a turn that it kept."""
    rows, last = kept.rows, kept.rows[-1]
    question, answer = preview(rows[0])[0], preview(last)[1]
    facts = [
        ("Row" if len(rows) == 1 else "Rows", ", ".join(row.id for row in rows)),
        ("Question", question),
        ("Answer", answer),
        ("Learns from", f"{sum(len(row.target) for row in rows)} of {sum(len(row.messages) for row in rows)} messages"),
        *kept.facts,
    ]
    data = {
        "id": last.id,
        "digest": last.digest,
        "target": list(last.target),
        "edits": sum(len(row.edits) for row in rows),
        "rows": [row.id for row in rows],
        "correction": kept.correction,
    }
    return Report(title=kept.title, rows=facts, notes=[*_notes(kept), *kept.notes], data=data)


def _notes(kept: Kept) -> Iterator[str]:
    rows, damaged = kept.rows, kept.session.damaged if kept.session else ()
    edits = [edit for row in rows for edit in row.edits]
    yield from (f"mixed models: {edit.detail}" for edit in edits if edit.kind == "models_mixed")
    if len(rows) > 1:
        yield "the context changed in the middle of the turn (a compaction, an edit): a row for each context"
    if redactions := sum(edit.kind == "redacted" for edit in edits):
        yield f"{redactions} secret(s) redacted; see its edits: machine tagged {rows[-1].id}"
    if damaged:
        yield f"{len(damaged)} damaged line(s) of the session were left out, first at {damaged[0]}"


def _session(
    asked: LiveSession | None, file: Path | None, leaf: str | None, no_prompt: bool
) -> tuple[Session, Recorder, str | None]:
    if asked is None:
        assert file is not None
        return read(file), Recorder(promptless=no_prompt), leaf
    if not asked.idle:
        raise Refused("the agent is still working", next_step="tag the turn when its answer is complete")
    recorder = Recorder(asked.host, asked.host_version, asked.system_prompt, asked.tools)
    if asked.leaf is None:  # the user went back to before the first message: whatever the file holds is not in use
        return live(asked.session, str(asked.cwd), asked.file, ()), recorder, None
    if asked.file is not None and asked.file.exists():
        return latest(asked.file), recorder, asked.leaf
    return live(asked.session, str(asked.cwd), None, asked.entries or ()), recorder, asked.leaf
