"""Active: the movable alias. Which release the student is stands in the log; what serves it follows.

A release is immutable: its weights are a path that nothing overwrites, its model in Pi is called after its id and
version. Activating moves the alias there and keeps the one before; a rollback moves it back, without asking the
service, and holds from Pi's next request on.
"""

from dataclasses import dataclass

import msgspec

from machine.errors import Refused, StoreError
from machine.evals.proof import prove
from machine.evals.sample import Asker
from machine.release import log
from machine.release.preregistration import Preregistration
from machine.release.standing import Activation, Ledger, Standing, ledger
from machine.release.summary import Summary
from machine.store.project import Project
from machine.tinker import provider
from machine.tinker.checkpoints import base_of, sampler
from machine.tinker.served import BASE, Served, serve, served, trial_of, try_out
from machine.tinker.service import Endpoint, Service
from machine.tinker.students import load_student, models


@dataclass(frozen=True)
class Moved:
    """The student before and after. `unlogged` says why the log does not know of it, where it could not be told."""

    before: Served | None
    after: Served
    unlogged: str = ""


def model_name(standing: Standing) -> str:
    """What a version's model is called in Pi: `tinker/br-001-v1`."""
    return f"{provider.NAME}/{_alias(standing)}"


def activate(
    project: Project,
    found: Summary,
    service: Service,
    where: Endpoint,
    forced: str = "",
) -> Moved:
    """Makes a release the student, and enters it in the log.

    Args:
        project: whose student it becomes.
        found: the release.
        service: holds its weights, which have to answer as the trainer had them.
        where: the service's address, for Pi.
        forced: the reason why it is activated although it is not eligible.

    Raises:
        Refused: it is not eligible, something changed since it was frozen, this user does not decide, and no reason was
            given to do it all the same; or it has no candidate, and no reason would help.
        TrainingError: other weights answer at the candidate's path.
    """
    standing = found.standing
    candidate = standing.candidate
    if candidate is None or standing.stage == "draft":
        raise Refused(
            f"{standing.release} v{standing.version} has no candidate, so there is nothing to activate",
            next_step=standing.next_step,
        )
    if found.is_active:
        raise Refused(f"{standing.release} v{standing.version} is active already", next_step=standing.next_step)
    if not forced:
        refuse_unearned(found)
    registered(service, where, standing, found.preregistration)
    before = served(project.root)
    after = Served(model_name(standing), candidate.weights, standing.release)
    activation = Activation(standing.release, standing.version, after.model, after.weights, forced, before)
    log.append(project.releases, standing.release, standing.version, "activated", msgspec.to_builtins(activation))
    _end_trial(project, standing.release)
    serve(project.root, after)
    return Moved(before, after)


def registered(service: Service, where: Endpoint, standing: Standing, found: Preregistration | None) -> None:
    """Makes the candidate a model in Pi, once it has shown that it is the weights that were trained.

    The service's base models are models in Pi too from then on, so that there is one to go back to.

    Raises:
        TrainingError: other weights answer.
        ServiceError: the service does not hold it.
    """
    candidate = standing.candidate
    assert candidate is not None
    client = sampler(service, base_of(service, candidate.weights), candidate.weights)
    model = client.get_base_model()
    student = load_student(model, candidate.renderer)
    base = prove(Asker(service, student, sampler(service, model, None)), None)
    prove(Asker(service, student, client), candidate.weights, base, candidate.probe)
    available = models(service)
    provider.keep(where, available)
    context = {each.name: each.context for each in available}.get(model)
    provider.register(where, candidate.weights, _alias(standing), context, base=model)


def roll_back(project: Project, reason: str) -> Moved:
    """Moves the alias back to what was the student before the active release, and enters it in the log.

    Nothing is asked of the service, and a log that is broken or cannot be written is in nobody's way: where it is
    broken, the base model of the release becomes the student.

    Raises:
        Refused: no release is active.
        StoreError: what is served cannot be read or written.
    """
    try:
        entries, broken = log.look(project.releases)
    except StoreError as error:
        entries, broken = [], [error.message]
    found, before = ledger(entries), served(project.root)
    now = found.now
    if now is None and (before is None or before.why == BASE):
        raise Refused("no release is active, so there is none to roll back", next_step="machine release status")
    release, version = (now.release, now.version) if now else (before.why if before else "", 0)
    after = (None if broken else _previous(found)) or _base_of_student(before)
    unlogged = ""
    try:  # first the log: what a crash leaves undone after it, `reconcile` does
        about = {"reason": reason, "to": msgspec.to_builtins(after)}
        log.append(project.releases, release, version, "rolled back", about)
    except (Refused, StoreError) as error:
        unlogged = error.message
    serve(project.root, after)
    _end_trial(project, release)
    return Moved(before, after, unlogged)


def reconcile(project: Project, found: Ledger) -> str:
    """Serves what the log says, should a crash have come between the two; what was mended, in words."""
    now, student = found.now, served(project.root)
    if now is None and (student is None or student.why == BASE):
        return ""
    if now is not None and student == now.served:
        return ""
    wanted = now.served if now else _base_of_student(student)
    serve(project.root, wanted)
    was = f"{student.model} ({student.why})" if student else "none"
    return f"the student was {was}, and by the log of releases it is {wanted.model} ({wanted.why}): it is that now"


def refuse_unearned(found: Summary) -> None:
    """Refuses to activate what has not earned it.

    Raises:
        Refused: the log is broken, the release is not eligible or not what was frozen, or somebody else decides.
    """
    standing = found.standing
    loud = 'or, against the rules and on record for ever, machine release activate {} --force "the reason"'
    step = f"{standing.next_step}; {loud.format(standing.release)}"
    if found.broken:
        raise Refused(f"the log of releases is broken: {found.broken[0]}", next_step="machine release verify")
    try:
        standing.refuse_unless("activate")
    except Refused as error:
        raise Refused(error.message, next_step=step) from error
    if found.changed:
        raise Refused(f"{standing.release} is not what was frozen: {'; '.join(found.changed)}", next_step=step)
    deciders = found.preregistration.decides if found.preregistration else ()
    if deciders and log.user() not in deciders:
        raise Refused(
            f"{', '.join(deciders)} decide on {standing.release}, and you are {log.user()}",
            next_step=f"ask {deciders[0]} to activate it",
        )


def _previous(found: Ledger) -> Served | None:
    """What becomes the student when the active release is rolled back: the one before it, else its base model."""
    match found.active:
        case [*_, earlier, _]:
            return earlier.served
        case [only] if only.before and only.before.why == BASE:
            return only.before
        case _:
            return None


def _base_of_student(student: Served | None) -> Served:
    """The base model of the student, else the first that the service lists, as Pi calls it."""
    own, listed = provider.listed(), provider.base_models()
    base = next((entry.base for entry in own if student and entry.model == student.weights), None)
    if base is None and not listed:
        raise Refused("no base model is known to go back to", next_step="machine student")
    name = base or listed[0].model
    called = next((entry.ref for entry in [*listed, *own] if entry.model == name), f"{provider.NAME}/{name}")
    return Served(called, name, BASE)


def _end_trial(project: Project, release: str) -> None:
    trial = trial_of(project.root)
    if trial is not None and trial.release == release:
        try_out(project.root, None)


def _alias(standing: Standing) -> str:
    return f"{standing.release.lower()}-v{standing.version}"
