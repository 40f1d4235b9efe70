"""`/good`: the last turn, exactly as the model saw it, becomes a row of the pool."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import structs

from machine.capture.reader import latest, read
from machine.capture.rows import Recorder, capture, preview
from machine.capture.session import Session, live
from machine.errors import MachineError, Refused, StoreError, UsageError
from machine.host import Host, LiveSession
from machine.report import Report
from machine.store.pool import append_elsewhere
from machine.store.project import Project
from machine.trace import Row


@click.command()
@click.argument("words", nargs=-1)
@click.option("--as", "answer", metavar="TEXT", help="What the answer should have been; its calls stay.")
@click.option("--note", metavar="TEXT", help="Why it is good; leftover words are a note too.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Append the row to FILE, not to the pool.")
@click.option("--session", "file", type=click.Path(path_type=Path), metavar="FILE", help="A session file (in a shell).")
@click.option("--leaf", metavar="ID", help="With --session: the entry that the turn ends at or before.")
@click.option("--no-prompt", is_flag=True, help="With --session of a Pi before 0.86: keep the turn without its prompt.")
@click.pass_obj
def good(
    host: Host,
    words: tuple[str, ...],
    answer: str | None,
    note: str | None,
    out: Path | None,
    file: Path | None,
    leaf: str | None,
    no_prompt: bool,
) -> Report:
    """Keep the last turn as a good example."""
    note = " ".join(words) if words and note is None else note
    asked = host.session() if file is None else None
    if file is None and asked is None:
        raise Refused("a shell has no session", next_step="machine good --session FILE, or /good inside Pi")
    if answer is not None and not answer.strip():
        raise Refused("--as is empty", next_step='/good --as "the answer that it should have given"')
    if file is None and (leaf is not None or no_prompt):
        option = "--leaf" if leaf is not None else "--no-prompt"
        raise UsageError(f"{option} goes with --session", next_step=f"machine good --session FILE {option} ...")
    session, recorder, leaf = _source(asked, file, leaf, no_prompt)
    project = Project.at(Path(session.cwd) if session.cwd else host.cwd)
    try:
        captured = capture(session, tag="good", leaf=leaf, note=note, answer=answer, recorder=recorder)
    except MachineError as error:
        with contextlib.suppress(StoreError):  # what was refused matters more than that it could not be noted
            project.refused("good", error.message)
        raise
    project.make()
    project.blobs.keep(captured.pictures.values())
    if out is not None:
        append_elsewhere(out.expanduser(), *captured.rows)
        return _saved(captured.rows, f"Saved to {out}", session)
    kept = project.pool.append_all(captured.rows)
    known = all(each.duplicate for each in kept.rows)
    title = "Already tagged: nothing added" if known else f"Saved as good, {kept.counts.get('good', 0)} in the pool"
    rows = [structs.replace(row, id=each.id) for row, each in zip(captured.rows, kept.rows, strict=True)]
    return _saved(rows, title, session)


def _source(
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


def _saved(rows: Sequence[Row], title: str, session: Session) -> Report:
    last = rows[-1]
    question, answer = preview(rows[0])[0], preview(last)[1]
    facts = [
        ("Row" if len(rows) == 1 else "Rows", ", ".join(row.id for row in rows)),
        ("Question", question),
        ("Answer", answer),
        ("Learns from", f"{sum(len(row.target) for row in rows)} of {sum(len(row.messages) for row in rows)} messages"),
    ]
    edits = [edit for row in rows for edit in row.edits]
    notes = [f"mixed models: {edit.detail}" for edit in edits if edit.kind == "models_mixed"]
    if len(rows) > 1:
        notes.append("the context changed in the middle of the turn (a compaction, an edit): a row for each context")
    if redactions := sum(edit.kind == "redacted" for edit in edits):
        notes.append(f"{redactions} secret(s) redacted; see its edits: machine tagged {last.id}")
    if session.damaged:
        notes.append(
            f"{len(session.damaged)} damaged line(s) of the session were left out, first at {session.damaged[0]}"
        )
    data = {
        "id": last.id,
        "digest": last.digest,
        "target": list(last.target),
        "edits": len(edits),
        "rows": [row.id for row in rows],
    }
    return Report(title=title, rows=facts, notes=notes, data=data)
