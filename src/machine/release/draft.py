"""Draft: a new preregistration out of a template, and the next version of one that is frozen.

A template is a folder with `preregistration.yaml` and its suites; those of the package are in `templates/`. The draft
is filled with what is known: the recipe's model and figures, and the rows that would be trained on. A suite that the
template leaves open is taken from the project's own (`evals/suite.jsonl`), or, for repositories, drawn anew.
"""

import contextlib
import importlib.resources
import json
import math
import shutil
import string
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

from machine.agentic.task import draw, tasks_text
from machine.dataset.targets import expand
from machine.errors import Refused, UsageError
from machine.evals.case import named, used_functions
from machine.evals.compare import FIRST_TAG
from machine.evals.suite import read_suite, suite_text, trained_on
from machine.release import log
from machine.release.preregistration import FILE, ID, Cases, Repair, read_preregistration
from machine.release.seal import RECIPE, Place, training_rows, training_side
from machine.release.standing import Standing, ledger
from machine.store.files import private_folder, write_private
from machine.store.project import Project
from machine.training.config import Config, read_config

BLANK = "blank"
SUITE = "suite.jsonl"
_LONGEST = 4096
"""Tokens that a row is reckoned with, at most, for the bound on tokens."""
_SLOWEST = 1e-5
"""The least learning rate that a draft allows, unless the recipe's is less."""


def templates() -> list[str]:
    """The names of the package's templates."""
    return sorted(each.name for each in _packaged().iterdir() if each.is_dir() and each.name != "__pycache__")


