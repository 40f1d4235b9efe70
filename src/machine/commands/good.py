"""`/good`: the last turn, exactly as the model saw it, becomes a row of the pool."""

import contextlib
from pathlib import Path

import click
from msgspec import structs

from machine.capture.session import Session, read
from machine.capture.trajectory import Recorder, preview, row_of
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
@click.pass_obj
def good(
    host: Host,
    words: tuple[str, ...],
    answer: str | None,
    note: str | None,
    out: Path | None,
    file: Path | None,
    leaf: str | None,
) -> Report:
    """Keep the last turn as a good example."""
    note = " ".join(words) if words and note is None else note
    live = host.session() if file is None else None
    if file is None and live is None:
        raise Refused("a shell has no session", next_step="machine good --session FILE, or /good inside Pi")
    if answer is not None and not answer.strip():
        raise Refused("--as is empty", next_step='/good --as "the answer that it should have given"')
    if leaf is not None and file is None:
        raise UsageError("--leaf goes with --session", next_step="machine good --session FILE --leaf ID")
    session, recorder, leaf = _source(live, file, leaf)
    project = Project.at(Path(session.cwd) if session.cwd else host.cwd)
    try:
        row = row_of(session, tag="good", leaf=leaf, note=note, answer=answer, recorder=recorder)
    except MachineError as error:
        with contextlib.suppress(StoreError):  # what was refused matters more than that it could not be noted
            project.refused("good", error.message)
        raise
    if out is not None:
        append_elsewhere(out.expanduser(), row)
        return _saved(row, f"Saved to {out}", session)
    project.make()
    kept = project.pool.append(row)
    total = project.pool.counts().get("good", 0)
    title = "Already tagged: nothing added" if kept.duplicate else f"Saved as good, {total} in the pool"
    return _saved(structs.replace(row, id=kept.id), title, session)


def _source(live: LiveSession | None, file: Path | None, leaf: str | None) -> tuple[Session, Recorder, str | None]:
    if live is None:
        assert file is not None
        return read(file), Recorder(), leaf
    if not live.idle:
        raise Refused("the agent is still working", next_step="tag the turn when its answer is complete")
    recorder = Recorder(live.host, live.host_version, live.system_prompt, live.tools)
    if live.leaf is None:  # the user went back to before the first message: whatever the file holds is not in use
        return Session(live.session, str(live.cwd), live.file, ()), recorder, None
    if live.file is not None and live.file.exists():
        return read(live.file), recorder, live.leaf
    return Session(live.session, str(live.cwd), None, live.entries or ()), recorder, live.leaf


def _saved(row: Row, title: str, session: Session) -> Report:
    question, answer = preview(row)
    rows = [
        ("Row", row.id),
        ("Question", question),
        ("Answer", answer),
        ("Learns from", f"{len(row.target)} of {len(row.messages)} messages"),
    ]
    notes = []
    redactions = sum(edit.kind == "redacted" for edit in row.edits)
    if redactions:
        notes.append(f"{redactions} secret(s) redacted; see its edits: machine tagged {row.id}")
    if session.damaged:
        notes.append(
            f"{len(session.damaged)} damaged line(s) of the session were left out, first at {session.damaged[0]}"
        )
    data = {"id": row.id, "digest": row.digest, "target": list(row.target), "edits": len(row.edits)}
    return Report(title=title, rows=rows, notes=notes, data=data)
