"""Summary: all that is to be said of one release, gathered from the log and its folder, for the page and the report."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.errors import Refused, StoreError
from machine.release import log
from machine.release.gates.result import Result
from machine.release.outcomes import Tally, latest, tallied
from machine.release.preregistration import Preregistration
from machine.release.seal import Place, changes
from machine.release.standing import Activation, Standing, ledger
from machine.store.files import explained
from machine.store.project import Project

RESULT = "result.json"


class GateRun(msgspec.Struct, frozen=True):
    """The gates of one candidate, run once: `result.json` in `Place.gates(run)`.

    `given` has, for each suite that was not frozen, where it came from and its SHA-256 (hex). `asked` is false where
    nothing was sampled, since something frozen had changed. `box` is the sandbox that repositories were mended in.
    """

    release: str
    version: int
    run: str
    weights: str
    at: str
    seconds: float
    results: tuple[Result, ...]
    given: dict[str, str] = {}
    asked: bool = True
    box: str = ""

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return bool(self.results) and all(result.passed for result in self.results)


@dataclass(frozen=True)
class Summary:
    """One release. `broken` are the breaks of the project's log, `changed` what is not as it was frozen.

    `preregistration` is None where the file cannot be read (`changed` says so), `gates` where none was run, `tally`
    where there was no trial. `active` is the project's active release, this one or another.
    """

    standing: Standing
    place: Place
    preregistration: Preregistration | None
    changed: tuple[str, ...]
    broken: tuple[str, ...]
    gates: GateRun | None
    tally: Tally | None
    active: Activation | None

    @property
    def is_active(self) -> bool:
        """Whether this version is the student now."""
        now, standing = self.active, self.standing
        return now is not None and (now.release, now.version) == (standing.release, standing.version)


def summary(project: Project, release: str | None) -> Summary:
    """What is to be said of a release; without an id, of the only one.

    Raises:
        Refused: there is none of that name.
    """
    entries, broken = log.look(project.releases)
    found = ledger(entries)
    standing = found.of(release)
    place = Place(project.releases, standing.release, standing.version)
    changed = [*found.unread, *(changes(place, standing.seal) if standing.seal else [])]
    preregistration = None
    try:
        preregistration = place.read()
    except Refused as error:
        changed.append(error.message)
    gates = None
    if standing.candidate and standing.verdicts:
        gates, fault = gate_run(place, standing.candidate.run, standing.verdicts.sha256)
        changed += [fault] if fault else []
    begun = [e.at for e in standing.entries if e.step == "trial" and e.version == standing.version]
    tried = [each for each in latest(project, standing.release) if each.at >= begun[-1]] if begun else []
    return Summary(
        standing, place, preregistration, tuple(changed), tuple(broken), gates,
        tallied(tried) if begun else None, found.now,
    )  # fmt: skip


def gate_run(place: Place, run: str, sha256: str) -> tuple[GateRun | None, str]:
    """The gates of a candidate as they were kept, and what is wrong with the file, in words."""
    path = place.gates(run) / RESULT
    try:
        with explained(path):
            data = path.read_bytes()
        found = msgspec.json.decode(data, type=GateRun)
    except StoreError as error:
        return None, f"{_short(path, place)} cannot be read ({error})"
    except (msgspec.MsgspecError, RecursionError) as error:
        return None, f"{_short(path, place)} is damaged ({error})"
    if hashlib.sha256(data).hexdigest() != sha256:
        return found, f"{_short(path, place)} was edited after the gates were run"
    return found, ""


def _short(path: Path, place: Place) -> str:
    return str(path.relative_to(place.folder))
