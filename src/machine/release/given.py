"""Given: the suites that were not frozen, taken once for each candidate: files from outside, and fresh seeds.

A file from outside must be new to the store: no suite that is or was there, no holdout of an earlier candidate, nothing
that was trained on, exactly or nearly. It is copied into the gate run's folder and entered in the log with its digest
before anything is asked, so that neither it nor the fresh seeds can be drawn again because the answer disappointed.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from machine.agentic.task import Task, draw, read_tasks, tasks_text
from machine.dataset.repeats import normalised
from machine.dataset.targets import Target, text_of
from machine.errors import Refused, UsageError
from machine.evals.case import Case, messages_fault
from machine.evals.suite import read_suite, suite_text
from machine.release import log
from machine.release.alone import alone
from machine.release.holdout import overlap, plain
from machine.release.preregistration import Cases, Preregistration, Repair
from machine.release.seal import Place, file_digest
from machine.release.standing import Standing
from machine.store.files import explained, private_folder, write_private
from machine.store.project import Project
from machine.trace import canonical

_NAMED = 5


@dataclass(frozen=True)
class Suites:
    """What each suite of a preregistration holds for one gate run.

    `given` is what the log says of those that were not frozen: where each came from, and its SHA-256 (hex).
    """

    cases: Mapping[str, list[Case]]
    tasks: Mapping[str, list[Task]]
    given: Mapping[str, str]

    def size(self, name: str) -> int:
        """How many cases or tasks a suite has."""
        return len(self.cases.get(name, ())) or len(self.tasks.get(name, ()))


def suites(
    project: Project,
    place: Place,
    standing: Standing,
    found: Preregistration,
    files: Mapping[str, Path],
    trained: Sequence[Target],
) -> Suites:
    """The suites of the candidate's gate run; what is from outside is taken now, or as it was taken before.

    Args:
        project: whose release it is.
        place: the release's version.
        standing: its standing; it has a candidate.
        found: its preregistration.
        files: the file of each suite that is from outside, by the suite's name.
        trained: the targets that the candidate was trained on.

    Raises:
        UsageError: a file is missing, or is given for a suite that is none of those.
        Refused: a file is not new to the store, overlaps with what was trained on, or is too short; or what was taken
            before is no longer as it was.
    """
    folder = _folder(place, standing)
    cases, tasks = {}, {}
    for name, suite in found.suites.items():
        if suite.file is not None:
            path = place.folder / suite.file
            if isinstance(suite, Repair):
                tasks[name] = read_tasks(path)
            else:
                cases[name] = read_suite(path)
    given = _given(project, place, standing, found, files, trained)
    for name, digest in given.items():
        path = folder / f"{name}.jsonl"
        if file_digest(path) != digest.rpartition(" ")[2]:
            raise Refused(f"{path} is not the suite that the gates began with", next_step=_again(standing))
        if isinstance(found.suites[name], Repair):
            tasks[name] = read_tasks(path)
        else:
            cases[name] = read_suite(path)
    return Suites(cases, tasks, given)


def _given(
    project: Project,
    place: Place,
    standing: Standing,
    found: Preregistration,
    files: Mapping[str, Path],
    trained: Sequence[Target],
) -> dict[str, str]:
    """What was given to this candidate: taken now, or, by this or another process, before."""
    if standing.gating is None:
        with alone(project, standing) as now:
            if now.gating is None:
                return _take(project, place, standing, found, files, trained)
            standing = now
    assert standing.gating is not None
    given = dict(standing.gating["given"])
    _refuse_others(standing, found, given, files)
    return given


def _take(
    project: Project,
    place: Place,
    standing: Standing,
    found: Preregistration,
    files: Mapping[str, Path],
    trained: Sequence[Target],
) -> dict[str, str]:
    """Takes what is from outside, keeps it, and enters it in the log."""
    _refuse_unasked(found, files)
    _refuse_missing(found, files)
    own = _folder(place, standing)
    ready: dict[str, bytes] = {}
    given = {}
    for name, suite in found.suites.items():
        if suite.file is not None:
            continue
        if isinstance(suite, Repair):
            ready[name], source = tasks_text(draw(suite.least)), f"{suite.least} fresh seeds"
        else:
            ready[name], source = _from_outside(project, name, suite, files[name], trained, own)
        given[name] = f"{source}, {hashlib.sha256(ready[name]).hexdigest()}"
    folder = private_folder(own)
    for name, data in ready.items():
        write_private(folder / f"{name}.jsonl", data)
    about: dict[str, Any] = {"run": folder.name, "given": given}
    log.append(project.releases, standing.release, standing.version, "gating", about)
    return given


def _from_outside(
    project: Project, name: str, suite: Cases, path: Path, trained: Sequence[Target], own: Path
) -> tuple[bytes, str]:
    """A file from outside, checked, and what the log says of where it is from. `own` is where it is to be kept."""
    if not path.is_file():
        raise Refused(f"{path} is no file; it is to be the suite {name}", next_step="give the path of a suite (JSONL)")
    if not path.read_bytes().strip():
        raise Refused(f"{path} holds no case", next_step=f"give at least {suite.least} cases")
    cases = read_suite(path)
    _refuse_repeats(path, cases)
    _refuse_known(project, name, path, cases, own)
    if scorers := sorted({case.id for case in cases if case.scorer.kind == "python"}):
        raise Refused(
            f"{path}: case {scorers[0]} is scored by a function, which a suite from outside may not bring along",
            next_step=f"give {scorers[0]} another scorer",
        )
    if len(cases) < suite.least:
        raise Refused(
            f"{path} holds {len(cases)} cases, suites.{name} says at least {suite.least}", next_step="add cases to it"
        )
    if found := overlap(cases, trained, suite.near):
        words = ", ".join(f"{each.case} ({each.kind}: {each.row}, {each.similarity:.0%})" for each in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise Refused(
            f"{path}: {len({each.case for each in found})} of {len(cases)} cases repeat what was trained on, and prove "
            f"nothing: {words}{more}",
            next_step="take them out, and give cases that nobody trained on; nothing was asked yet",
        )
    return suite_text(cases), f"{len(cases)} cases of {path.name if path.name.isprintable() else ascii(path.name)}"


def _refuse_unasked(found: Preregistration, files: Mapping[str, Path]) -> None:
    if unknown := [name for name in files if name not in found.external]:
        expected = f"it has {', '.join(found.external)}" if found.external else "it has none"
        raise UsageError(
            f"{found.id} has no suite from outside that is called {unknown[0]!r} ({expected})",
            next_step=f"machine release gate {found.id} --help",
        )


def _refuse_missing(found: Preregistration, files: Mapping[str, Path]) -> None:
    if missing := [name for name in found.external if name not in files]:
        raise UsageError(
            f"the suite {missing[0]!r} comes from outside: at least {found.suites[missing[0]].least} cases that nobody "
            "trained on, and that were never in the store",
            next_step=f"machine release gate {found.id} --holdout {missing[0]}=FILE",
        )


def _refuse_others(
    standing: Standing, found: Preregistration, given: Mapping[str, str], files: Mapping[str, Path]
) -> None:
    """Refuses another file for a suite than the one that was taken already."""
    _refuse_unasked(found, files)
    for name, path in files.items():
        if hashlib.sha256(suite_text(read_suite(path)) if path.is_file() else b"").hexdigest() not in given[name]:
            before = given[name].rpartition(", ")[0]
            raise Refused(
                f"{path}: another {name} was given to the gates of this candidate already ({before})",
                next_step=f"machine release gate {standing.release}, which goes on with that one",
            )


def _refuse_repeats(path: Path, cases: Sequence[Case]) -> None:
    """Refuses cases that ask one thing several times, and count it as often."""
    asked: dict[bytes, str] = {}
    for case in cases:
        other = asked.setdefault(_whole(case), case.id)
        if other != case.id:
            raise Refused(
                f"{path}: cases {other} and {case.id} ask the same, which counts once", next_step=f"take out {case.id}"
            )


def _refuse_known(project: Project, name: str, path: Path, cases: Sequence[Case], own: Path) -> None:
    """Refuses a file that lies in the store, or whose questions a suite of the store already asks.

    What lies in `own` was put there by a crash, and was never asked: the log does not know of it.
    """
    if path.resolve().is_relative_to(project.folder.resolve()):
        raise Refused(
            f"{path} lies in the project's store: a holdout comes from outside", next_step="give another file"
        )
    asked = {_question(case): case.id for case in cases}
    for other in sorted([*project.evals.glob("*.jsonl"), *project.releases.glob("*/v*/**/*.jsonl")]):
        for line in [] if other.parent == own else _lines(other):
            known = _question_of_line(line)
            if known is not None and known in asked:
                where = other.relative_to(project.folder)
                raise Refused(
                    f"{path}: case {asked[known]} is in the store already ({where}), so it is no holdout",
                    next_step=f"give another file for {name}",
                )


def _lines(path: Path) -> list[bytes]:
    with explained(path):
        return path.read_bytes().split(b"\n") if path.is_file() else []


def _whole(case: Case) -> bytes:
    """All that a case asks, whatever its spacing and case; two that are alike in it are one case."""
    said = [[m.get("role"), normalised(plain(text_of(m))), m.get("tool_calls")] for m in case.messages]
    return canonical([said, list(case.tools)])


_Question = tuple[tuple[str, str], ...]
"""Who says what, whatever its case and spacing, and whatever the system prompt."""


def _question(case: Case) -> _Question:
    said = [message for message in case.messages if message.get("role") != "system"]
    return tuple((str(message.get("role")), normalised(plain(text_of(message)))) for message in said)


def _question_of_line(line: bytes) -> _Question | None:
    """None where the line is none of a suite."""
    try:
        case = msgspec.json.decode(line, type=Case)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return None if messages_fault(case) else _question(case)


def _folder(place: Place, standing: Standing) -> Path:
    assert standing.candidate is not None
    return place.gates(standing.candidate.run)


def _again(standing: Standing) -> str:
    return f"machine release candidate {standing.release} RUN (another run)"
