"""`release`: behavior releases, from the preregistration to the student in Pi, and back."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from machine.commands.common import consent, shown, tinker_service
from machine.errors import Refused, UsageError
from machine.host import Host
from machine.report import Report
from machine.store.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from machine.release.active import Moved
    from machine.release.gate import Gates
    from machine.release.standing import Standing
    from machine.sandbox.job import Box

_ID = click.argument("release_id", metavar="ID")
_REASON = click.option("--reason", required=True, help="Why; it stays in the log.")


@click.group("release", invoke_without_command=True, subcommand_metavar="[status | new | ...]")
@click.pass_context
def release(context: click.Context) -> Report | None:
    """Behavior releases: what will count is written down first, then a checkpoint earns its place in Pi."""
    return None if context.invoked_subcommand else _status(context.obj, None)


@release.command("new")
@_ID
@click.option("--from", "source", help="A template of Machine's (BR-000, BR-001, blank), or a folder of your own.")
@click.pass_obj
def new(host: Host, release_id: str, source: str | None) -> Report:
    """Write the draft of a preregistration, filled with the recipe's figures and the rows it trains on."""
    from machine.release.draft import new as drafted

    project = _project(host)
    place, missing = drafted(project, release_id, _source(host, source))
    found = place.read()
    rows = [
        ("Preregistration", str(place.file)),
        ("Suites", ", ".join(found.suites)),
        ("Gates", ", ".join(found.gates)),
        ("Data", f"{found.data.rows} rows, {found.data.sha256[:12]}"),
    ]
    return Report(
        f"{release_id} is drafted: {found.title}",
        rows=rows,
        notes=[f"still to do: {each}" for each in missing],
        next_step=f"edit {place.file}, then machine release freeze {release_id}",
        data={"file": str(place.file), "missing": missing},
    )


@release.command("freeze")
@_ID
@click.pass_obj
def freeze(host: Host, release_id: str) -> Report:
    """Freeze a draft: from now on its file and its suites count as they are."""
    from machine.release.freeze import freeze as frozen

    project = _project(host)
    standing = _standing(project, release_id)
    sealed, limits = frozen(project, standing)
    rows = [("Preregistration", f"SHA-256 {sealed.preregistration}")]
    rows += [(file, f"SHA-256 {digest}") for file, digest in sealed.suites.items()]
    return Report(
        f"{release_id} v{standing.version} is frozen; only a run that begins from now on can be its candidate",
        rows=rows,
        notes=limits,
        next_step=f"machine train run --yes, then machine release candidate {release_id}",
        data={"seal": {"preregistration": sealed.preregistration, "suites": sealed.suites}, "limits": limits},
    )


@release.command("amend")
@_ID
@_REASON
@click.pass_obj
def amend(host: Host, release_id: str, reason: str) -> Report:
    """Begin the next version of a frozen preregistration; the version before stays as it is."""
    from machine.release.draft import amend as amended

    project = _project(host)
    place = amended(project, _standing(project, release_id), reason)
    return Report(
        f"{release_id} v{place.version} is a draft, a copy of v{place.version - 1}",
        rows=[("Preregistration", str(place.file)), ("Reason", reason)],
        next_step=f"edit {place.file}, then machine release freeze {release_id}",
        data={"file": str(place.file), "version": place.version},
    )


@release.command("candidate")
@_ID
@click.argument("run", default="latest")
@click.pass_obj
def candidate(host: Host, release_id: str, run: str) -> Report:
    """Name a training run as the candidate, if its own records keep to the bounds. RUN: an id or latest."""
    import msgspec

    from machine.release import log
    from machine.release.candidate import candidate_of
    from machine.release.seal import Place, changes
    from machine.training.run import find_run

    project = _project(host)
    standing = _standing(project, release_id)
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


