"""`machine import`: every turn of session files, each once, into the pools of the projects they were recorded in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from machine.capture.policy import Doorkeeper
from machine.capture.reader import read
from machine.capture.rows import Captured, Recorder, capture_turn
from machine.capture.session import Branch, Session
from machine.capture.turn import Turn, turns
from machine.commands.common import shown
from machine.errors import Refused, SessionFault
from machine.host import Host
from machine.privacy.sources import Sources
from machine.report import Report, Table
from machine.store.project import Project
from machine.trace import TAGS, Tag


@dataclass
class _Tally:
    """What became of one file."""

    file: Path
    project: Project | None = None
    turns: int = 0
    added: int = 0
    held: int = 0
    erased: int = 0
    unanswered: int = 0
    refused: list[str] = field(default_factory=list)
    damaged: Sequence[int] = ()
    failed: str = ""

    def cells(self) -> tuple[str, ...]:
        """The file's line of the table."""
        counts = (self.turns, self.added, self.held, len(self.refused), self.unanswered, len(self.damaged))
        return (self.file.name, *map(str, counts), "" if self.project is None else self.project.folder.name)


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--tag", type=click.Choice(TAGS), default="observed", show_default=True, help="The tag of the rows.")
@click.option("--branches", is_flag=True, help="Turns of abandoned branches too, not only of the one that Pi resumes.")
@click.option("--here", is_flag=True, help="Into this folder's project, wherever the sessions were recorded.")
@click.option("--no-prompt", is_flag=True, help="Keep turns of a Pi before 0.86, whose files lack the system prompt.")
@click.pass_obj
def import_(host: Host, files: tuple[Path, ...], tag: Tag, branches: bool, here: bool, no_prompt: bool) -> Report:
    """Put every turn of Pi session files into the pool, each once. The files are only read."""
    tallies = [_Tally(file) for file in files]
    for tally in tallies:
        try:
            session = read(tally.file)
            tally.project = Project.at(Path(session.cwd) if session.cwd and not here else host.cwd)
            _import(host, session, tally, tag, branches, Recorder(promptless=no_prompt))
        except SessionFault as fault:
            tally.failed = fault.whole
    host.progress(None)
    return _report(tallies, tag)


def _import(host: Host, session: Session, tally: _Tally, tag: Tag, branches: bool, recorder: Recorder) -> None:
    tally.damaged = session.damaged
    project = tally.project
    assert project is not None
    found: dict[tuple[str, ...], tuple[Branch, Turn]] = {}
    silent: set[str] = set()
    for leaf in session.leaves() if branches else [session.last]:
        branch = session.path(leaf)
        answered, others = turns(branch)
        silent.update(others)
        found |= {turn.entries(branch): (branch, turn) for turn in answered}
    tally.turns, tally.unanswered = len(found), len(silent)
    held, erased = project.pool.holds(list(found)), project.forgotten.holds(list(found))
    tally.held, tally.erased = sum(held), sum(gone and not there for gone, there in zip(erased, held, strict=True))
    known = zip(found.values(), held, erased, strict=True)
    missing = [each for each, there, gone in known if not there and not gone]
    door = Doorkeeper(project)
    for number, (branch, turn) in enumerate(missing, start=1):
        host.progress(f"{tally.file.name}: turn {number} of {len(missing)}")
        try:
            captured = door.let_in(_Build(branch[: turn.end + 1], turn, tag, recorder))
        except Refused as refusal:
            tally.refused.append(f"{tally.file.name}: {refusal.message}")
            continue
        tally.added += _keep(project, captured, tag)


@dataclass(frozen=True)
class _Build:
    """One turn, to be captured with a project's sources."""

    branch: Branch
    turn: Turn
    tag: Tag
    recorder: Recorder

    def __call__(self, sources: Sources) -> Captured:
        return capture_turn(self.branch, self.turn, tag=self.tag, recorder=self.recorder, sources=sources)


def _keep(project: Project, captured: Captured, tag: Tag) -> bool:
    """Whether the turn was new."""
    project.make()
    with project.blobs.holding(captured.pictures.values()):
        if tag == "observed":
            return project.pool.append_observed(captured.rows) > 0
        return not all(kept.duplicate for kept in project.pool.append_all(captured.rows).rows)


def _report(tallies: Sequence[_Tally], tag: Tag) -> Report:
    failed = [tally.failed for tally in tallies if tally.failed]
    refused = [reason for tally in tallies for reason in tally.refused]
    damaged = [
        f"{tally.file.name}: {len(tally.damaged)} damaged line(s) left out, first at {tally.damaged[0]}"
        for tally in tallies
        if tally.damaged
    ]
    erased = [
        f"{tally.file.name}: {tally.erased} turn(s) that you erased are not taken in again (/good takes one)"
        for tally in tallies
        if tally.erased
    ]
    added = sum(tally.added for tally in tallies)
    lines = [tally.cells() for tally in tallies if not tally.failed]
    table = Table(
        "files", ("file", "turns", "added", "held before", "refused", "no answer", "damaged lines", "store"), lines
    )
    facts = [
        {
            "file": str(tally.file),
            "turns": tally.turns,
            "added": tally.added,
            "held": tally.held,
            "erased": tally.erased,
            "unanswered": tally.unanswered,
            "refused": tally.refused,
            "damaged": list(tally.damaged),
            "failed": tally.failed,
        }
        for tally in tallies
    ]
    return Report(
        title=f"{added} turn(s) added as {tag}",
        tables=[table] if lines else [],
        notes=[*failed, *damaged, *erased, *shown(refused)],
        next_step="machine tagged" if added else "",
        data={"files": facts},
        exit_code=1 if failed else 0,
    )
