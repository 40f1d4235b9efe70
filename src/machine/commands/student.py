"""`/machine student` and `/machine work`: who answers in Pi, the student or the model that the user works with."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import click

from machine.commands.common import tinker_service
from machine.errors import Refused, ServiceError
from machine.host import Chosen, Host, Selection
from machine.report import Report
from machine.store.project import Project
from machine.tinker.work import remember, remembered

if TYPE_CHECKING:
    from machine.tinker.served import Served
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

    A shell makes the student ready; no Pi is switched.
    """
    project, selection = Project.at(host.cwd), host.selection()
    if selection is not None:
        _wait_for_idle(selection, "machine student")
    ready = _ready(project, host)
    if selection is None:
        said = _report(f"The student of this project is {ready.served.model}", ready, None, f"pi --model {VIRTUAL}")
        return replace(said, notes=[f"a Pi that is set to {VIRTUAL} follows with its next request", _OLD])
    wanted = VIRTUAL if selection.follows else ready.served.model
    if selection.student and selection.now and selection.now.model == wanted:
        work = selection.before
        return _on_trial(_report(f"The student answers already: {ready.served.model}", ready, work), project, selection)
    work = selection.before if selection.student else selection.now
    host.choose(Chosen(wanted, selection.now.level if selection.now else None), before=work)
    if work:
        remember(project, work)
    return _on_trial(_report(f"The student answers from now on: {ready.served.model}", ready, work), project, selection)


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


def _on_trial(said: Report, project: Project, selection: Selection) -> Report:
    """The report, with who answers while a release is on trial."""
    from machine.tinker.served import trial_of

    trial = trial_of(project.root)
    if trial is None:
        return said
    if not selection.follows:
        return replace(said, notes=[*said.notes, f"{trial.release} is on trial, which this Pi cannot draw: update Pi"])
    drawn = f"{trial.release} is on trial: {trial.model} answers {trial.share:.0%} of the {trial.unit}s"
    return replace(said, notes=[*said.notes, f"{drawn}, the model that you work with the others"])


def _report(title: str, ready: _Ready, work: Chosen | None, next_step: str = "machine work") -> Report:
    from machine.tinker.served import BASE

    served = ready.served
    why = "the service's default base model; nothing is released" if served.why == BASE else f"release {served.why}"
    rows = [("Weights", served.weights), ("Why", why), ("Served by", ready.where.destination)]
    rows += [("It said", ready.said)] if ready.said is not None else []
    rows += [("Your model", f"{work.model}, thinking {work.level}" if work.level else work.model)] if work else []
    data = {"model": served.model, "weights": served.weights, "why": served.why, "sample": ready.said}
    return Report(title, rows=rows, next_step=next_step, data=data | {"work": asdict(work) if work else None})
