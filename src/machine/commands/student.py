"""`/machine student` and `/machine work`: who answers in Pi, the student or the model that the user works with."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from machine.commands.common import tinker_service
from machine.errors import Refused, ServiceError
from machine.host import Chosen, Host, Selection
from machine.report import Report
from machine.store.project import Project
from machine.tinker.work import remember, remembered

if TYPE_CHECKING:
    from machine.tinker.served import Served, Trial
    from machine.tinker.service import Endpoint

VIRTUAL = "machine/student"
"""The student in a host that follows it; `extension/student.ts` registers it."""

_OLD = "Pi before 1.6 has no such model: /machine student there sets the student's own"


@dataclass(frozen=True)
class _Ready:
    """A student that answers. `said` is what it said to a greeting, None where none was needed."""

    served: "Served"
    where: "Endpoint"
    said: str | None = None


@click.command()
@click.pass_obj
def student(host: Host) -> Report:
    """Let the student answer in Pi: the active release, else the service's default base model.

    With a release on trial, that one answers its share of the turns, and the model that you work with the others. A
    shell makes the student ready; no Pi is switched.
    """
    from machine.tinker.served import trial_of

    project, selection = Project.at(host.cwd), host.selection()
    if selection is None:
        return _in_a_shell(project, host)
    _wait_for_idle(selection, "machine student")
    work = selection.before if selection.student else selection.now
    trial = trial_of(project.root) if selection.follows else None
    if trial is not None:
        work = work or remembered(project)
        others = _named(work) if work else f"{_ready(project, host).served.model}: what you worked with is not known"
        host.models_changed()
        said = _on_trial(project, trial, work, others, tinker_service(host))
        name = VIRTUAL
    else:
        ready = _ready(project, host)
        said = _report(project, ready.served.model, ready, work)
        name = VIRTUAL if selection.follows else ready.served.model
    if selection.student and selection.now and selection.now.model == name and selection.before == work:
        return replace(said, title=f"The student answers already: {said.title}")
    host.choose(Chosen(name, selection.now.level if selection.now else None), before=work)
    if work:
        remember(project, work)
    return replace(said, title=f"The student answers from now on: {said.title}")


@click.command()
@click.pass_obj
def work(host: Host) -> Report:
    """Go back to the model and the thinking level that Pi had before the student."""
    selection = host.selection()
    if selection is None:
        raise Refused("a shell has no Pi whose model could be set back", next_step="/machine work in Pi, or /model")
    _wait_for_idle(selection, "machine work")
    if not selection.student:
        now = selection.now.model if selection.now else None
        title = f"There is nothing to go back to: you work with {now}" if now else "No model is chosen in Pi"
        return Report(title, next_step="machine student" if now else "/model", data={"model": now})
    before = selection.before or remembered(Project.at(host.cwd))
    if before is None:
        raise Refused(
            "there is nothing to go back to: no model was chosen before the student, in this session or this project",
            next_step="/model",
        )
    try:
        host.choose(before)
    except ServiceError as error:
        raise ServiceError(
            f"your work model {before.model} cannot be set again: {error.message}; the student still answers",
            next_step="/model",
        ) from error
    rows = [("Thinking", before.level)] if before.level else []
    return Report(f"{before.model} answers again", rows=rows, next_step="machine student", data=asdict(before))


def _ready(project: Project, host: Host) -> _Ready:
    """The project's student, a model in Pi that answers.

    Raises:
        MachineError: it cannot be had, and the project's student is as it was.
    """
    from machine.tinker.served import answers, serve, served

    where, known = tinker_service(host), served(project.root)
    if known and _is_in_pi(known) and answers(where, known.weights):
        return _Ready(known, where)
    ready = _greeted(where, known)
    serve(project.root, ready.served)
    host.models_changed()
    return ready


def _greeted(where: "Endpoint", known: "Served | None") -> _Ready:
    """The release that the project has, else the service's default base model: greeted, then a model in Pi."""
    from machine.commands.greeting import greeting
    from machine.tinker import provider
    from machine.tinker.checkpoints import base_of, sampler
    from machine.tinker.served import BASE, Served
    from machine.tinker.service import connect
    from machine.tinker.students import default_model, models

    released = known if known and known.why != BASE else None
    with connect(where) as service:
        found = models(service)
        base = base_of(service, released.weights) if released else default_model(found)
        said = greeting(service, base, sampler(service, base, released.weights if released else None))
    student = released or Served(f"{provider.NAME}/{base}", base, BASE)
    provider.keep(where, found)
    if not _is_in_pi(student):
        context = {model.name: model.context for model in found}.get(base)
        alias = student.model.removeprefix(f"{provider.NAME}/")
        provider.register(where, student.weights, alias, context, base=base)
    return _Ready(student, where, said)


