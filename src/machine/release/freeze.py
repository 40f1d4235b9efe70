"""Freeze: a draft that can be decided becomes the preregistration that counts.

Refused is what could never be decided: a suite below its own least, a gate that no candidate could pass on so few
cases, a case that is trained on, rows other than those that were written down.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from machine.agentic.task import build, read_tasks
from machine.dataset.targets import Target, expand
from machine.errors import Refused
from machine.evals.case import Case, named, used_functions
from machine.evals.suite import read_suite, trained_on
from machine.release import log
from machine.release.gates.power import cannot, least_cases
from machine.release.preregistration import Cases, Control, Improvement, NonInferiority, Preregistration, Repair
from machine.release.seal import RECIPE, Place, Seal, seal, training_rows, training_side
from machine.release.standing import Standing
from machine.store.project import Project
from machine.training.config import read_config

_Sized = Improvement | NonInferiority | Control
"""Gates whose power depends on how many cases there are."""


def freeze(project: Project, standing: Standing) -> tuple[Seal, list[str]]:
    """Seals a draft and enters it in the log; returns the seal, and what its suites cannot show, in words.

    Raises:
        Refused: it is no draft, or cannot be decided (the message names the entry, the file and the line).
    """
    standing.refuse_unless("freeze")
    place = Place(project.releases, standing.release, standing.version)
    found = place.read()
    if unwritten := found.unwritten():
        raise Refused(f"{place.file}: {', '.join(unwritten)} is not written yet", next_step=f"write it in {place.file}")
    _refuse_other_rows(project, place, found)
    trained = expand(training_side(project))
    sizes = {name: _checked(place, name, suite, trained) for name, suite in found.suites.items()}
    for name, gate in found.gates.items():
        if isinstance(gate, _Sized) and sizes[gate.suite] < least_cases(gate):
            raise Refused(
                f"{place.file}: gates.{name} could be passed by no candidate: {gate.suite} has {sizes[gate.suite]} "
                f"cases, and it takes {least_cases(gate)}",
                next_step=f"add cases to {gate.suite}, or choose a wider margin",
            )
    sealed = seal(place, found)
    log.append(project.releases, standing.release, standing.version, "frozen", {"seal": msgspec.to_builtins(sealed)})
    return sealed, list(_limits(found, sizes))


def suite_path(place: Place, file: str) -> Path:
    """Where a suite's file lies."""
    return place.folder / file


def _checked(place: Place, name: str, suite: Cases | Repair, trained: list[Target]) -> int:
    """How many cases a suite has, or, where it is not written down, the least that it will have."""
    if suite.file is None:
        return suite.least
    path = suite_path(place, suite.file)
    if not path.exists():
        raise Refused(f"{path} is not there: it is suites.{name}", next_step=f"write it: {suite.least} cases at least")
    if path.is_file() and not path.read_bytes().strip():
        raise Refused(f"{path} is empty: it is suites.{name}", next_step=f"write {suite.least} cases at least into it")
    if isinstance(suite, Repair):
        tasks = read_tasks(path)
        for task in tasks:
            build(task)
        size = len(tasks)
    else:
        cases = read_suite(path)
        _refuse_far_functions(path, cases)
        if leaked := trained_on(cases, trained):
            raise Refused(
                f"{path}: {len(leaked)} cases are trained on and prove nothing: {named(leaked)}",
                next_step=f"take them out of {path}",
            )
        size = len(cases)
    if size < suite.least:
        raise Refused(f"{path} holds {size} cases, suites.{name} says at least {suite.least}", next_step=f"mend {path}")
    return size


def _refuse_far_functions(path: Path, cases: list[Case]) -> None:
    far = [file for file in used_functions(cases) if Path(file).name != file]
    if far:
        raise Refused(
            f"{path}: {far[0]} scores, and does not lie beside the suite, so it could not be frozen with it",
            next_step=f"copy it into {path.parent}, and name it without its folder",
        )


def _refuse_other_rows(project: Project, place: Place, found: Preregistration) -> None:
    rows, sha256 = training_rows(project)
    model = read_config(project.train / RECIPE).model
    if found.model != model:
        raise Refused(
            f"{place.file}: model: it is {found.model}, and the recipe trains {model}",
            next_step=f"mend {place.file}, or machine train sft --model {found.model} --force",
        )
    if (rows, sha256) != (found.data.rows, found.data.sha256):
        raise Refused(
            f"{place.file}: data: the recipe trains on {rows} rows now, whose digest is {sha256}; written down are "
            f"{found.data.rows} rows of digest {found.data.sha256}",
            next_step=f"write the rows that are meant into {place.file}",
        )


def _limits(found: Preregistration, sizes: dict[str, int]) -> Iterator[str]:
    for name, gate in found.gates.items():
        if isinstance(gate, _Sized) and (words := cannot(gate, sizes[gate.suite])):
            yield f"{name}: {words}"