def new(project: Project, release: str, source: str | None) -> tuple[Place, list[str]]:
    """Writes the first draft of a release, and returns where it is, and what still has to be done to it, in words.

    Args:
        project: whose release it is.
        release: its id.
        source: a template of the package by its name, or a folder or a file of the user's; None: the package's template
            of that id, else the blank one.

    Raises:
        UsageError: the id is none, or there is no such template.
        Refused: there is such a release already, or the project has no recipe or no rows.
    """
    if not ID.fullmatch(release):
        raise UsageError(f"{release!r} is no id of a release", next_step="machine release new BR-001")
    if release in ledger(log.read(project.releases)).releases:
        raise Refused(f"there is a release {release} already", next_step=f"machine release status {release}")
    place = Place(project.releases, release, 1)
    if place.folder.exists() and not (place.folder.is_dir() and not any(place.folder.iterdir())):
        raise Refused(f"{place.folder} is there already, of no release that the log knows", next_step="move it away")
    template = _template(source or (release if release in templates() else BLANK))
    filled = string.Template(_text(template)).safe_substitute(_known(project, release))
    project.make()
    private_folder(place.folder)
    try:
        write_private(place.file, filled.encode())
        for name, data in _suites(template):
            _put(place.folder / "suites" / name, data)
        _refuse_other_id(source or template.name, place)
        missing = [*_without_trained(project, place), *_open_suites(project, place)]
        log.append(project.releases, release, 1, "drafted", {"template": source or template.name})
    except BaseException:
        shutil.rmtree(place.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            place.folder.parent.rmdir()  # where nothing else lies in it
        raise
    return place, missing


def amend(project: Project, standing: Standing, reason: str) -> Place:
    """Begins the next version, a copy of the one before for editing; the one before stays as it is.

    Raises:
        UsageError: no reason is given.
        Refused: the release is a draft, or in trial; or its preregistration is gone.
    """
    standing.refuse_unless("amend")
    if not reason.strip():
        raise UsageError("an amendment needs a reason", next_step="say why with --reason")
    before = Place(project.releases, standing.release, standing.version)
    place = Place(project.releases, standing.release, standing.version + 1)
    if not before.file.is_file():
        raise Refused(f"{before.file} is gone, so there is nothing to amend", next_step=f"put {before.file} back")
    shutil.rmtree(place.folder, ignore_errors=True)  # what a crash left of an amendment that the log does not know
    private_folder(place.folder)
    _put(place.file, before.file.read_bytes())
    for file in sorted((before.folder / "suites").glob("*")):
        if file.is_file() and not file.is_symlink():
            _put(place.folder / "suites" / file.name, file.read_bytes())
    log.append(project.releases, standing.release, place.version, "amended", {"reason": reason})
    return place


def _template(source: str) -> Traversable:
    if source in templates():
        return _packaged().joinpath(source)
    path = Path(source)
    with contextlib.suppress(RuntimeError):  # the home of nobody
        path = path.expanduser()
    folder = path.parent if path.name == FILE else path
    if not (folder / FILE).is_file():
        raise UsageError(
            f"{source} is no template: there is no {folder / FILE}",
            next_step=f"give one of {', '.join(templates())}, or a folder that holds {FILE}",
        )
    return folder


def _text(template: Traversable) -> str:
    file = template.joinpath(FILE)
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{file} is no template: {error}", next_step="give a file of text, in UTF-8") from error


def _suites(template: Traversable) -> list[tuple[str, bytes]]:
    """The files beside a template's preregistration: suites, and functions that score."""
    folder = template.joinpath("suites")
    files = [file for file in folder.iterdir() if file.is_file()] if folder.is_dir() else []
    try:
        return [(file.name, file.read_bytes()) for file in sorted(files, key=lambda each: each.name)]
    except OSError as error:
        raise Refused(f"{folder} cannot be read: {error}", next_step=f"make {folder} readable for you") from error


def _refuse_other_id(source: str, place: Place) -> None:
    found = read_preregistration(place.file)
    if found.id != place.release:
        raise Refused(
            f"{source}: id: the template is of {found.id} alone, and {place.release} is asked for",
            next_step="write `id: $id` into the template",
        )


def _packaged() -> Traversable:
    return importlib.resources.files("machine.release").joinpath("templates")


def _known(project: Project, release: str) -> dict[str, str]:
    """What a template's `$names` stand for."""
    config = read_config(project.train / RECIPE)
    rows, sha256 = training_rows(project)
    steps = _steps(config, rows)
    tokens = steps * config.batch_size * min(config.max_length, _LONGEST)
    return {
        "id": release,
        "model": json.dumps(config.model, ensure_ascii=False),
        "rows": str(rows),
        "rows_least": str(max(1, rows // 2)),
        "rows_most": str(rows * 2),
        "sha256": sha256,
        "steps_most": str(steps * 2),
        "rank": str(config.rank),
        "rate_least": f"{min(config.learning_rate, _SLOWEST):.12g}",
        "rate_most": f"{config.learning_rate:.12g}",
        "tokens_most": str(tokens),
        "cost_most": "5.0",
    }


def _steps(config: Config, rows: int) -> int:
    """Steps that the recipe comes to, a row being at least one datum."""
    return config.steps or config.epochs * math.ceil(rows / config.batch_size)


def _open_suites(project: Project, place: Place) -> list[str]:
    """Fills the suites whose files are missing, and returns what cannot be, in words."""
    found, missing = read_preregistration(place.file), []
    for name, file in found.files().items():
        path, suite = place.folder / file, found.suites[name]
        if path.exists():
            continue
        if isinstance(suite, Repair):
            _put(path, tasks_text(draw(suite.least)))
        elif not _from_project(project, place, path, regression=name == FIRST_TAG):
            missing.append(f"write {path} (at least {suite.least} cases)")
    return missing + [f"write {entry} in {place.file}" for entry in found.unwritten()]


def _without_trained(project: Project, place: Place) -> list[str]:
    """Takes the cases that this project trains on out of the template's suites, and says which."""
    found, said = read_preregistration(place.file), []
    trained = expand(training_side(project))
    for name, file in found.files().items():
        path, suite = place.folder / file, found.suites[name]
        if path.exists() and isinstance(suite, Cases):
            cases = read_suite(path)
            leaked = trained_on(cases, trained)
            if leaked:
                _put(path, suite_text(case for case in cases if case.id not in leaked))
                said.append(f"{len(leaked)} cases of {file} are left out, since they are trained on: {named(leaked)}")
    return said


def _from_project(project: Project, place: Place, path: Path, *, regression: bool) -> bool:
    """Takes the project's own cases: those with the tag `regression`, or all others; False where there are none."""
    own = project.evals / SUITE
    if not own.exists():
        return False
    cases = [case for case in read_suite(own) if (FIRST_TAG in case.tags) == regression]
    if not cases:
        return False
    for function in used_functions(cases):
        if not Path(function).is_absolute():
            _put(path.parent / function, (project.evals / function).read_bytes())
    _put(path, suite_text(cases))
    return True


def _put(path: Path, data: bytes) -> None:
    private_folder(path.parent)
    write_private(path, data)


def describe(place: Place) -> dict[str, object]:
    """The preregistration as plain values, for programs."""
    return dict(msgspec.to_builtins(place.read()))