@release.command("gate")
@_ID
@click.option("--holdout", "holdouts", multiple=True, metavar="SUITE=FILE", help="The file of a suite from outside.")
@click.option("--unsafe", is_flag=True, help="Let Pi mend repositories without a sandbox, where none can be had.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def gate(host: Host, release_id: str, holdouts: tuple[str, ...], unsafe: bool, yes: bool) -> Report:
    """Ask base and candidate all suites and judge every gate, once; what is asked goes on where it was left."""
    from machine.release.gate import fail_changed, ready, run_gates
    from machine.tinker.service import connect

    project = _project(host)
    standing = _standing(project, release_id)
    found = ready(project, standing, _files(host, holdouts), lambda: _box(unsafe))
    if isinstance(found, list):
        fail_changed(project, standing, found)
        return _written(project, release_id, exit_code=1)
    where = tinker_service(host)
    if not where.local:
        _refuse_secrets(found)
    command = found.command + (" --unsafe" if unsafe else "")
    consent(host, yes, "Ask?", f"{found.spend}; they go to {where.destination}", command)
    try:
        with connect(where) as service:
            run = run_gates(found, service, host.progress)
    finally:
        host.progress(None)
    if run.passed and found.found.trial.turns == 0:
        _skip_trial(project, release_id)
    return _written(project, release_id, exit_code=0 if run.passed else 1)


@release.command("trial")
@_ID
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), help="Of your turns (default: as preregistered).")
@click.pass_obj
def trial(host: Host, release_id: str, share: float | None) -> Report:
    """Put a gated release into trial: it answers a share of your turns in Pi, and what you do with them is counted."""
    from machine.release.summary import summary
    from machine.release.trial import begin
    from machine.tinker.service import connect

    project = _project(host)
    selection = host.selection()
    if selection is not None and not selection.follows:
        raise Refused("a trial needs Pi 1.6 or later, which can send each turn to another model", next_step="update Pi")
    found = summary(project, release_id)
    found.standing.refuse_unless("trial")
    where = tinker_service(host)
    with connect(where) as service:
        begun = begin(project, found, service, where, share)
    host.models_changed()
    tried = begun.trial
    return Report(
        f"{release_id} is in trial: it answers {tried.share:.0%} of your {tried.unit}s",
        rows=[("Model", tried.model), ("Until", f"{begun.turns} turns of it, or a stop rule")],
        notes=[
            "the other turns go to the model that you work with; /good, /correction and what else you do is counted"
        ],
        next_step="machine student, and work; machine release status shows how it goes",
        data={"share": tried.share, "unit": tried.unit, "turns": begun.turns, "model": tried.model},
    )


@release.command("reject")
@_ID
@_REASON
@click.pass_obj
def reject(host: Host, release_id: str, reason: str) -> Report:
    """Reject a release before it is active, and end its trial."""
    from machine.release import log
    from machine.release.trial import end

    project = _project(host)
    standing = _standing(project, release_id)
    standing.refuse_unless("reject")
    log.append(project.releases, release_id, standing.version, "rejected", {"reason": reason})
    end(project, release_id)
    return Report(
        f"{release_id} is rejected",
        rows=[("Reason", reason)],
        next_step=f'machine release amend {release_id} --reason "..."',
        data={"release": release_id, "reason": reason},
    )


@release.command("activate")
@_ID
@click.option("--force", metavar="REASON", help="Activate what has not earned it; the reason is shown for ever.")
@click.pass_obj
def activate(host: Host, release_id: str, force: str | None) -> Report:
    """Make an eligible release the student; the one before is kept for a rollback."""
    from machine.release.active import activate as activated
    from machine.release.active import refuse_unearned
    from machine.release.summary import summary
    from machine.tinker.service import connect

    if force is not None and len(force.split()) < _WORDS:
        raise UsageError(
            f"--force needs a reason, {_WORDS} words at least", next_step="say why it is activated unearned"
        )
    project = _project(host)
    found = summary(project, release_id)
    if not force or found.standing.stage == "eligible":
        refuse_unearned(found)
        force = None  # it has earned its place: there is nothing to force
    if force and host.interactive and not host.confirm("Activate against the rules?", _unearned(found.standing)):
        raise Refused("not agreed; nothing was changed", next_step=found.standing.next_step)
    where = tinker_service(host)
    with connect(where) as service:
        moved = activated(project, found, service, where, force or "")
    host.models_changed()
    warning = [f"WARNING: {_unearned(found.standing)}: {force}"] if force else []
    return _moved(f"{release_id} is active", moved, warning)


@release.command("rollback")
@click.option("--reason", default="", help="Why; it stays in the log.")
@click.pass_obj
def rollback(host: Host, reason: str) -> Report:
    """Take the active release back: what was the student before it answers again, from the next request on."""
    from machine.release.active import roll_back

    project = Project.at(host.cwd)
    moved = roll_back(project, reason)
    host.models_changed()
    before = moved.before.why if moved.before else "the release"
    notes = [f"WARNING: this is not in the log: {moved.unlogged}"] if moved.unlogged else []
    return _moved(f"{before} is rolled back", moved, notes)


@release.command("status")
@click.argument("release_id", metavar="[ID]", required=False)
@click.pass_obj
def status(host: Host, release_id: str | None) -> Report:
    """Where a release stands: each gate with figure, threshold and verdict, the trial, and what is next."""
    return _status(host, release_id)


@release.command("log")
@click.argument("release_id", metavar="[ID]", required=False)
@click.pass_obj
def log_(host: Host, release_id: str | None) -> Report:
    """Every step of this project's releases, or of one of them."""
    from machine.release import log
    from machine.release.status import log_report

    entries, broken = log.look(Project.at(host.cwd).releases)
    return log_report([entry for entry in entries if release_id in (None, entry.release)], broken)


