"""Gate: one candidate against every gate of its preregistration, once.

Each arm (the base, the candidate, and for a control gate the prompted base) is asked each suite; every answer is kept
in the gate run's folder, as is the verdict (`result.json`), whose digest goes into the log. What is asked goes on where
it was left. Where something frozen was changed nothing is asked, and the candidate has failed.
"""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from machine.dataset.targets import Target, expand
from machine.evals.suite import refuse_trained
from machine.release import log
from machine.release.alone import alone, unmoved
from machine.release.asking import Asking, Gates
from machine.release.candidate import edited
from machine.release.gates.result import Result
from machine.release.given import suites
from machine.release.preregistration import Repair
from machine.release.seal import Place, changes, file_digest
from machine.release.standing import Standing
from machine.release.summary import RESULT, GateRun
from machine.sandbox.job import Box
from machine.store.files import private_folder, write_private
from machine.store.project import Project
from machine.tinker.service import Service
from machine.training.run import Run, now
from machine.training.script import trained_rows

SEAL = "frozen"
"""The gate that comes before all others: nothing was changed after it was frozen."""


def ready(project: Project, standing: Standing, files: dict[str, Path], box: Callable[[], Box]) -> Gates | list[str]:
    """What is to be asked, once all is checked that can be before the service is; or what was changed since freezing.

    Raises:
        Refused: there is no candidate, a suite from outside is not fit (see `given`), or no sandbox can be had.
    """
    standing.refuse_unless("gate")
    assert standing.candidate is not None
    assert standing.seal is not None
    place = Place(project.releases, standing.release, standing.version)
    run = Run(project.runs / standing.candidate.run)
    if changed := _changed(project, standing):
        return changed
    found = place.read()
    trained = _trained(project, run)
    chosen = box() if any(isinstance(suite, Repair) for suite in found.suites.values()) else None
    taken = suites(project, place, standing, found, files, trained)
    for cases in taken.cases.values():
        refuse_trained(cases, trained)
    return Gates(project, place, standing, found, taken, chosen)


def fail_changed(project: Project, standing: Standing, changed: Sequence[str]) -> GateRun:
    """The verdict on a candidate whose frozen files were changed: it failed, and nothing was asked."""
    with alone(project, standing):
        return _keep(project, standing, [_sealed(changed)], 0.0, {}, asked=False)


def run_gates(gates: Gates, service: Service, progress: Callable[[str], None] = lambda line: None) -> GateRun:
    """Asks every arm every suite, judges every gate, and enters the verdict in the log.

    Raises:
        ServiceError: the service failed; what was answered is kept, and the same command goes on.
        TrainingError: other weights answer than those that were trained, or it was interrupted.
        Refused: it has moved on meanwhile, as where another was named the candidate.
        StoreError: another process is at these gates.
        MachineError: the sandbox, or Pi in it, does not work.
    """
    with alone(gates.project, gates.standing):
        return _run_gates(gates, service, progress)


def _run_gates(gates: Gates, service: Service, progress: Callable[[str], None]) -> GateRun:
    began = time.monotonic()
    private_folder(gates.folder)
    asking = Asking(gates, service, progress)
    asking.prove()
    measured = {(name, arm): asking.measured(name, arm) for name in gates.found.suites for arm in gates.arms(name)}
    results = [
        _sealed(_changed(gates.project, gates.standing)),  # meanwhile
        *(asking.result(name, measured) for name in gates.found.gates),
    ]
    seconds = round(time.monotonic() - began, 3)
    box = gates.box.name if gates.box else ""
    return _keep(gates.project, gates.standing, results, seconds, dict(gates.suites.given), box=box)


def _changed(project: Project, standing: Standing) -> list[str]:
    """What is not as it was when the release was frozen, and its candidate named."""
    assert standing.candidate is not None
    assert standing.seal is not None
    run = Run(project.runs / standing.candidate.run)
    changed = changes(Place(project.releases, standing.release, standing.version), standing.seal)
    return changed + [
        f"runs/{run.id}/{name} was edited after it became the candidate" for name in edited(run, standing.candidate)
    ]


def _sealed(changed: Sequence[str]) -> Result:
    """The verdict of the gate that comes before all others."""
    figure = f"{len(changed)} changed" if changed else "nothing changed"
    return Result(SEAL, "seal", not changed, figure, "nothing changed after it was frozen", tuple(changed))


def _keep(
    project: Project,
    standing: Standing,
    results: list[Result],
    seconds: float,
    given: dict[str, str],
    *,
    asked: bool = True,
    box: str = "",
) -> GateRun:
    unmoved(project, standing)
    candidate = standing.candidate
    assert candidate is not None
    place = Place(project.releases, standing.release, standing.version)
    found = GateRun(
        standing.release, standing.version, candidate.run, candidate.weights, now(), seconds,
        tuple(map(_finite, results)), given,
        asked, box,
    )  # fmt: skip
    data = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
    write_private(private_folder(place.gates(candidate.run)) / RESULT, data)
    about = {
        "passed": found.passed,
        "sha256": hashlib.sha256(data).hexdigest(),
        "gates": {result.gate: result.passed for result in results},
        "asked": asked,
        "records": _digests(place.gates(candidate.run), results),
    }
    log.append(project.releases, standing.release, standing.version, "gated", about)
    return found


def _finite(result: Result) -> Result:
    """The result with the numbers that JSON can hold: what is infinite, or none, stands in its words."""
    numbers = {name: value for name, value in result.numbers.items() if math.isfinite(value)}
    return msgspec.structs.replace(result, numbers=numbers)


def _digests(folder: Path, results: Sequence[Result]) -> dict[str, str]:
    """The SHA-256 (hex) of each file with the answers that the verdicts were reckoned from."""
    names = sorted({name for result in results for name in result.samples})
    return {name: file_digest(folder / name) for name in names if (folder / name).is_file()}


def _trained(project: Project, run: Run) -> list[Target]:
    """The targets that a run trained on."""
    return expand(trained_rows(run, project.folder))
