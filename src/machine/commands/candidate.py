"""`release candidate`, `gate`: a run against its bounds, and against its gates."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from machine.commands.common import let_go, tinker_service
from machine.commands.releases import ID, release_project, standing_of, written
from machine.errors import Refused, UsageError
from machine.host import Host
from machine.report import Report
from machine.store.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from machine.privacy.parcel import Parcel
    from machine.release.asking import Gates
    from machine.release.standing import Standing
    from machine.sandbox.job import Box


@click.command("candidate")
@ID
@click.argument("run", default="latest")
@click.pass_obj
def candidate(host: Host, release_id: str, run: str) -> Report:
    """Name a training run as the candidate, if its own records keep to the bounds. RUN: an id or latest."""
    import msgspec

    from machine.release import log
    from machine.release.candidate import candidate_of
    from machine.release.seal import Place, changes
    from machine.training.run import find_run

    project = release_project(host)
    standing = standing_of(project, release_id)
    standing.refuse_unless("candidate")
    place = Place(project.releases, standing.release, standing.version)
    if standing.seal and (changed := changes(place, standing.seal)):
        raise Refused(
            f"{release_id} is not what was frozen: {'; '.join(changed)}",
            next_step=f'put it back, or machine release amend {release_id} --reason "..."',
        )
    chosen = find_run(project.runs, run)
    if chosen.id in _tried(standing):
        raise Refused(
            f"run {chosen.id} has met the gates of {release_id} v{standing.version}, which judge a run once",
            next_step="machine train run --yes (another run)",
        )
    found = place.read()
    named = candidate_of(chosen, found, standing.frozen)
    about = {"candidate": msgspec.to_builtins(named)}
    log.append(project.releases, release_id, standing.version, "candidate", about)
    bounds, cost = found.training, "not known" if named.cost is None else f"{named.cost:.2f} USD"
    rows = [
        ("Run", named.run),
        ("Weights", named.weights),
        ("Rows", f"{named.rows} ({bounds.rows[0]} to {bounds.rows[1]})"),
        ("Steps", f"{named.steps} ({bounds.steps[0]} to {bounds.steps[1]})"),
        ("Rank", f"{named.rank} ({bounds.rank[0]} to {bounds.rank[1]})"),
        ("Learning rate", f"{named.learning_rate:g} ({bounds.learning_rate[0]:g} to {bounds.learning_rate[1]:g})"),
        ("Tokens", f"{named.tokens:,} (at most {bounds.tokens:,})"),
        ("Cost", f"{cost} (at most {bounds.cost:.2f} USD)"),
    ]
    return Report(
        f"Run {named.run} is the candidate of {release_id} v{standing.version}",
        rows=rows,
        next_step=_gate_words(release_id, found.external),
        data={"candidate": about["candidate"]},
    )


@click.command("gate")
@ID
@click.option("--holdout", "holdouts", multiple=True, metavar="SUITE=FILE", help="The file of a suite from outside.")
@click.option("--unsafe", is_flag=True, help="Let Pi mend repositories without a sandbox, where none can be had.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def gate(host: Host, release_id: str, holdouts: tuple[str, ...], unsafe: bool, yes: bool) -> Report:
    """Ask base and candidate all suites and judge every gate, once; what is asked goes on where it was left."""
    from machine.release.gate import fail_changed, ready, run_gates
    from machine.store.approvals import Approvals
    from machine.tinker.service import connect

    project = release_project(host)
    standing = standing_of(project, release_id)
    found = ready(project, standing, _files(host, holdouts), lambda: _box(unsafe))
    if isinstance(found, list):
        fail_changed(project, standing, found)
        return written(project, release_id, exit_code=1)
    where = tinker_service(host)
    leaving = None
    if not where.stays:
        _look(found)
        leaving = _parcel(found, where.goes_to)
    command = found.command + (" --unsafe" if unsafe else "")
    let_go(host, project, leaving, yes, "Ask?", f"{found.spend}; they go to {where.goes_to}", command)
    try:
        with connect(where) as service:
            if leaving:
                Approvals(project.folder).refuse_unapproved(_parcel(found, where.goes_to), command)
            run = run_gates(found, service, host.progress)
    finally:
        host.progress(None)
    if run.passed and found.found.trial.turns == 0:
        _skip_trial(project, release_id)
    return written(project, release_id, exit_code=0 if run.passed else 1)


def _tried(standing: "Standing") -> set[str]:
    """The runs that the gates of this version have judged."""
    run, judged = "", set[str]()
    for entry in standing.entries:
        if entry.version == standing.version and entry.step == "candidate":
            run = entry.data["candidate"]["run"]
        elif entry.version == standing.version and entry.step == "gated" and entry.data.get("asked", True):
            judged.add(run)
    return judged


def _files(host: Host, holdouts: "Sequence[str]") -> dict[str, Path]:
    """The files of `--holdout SUITE=FILE`, by the suite."""
    found: dict[str, Path] = {}
    for each in holdouts:
        name, equals, file = each.partition("=")
        if not equals or not name or not file:
            raise UsageError(f"--holdout {each}: it is no SUITE=FILE", next_step="give --holdout holdout=cases.jsonl")
        if name in found:
            raise UsageError(f"--holdout {name} is given twice", next_step="give one file for it")
        found[name] = host.cwd / Path(file).expanduser()
    return found


def _box(unsafe: bool) -> "Box":
    from machine.sandbox.choice import choose

    return choose(unsafe=unsafe)


def _look(found: "Gates") -> None:
    """What is about to leave this machine holds no secret.

    Raises:
        Refused: it holds one.
    """
    from machine.dataset.scan import refuse_secret_texts
    from machine.evals.leaving import look
    from machine.tinker.students import load_student

    assert found.standing.candidate is not None
    student, sources = (
        load_student(found.found.model, found.standing.candidate.renderer),
        found.project.sources(fingerprints=True),
    )
    for name, cases in found.suites.cases.items():
        look(student, cases, f"take it out of the suite {name}, and amend", sources)
    for name, instruction in _instructions(found).items():
        refuse_secret_texts([(f"the instruction of {name}", instruction)], f"take it out of {name}, and amend", sources)


def _parcel(found: "Gates", destination: str) -> "Parcel":
    """What the gates send: every suite's cases and repositories, and what the control arms are told."""
    from machine.agentic.task import tasks_text
    from machine.evals.leaving import parcel
    from machine.trace import canonical

    cases = [case for each in found.suites.cases.values() for case in each]
    tasks = tasks_text([task for each in found.suites.tasks.values() for task in each]).splitlines(keepends=True)
    told = [canonical(list(each)) + b"\n" for each in _instructions(found).items()]
    return parcel(cases, found.project.root.name, destination, "cases, tasks and instructions", [*tasks, *told])


def _instructions(found: "Gates") -> dict[str, str]:
    """What the prompted base is told, by the gate that has it told."""
    from machine.release.preregistration import Control

    return {name: gate.instruction for name, gate in found.found.gates.items() if isinstance(gate, Control)}


def _skip_trial(project: Project, release_id: str) -> None:
    from machine.release import log

    standing = standing_of(project, release_id)
    about = {"why": "no trial was preregistered", "turns": 0}
    log.append(project.releases, release_id, standing.version, "eligible", about)


def _gate_words(release_id: str, external: "Sequence[str]") -> str:
    return " ".join([f"machine release gate {release_id}", *(f"--holdout {name}=FILE" for name in external)])