@release.command("verify")
@click.option("--restart", metavar="REASON", help="Set a broken log aside, and begin another that names it.")
@click.pass_obj
def verify(host: Host, restart: str | None) -> Report:
    """Check the chain of the log, and that everything frozen, recorded and judged is as it was."""
    from machine.release import log
    from machine.release.verify import faults
    from machine.release.words import plural

    project = Project.at(host.cwd)
    if restart is not None:
        aside = log.restart(project.releases, restart)
        return Report(
            "A new log of releases has begun",
            rows=[("Set aside", str(aside)), ("Reason", restart)],
            notes=["no release of the old log counts any more; the student is as it was"],
            next_step="machine release rollback, or machine release new ID",
            data={"set_aside": str(aside)},
        )
    entries, broken = log.look(project.releases)
    found = [*broken, *faults(project, entries)]
    known = plural(len({entry.release for entry in entries if entry.release}), "release")
    title = f"The log and what it speaks of are as they were: {plural(len(entries), 'entry', 'entries')}, {known}"
    mend = 'machine release verify --restart "the reason"' if broken else "machine release status"
    return Report(
        f"{plural(len(found), 'thing is', 'things are')} not as it was" if found else title,
        notes=shown(found),
        next_step=mend if found else "machine release status",
        data={"entries": len(entries), "faults": found},
        exit_code=1 if found else 0,
    )


_WORDS = 3
"""Words that the reason for a forced activation has at least."""


def _status(host: Host, release_id: str | None) -> Report:
    from machine.release import log
    from machine.release.standing import ledger
    from machine.release.status import list_report
    from machine.release.summary import summary

    project = Project.at(host.cwd)
    found = ledger(log.look(project.releases)[0])
    if release_id is None and len(found.releases) > 1:
        return list_report(found, [summary(project, each) for each in found.releases])
    return _written(project, release_id)


def _written(project: Project, release_id: str | None, exit_code: int = 0) -> Report:
    """The status of a release, and its page, written anew."""
    from machine.release.page import write_report
    from machine.release.status import status_report
    from machine.release.summary import summary

    found = summary(project, release_id)
    path = str(write_report(project, found))
    said = status_report(found)
    return replace(
        said, rows=[*said.rows, ("Page", path)], data={**said.data, "page": path}, exit_code=exit_code or said.exit_code
    )


def _project(host: Host) -> Project:
    """The project, whose student is what the log says."""
    from machine.release import log
    from machine.release.active import reconcile
    from machine.release.standing import ledger

    project = Project.at(host.cwd)
    mended = reconcile(project, ledger(log.read(project.releases)))
    if mended:
        host.notify(mended)
    return project


def _standing(project: Project, release_id: str) -> "Standing":
    from machine.release import log
    from machine.release.standing import ledger

    return ledger(log.read(project.releases)).of(release_id)


def _tried(standing: "Standing") -> set[str]:
    """The runs that the gates of this version have judged."""
    run, judged = "", set[str]()
    for entry in standing.entries:
        if entry.version == standing.version and entry.step == "candidate":
            run = entry.data["candidate"]["run"]
        elif entry.version == standing.version and entry.step == "gated" and entry.data.get("asked", True):
            judged.add(run)
    return judged


def _source(host: Host, source: str | None) -> str | None:
    """A template's name as it is; a folder of the user's from where the user is."""
    from machine.release.draft import templates

    if source is None or source in templates():
        return source
    return str(host.cwd / Path(source).expanduser())


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


def _refuse_secrets(found: "Gates") -> None:
    """What is about to leave this machine holds no secret."""
    from machine.dataset.scan import refuse_secrets
    from machine.evals.judge import Rubric

    for name, cases in found.suites.cases.items():
        refuse_secrets([*cases, *map(Rubric, cases)], f"take it out of the suite {name}, and amend")


def _skip_trial(project: Project, release_id: str) -> None:
    from machine.release import log

    standing = _standing(project, release_id)
    about = {"why": "no trial was preregistered", "turns": 0}
    log.append(project.releases, release_id, standing.version, "eligible", about)


def _gate_words(release_id: str, external: "Sequence[str]") -> str:
    return " ".join([f"machine release gate {release_id}", *(f"--holdout {name}=FILE" for name in external)])


def _unearned(standing: "Standing") -> str:
    why = f" ({standing.why})" if standing.why else ""
    return f"{standing.release} is {standing.stage}{why}, and has not earned its place"


def _moved(title: str, moved: "Moved", notes: list[str]) -> Report:
    before, after = moved.before, moved.after
    rows = [("Student", f"{after.model} ({after.why})"), ("Weights", after.weights)]
    rows += [("Before", f"{before.model} ({before.why})")] if before else []
    return Report(
        title,
        rows=rows,
        notes=[*notes, "a Pi that is set to machine/student follows with its next request"],
        next_step="machine release rollback, should it disappoint" if after.why != "base" else "machine release status",
        data={"model": after.model, "weights": after.weights, "why": after.why, "unlogged": moved.unlogged},
        exit_code=1 if moved.unlogged else 0,
    )
