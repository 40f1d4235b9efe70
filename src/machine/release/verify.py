"""Verify: whether everything that the log speaks of is as it was when the log spoke of it, in every version."""

from collections.abc import Iterator, Sequence

import msgspec

from machine.errors import Refused
from machine.release.candidate import Candidate, edited
from machine.release.log import Entry
from machine.release.seal import Place, Seal, changes, file_digest
from machine.release.standing import Activation, ledger
from machine.release.summary import gate_run
from machine.store.project import Project
from machine.tinker.served import BASE, Served, served
from machine.training.run import Run


def faults(project: Project, entries: Sequence[Entry]) -> list[str]:
    """What is not as it was: frozen files, candidates' records, what was given, verdicts, and the student."""
    found = ledger(entries)
    said = list(found.unread)
    runs: dict[tuple[str, int], str] = {}
    latest: dict[tuple[str, int, str, str], tuple[Place, str, Entry]] = {}
    for entry in entries:
        version = (entry.release, entry.version)
        if entry.step == "candidate":
            runs[version] = _run(entry)
        key = (*version, entry.step, "" if entry.step == "frozen" else runs.get(version, ""))
        latest[key] = (Place(project.releases, *version), runs.get(version, ""), entry)
    for place, run, entry in latest.values():
        try:
            said += [f"{place.release} v{place.version}: {each}" for each in _of(project, place, run, entry)]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if not isinstance(error, Refused):  # the entry is among those that cannot be read
                continue
            said.append(error.message)
    return [*dict.fromkeys(said), *_student(served(project.root), found.now)]


def _of(project: Project, place: Place, run: str, entry: Entry) -> Iterator[str]:
    """What is not as an entry of a version says; `run` is its candidate by then."""
    match entry.step:
        case "frozen":
            yield from changes(place, msgspec.convert(entry.data["seal"], Seal))
        case "candidate":
            candidate = msgspec.convert(entry.data["candidate"], Candidate)
            touched = edited(Run(project.runs / run), candidate)
            yield from (f"runs/{run}/{name} was edited" for name in touched)
        case "gating":
            for name, given in entry.data["given"].items():
                path = place.gates(run) / f"{name}.jsonl"
                if not path.is_file() or file_digest(path) not in given:
                    yield f"{path.relative_to(place.folder)} was edited after it was given"
        case "gated":
            _, fault = gate_run(place, run, entry.data["sha256"])
            yield from [fault] if fault else []
            for name, digest in entry.data.get("records", {}).items():
                path = place.gates(run) / name
                if not path.is_file() or file_digest(path) != digest:
                    yield f"{path.relative_to(place.folder)} was edited after the gates were run"


def _student(student: Served | None, now: Activation | None) -> Iterator[str]:
    if now and student != now.served:
        is_now = f"{student.model} ({student.why}, {student.weights})" if student else "none"
        yield f"the log says that {now.release} is active ({now.weights}), and the student is {is_now}"
    if not now and student and student.why != BASE:
        yield f"the log knows of no active release, and the student is {student.model} ({student.why})"


def _run(entry: Entry) -> str:
    candidate = entry.data.get("candidate")
    return str(candidate.get("run", "")) if isinstance(candidate, dict) else ""
