"""Verify: whether everything that the log speaks of is as it was when the log spoke of it."""

from collections.abc import Iterator, Sequence

from machine.release.candidate import edited
from machine.release.log import Entry
from machine.release.seal import Place, changes
from machine.release.standing import Standing, ledger
from machine.release.summary import gate_run
from machine.store.project import Project
from machine.tinker.served import BASE, served
from machine.training.run import Run


def faults(project: Project, entries: Sequence[Entry]) -> list[str]:
    """What is not as it was: frozen files, a candidate's records, the verdicts, and what serves the active release."""
    found = ledger(entries)
    faults = [fault for standing in found.releases.values() for fault in _of(project, standing)]
    student, now = served(project.root), found.now
    if now and (student is None or (student.model, student.why) != (now.model, now.release)):
        faults.append(f"the log says that {now.release} is active, and the student is {student and student.model}")
    if not now and student and student.why != BASE:
        faults.append(f"the log knows of no active release, and the student is {student.model} ({student.why})")
    return faults


def _of(project: Project, standing: Standing) -> Iterator[str]:
    place, name = Place(project.releases, standing.release, standing.version), f"{standing.release} v{standing.version}"
    if standing.seal:
        yield from (f"{name}: {each}" for each in changes(place, standing.seal))
    if standing.candidate:
        run = Run(project.runs / standing.candidate.run)
        yield from (f"{name}: runs/{run.id}/{each} was edited" for each in edited(run, standing.candidate))
        if standing.verdicts:
            _, fault = gate_run(place, standing.candidate.run, standing.verdicts.sha256)
            yield from [f"{name}: {fault}"] if fault else []
