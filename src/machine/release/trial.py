"""Trial: real use of a gated release, for a share of the user's turns, until it is long enough or a stop rule ends it.

The extension draws who answers each turn (see `tinker.served.Trial`), the outcomes are read from the session (see
`outcomes`), and `settle` says after each of them whether it goes on.
"""

import secrets
from dataclasses import dataclass

from machine.errors import MachineError, Refused
from machine.release import log
from machine.release.active import model_name, registered
from machine.release.outcomes import latest
from machine.release.seal import Place
from machine.release.standing import Standing, ledger
from machine.release.stops import stopped
from machine.release.summary import Summary
from machine.store.project import Project
from machine.tinker.served import Trial, trial_of, try_out
from machine.tinker.service import Endpoint, Service


@dataclass(frozen=True)
class Begun:
    """A trial that has begun: who answers what share, and for how many turns."""

    trial: Trial
    turns: int


def begin(project: Project, found: Summary, service: Service, where: Endpoint, share: float | None) -> Begun:
    """Puts a gated release into trial, from Pi's next request on.

    Args:
        project: whose user tries it.
        found: the release.
        service: holds its weights, which have to answer as the trainer had them.
        where: the service's address, for Pi.
        share: the user's own choice, in place of the preregistered share.

    Raises:
        Refused: it is not gated, something changed since it was frozen, or another release is in trial.
    """
    standing = found.standing
    standing.refuse_unless("trial")
    if found.changed or found.preregistration is None:
        raise Refused(
            f"{standing.release} is not what was frozen: {'; '.join(found.changed)}",
            next_step=f"put it back, or machine release amend {standing.release}",
        )
    other = trial_of(project.root)
    if other is not None and other.release != standing.release:
        raise Refused(f"{other.release} is in trial already", next_step=f"machine release reject {other.release}")
    wanted = found.preregistration.trial
    registered(service, where, standing, found.preregistration)
    assert standing.candidate is not None
    trial = Trial(
        standing.release, model_name(standing), standing.candidate.weights, share or wanted.share, wanted.unit,
        secrets.token_hex(8),
    )  # fmt: skip
    about = {"share": trial.share, "unit": trial.unit, "salt": trial.salt, "turns": wanted.turns, "model": trial.model}
    log.append(project.releases, standing.release, standing.version, "trial", about)
    try_out(project.root, trial)
    return Begun(trial, wanted.turns)


def end(project: Project, release: str) -> None:
    """Takes a release out of trial; what answers is the work model again, from the next request on."""
    trial = trial_of(project.root)
    if trial is not None and trial.release == release:
        try_out(project.root, None)


def settle(project: Project, release: str) -> str | None:
    """Ends a trial that a stop rule holds for, or that is long enough; what came of it, in words for the user.

    Raises:
        MachineError: the log is broken, or the preregistration cannot be read; the trial is ended all the same.
    """
    try:
        standing = ledger(log.read(project.releases)).releases.get(release)
    except MachineError:
        end(project, release)
        raise
    if standing is None or standing.stage != "trial":
        end(project, release)  # a crash came between the log and what is served
        return None
    try:
        return _settled(project, standing)
    except MachineError:
        end(project, release)
        raise


def _settled(project: Project, standing: Standing) -> str | None:
    wanted = Place(project.releases, standing.release, standing.version).read().trial
    mine = [each for each in latest(project, standing.release) if each.at >= standing.since]
    answered = sum(each.arm == "candidate" and each.what != "unavailable" for each in mine)
    if why := stopped(wanted.stops, mine):
        end(project, standing.release)
        log.append(project.releases, standing.release, standing.version, "trial ended", {"why": why, "turns": answered})
        return f"The trial of {standing.release} was ended by its stop rule: {why}. Your work model answers again."
    if answered >= wanted.turns:
        end(project, standing.release)
        about = {"why": f"its trial of {answered} turns met no stop rule", "turns": answered}
        log.append(project.releases, standing.release, standing.version, "eligible", about)
        return f"The trial of {standing.release} is over after {answered} turns: it is eligible.\nNext: /release status"
    return None