def _is_in_pi(student: "Served") -> bool:
    """Whether the student is a model in Pi, of the service that is meant."""
    from machine.tinker import provider

    entries = [*provider.listed(), *provider.base_models()]
    return any((entry.ref, entry.model) == (student.model, student.weights) for entry in entries)


def _wait_for_idle(selection: Selection, words: str) -> None:
    if not selection.idle:
        raise Refused("the agent is still working", next_step=f"{words}, when it has answered")


def _in_a_shell(project: Project, host: Host) -> Report:
    ready = _ready(project, host)
    said = _report(project, f"The student of this project is {ready.served.model}", ready, None)
    follows = f"a Pi that is set to {VIRTUAL} follows with its next request"
    return replace(said, notes=[*said.notes, follows, _OLD], next_step=f"pi --model {VIRTUAL}")


def _on_trial(project: Project, trial: "Trial", work: Chosen | None, others: str, where: "Endpoint") -> Report:
    """Who answers while a release is in trial; `others` says who answers what it does not."""
    from machine.tinker.served import answers

    rows = [
        ("In trial", _share(project, trial)),
        ("The others", others),
        ("Weights", trial.weights),
        ("Served by", where.destination),
    ]
    notes = _forced(project, trial.release)
    if not answers(where, trial.weights):
        notes.append(f"WARNING: {trial.model} does not answer now, and a turn that fails counts against it")
    told = {"release": trial.release, "model": trial.model, "share": trial.share, "unit": trial.unit}
    data: dict[str, Any] = {
        "model": trial.model,
        "weights": trial.weights,
        "why": trial.release,
        "sample": None,
        "trial": told,
    }
    data["work"] = asdict(work) if work else None
    title = f"{trial.release}, in trial, {trial.share:.0%} of the {trial.unit}s"
    return Report(title, rows=rows, notes=notes, next_step="machine work", data=data)


def _share(project: Project, trial: "Trial") -> str:
    from machine.release.glance import progress

    asked, turns = progress(project.releases, trial.release)
    so_far = f"{asked} of {turns} so far" if turns else f"{asked} so far"
    return f"{trial.model} answers {trial.share:.0%} of the {trial.unit}s, {so_far}"


def _forced(project: Project, release: str) -> list[str]:
    """What is loud for ever of a release that was activated against the rules."""
    from machine.release import log
    from machine.release.standing import ledger

    standing = ledger(log.look(project.releases)[0]).releases.get(release)
    if standing is None or not standing.forced:
        return []
    return [f"WARNING: {release} was activated against the rules; the reason given was: {standing.forced}"]


def _report(project: Project, title: str, ready: _Ready, work: Chosen | None) -> Report:
    from machine.tinker.served import BASE, trial_of

    served, trial = ready.served, trial_of(project.root)
    released = served.why != BASE
    why = f"release {served.why}" if released else "the service's default base model; nothing is released"
    rows = [("Weights", served.weights), ("Why", why), ("Served by", ready.where.destination)]
    rows += [("It said", ready.said)] if ready.said is not None else []
    rows += [("Your model", _named(work))] if work else []
    notes = _forced(project, served.why) if released else []
    if trial is not None:
        notes.append(f"{trial.release} is in trial, which goes on in Pi 1.6 or later, with /machine student")
    data = {"model": served.model, "weights": served.weights, "why": served.why, "sample": ready.said}
    whole: dict[str, Any] = data | {"work": asdict(work) if work else None}
    return Report(title, rows=rows, notes=notes, next_step="machine work", data=whole)


def _named(work: Chosen) -> str:
    return f"{work.model}, thinking {work.level}" if work.level else work.model
