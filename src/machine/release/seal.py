"""Seal: the digests that freezing takes, and what is no longer as it was.

Sealed are the preregistration, every suite file with the functions that score it, and the built-in retention suite; the
rows to train on are in the preregistration. Nothing keeps a file from being edited; an edit is shown by `changes`, and
fails the gates.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.dataset.select import rows_digest
from machine.dataset.split import split
from machine.errors import Refused
from machine.evals.case import used_functions
from machine.evals.retention import built_in_cases, built_in_passages, retention_hash
from machine.evals.suite import read_suite
from machine.release.preregistration import FILE, Cases, Preregistration, read_preregistration
from machine.store.project import Project
from machine.trace import Row
from machine.training.config import read_config
from machine.training.script import load_rows

RECIPE = "tinker.yaml"
_RUN = re.compile(r"[\w-][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Place:
    """One version of a release on disk: `releases/<id>/v<version>/`."""

    releases: Path
    release: str
    version: int

    @property
    def folder(self) -> Path:
        """Its folder."""
        return self.releases / self.release / f"v{self.version}"

    @property
    def file(self) -> Path:
        """Its preregistration."""
        return self.folder / FILE

    def read(self) -> Preregistration:
        """Its preregistration.

        Raises:
            Refused: as `read_preregistration`, or it is of another release.
        """
        found = read_preregistration(self.file)
        if found.id != self.release:
            raise Refused(f"{self.file}: id: it is of {found.id}, not of {self.release}", next_step=f"mend {self.file}")
        return found

    def gates(self, run: str) -> Path:
        """Where the gates keep what the candidate of training run `run` was asked and answered.

        Raises:
            Refused: `run` is no name of a run.
        """
        if run and not _RUN.fullmatch(run):
            raise Refused(f"{self.folder}: {run!r:.80} is no name of a run", next_step="machine release status")
        return self.folder / "gates" / run


class Seal(msgspec.Struct, frozen=True):
    """SHA-256 (hex) of what is frozen: the preregistration, each suite's files by their paths, what retention asks."""

    preregistration: str
    suites: dict[str, str]
    retention: str


def seal(place: Place, found: Preregistration) -> Seal:
    """The seal of a version as it is now.

    Raises:
        Refused: a file of a suite is missing, or is a link (the message names it).
    """
    suites = {}
    for file in sorted({*found.files().values(), *_functions(place, found)}):
        path = place.folder / file
        if path.is_symlink() or not path.resolve().is_relative_to(place.folder.resolve()):
            raise Refused(f"{path} is a link, or lies outside {place.folder}", next_step="put the file itself there")
        suites[file] = file_digest(path)
        if suites[file] == "":
            raise Refused(f"{path} is not there", next_step=f"write it, or name another file in {place.file}")
    return Seal(file_digest(place.file), suites, retention_hash(built_in_cases(), built_in_passages()))


def changes(place: Place, sealed: Seal) -> list[str]:
    """What is not as it was when it was frozen, in words."""
    found = []
    for file, digest in {FILE: sealed.preregistration, **sealed.suites}.items():
        try:
            now = file_digest(place.folder / file)
        except Refused as error:
            found.append(f"{file} cannot be read ({error.message})")
            continue
        if now != digest:
            found.append(f"{file} was edited after it was frozen" if now else f"{file} is gone")
    if sealed.retention != retention_hash(built_in_cases(), built_in_passages()):
        found.append("this Machine's retention suite is another than the one that was frozen")
    return found


def training_side(project: Project) -> list[Row]:
    """The rows that the project's recipe would train on.

    Raises:
        Refused: there is no recipe, or no row.
    """
    config = read_config(project.train / RECIPE)
    return split(load_rows(config, project.folder), config.test_size, config.seed).train


def training_rows(project: Project) -> tuple[int, str]:
    """How many rows that are, and their digest.

    Raises:
        Refused: as `training_side`.
    """
    rows = training_side(project)
    return len(rows), rows_digest(rows)


def _functions(place: Place, found: Preregistration) -> set[str]:
    """The files, beside the suites, of the functions that score."""
    suites = [place.folder / s.file for s in found.suites.values() if isinstance(s, Cases) and s.file is not None]
    return {f"suites/{name}" for path in suites if path.exists() for name in used_functions(read_suite(path))}


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file; empty where there is none.

    Raises:
        Refused: it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}", next_step=f"make {path} readable for you") from error
