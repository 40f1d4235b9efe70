"""`release trial`, `reject`, `activate`, `rollback`: a release in use, and out of it."""

from typing import TYPE_CHECKING

import click

from machine.commands.common import tinker_service
from machine.commands.releases import ID, REASON, release_project, standing_of
from machine.errors import Refused, UsageError
from machine.host import Host
from machine.report import Report
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.release.active import Moved
    from machine.release.standing import Standing


_WORDS = 3
"""Words that the reason for a forced activation has at least."""


@click.command("trial")
@ID
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), help="Of your turns (default: as preregistered).")
@click.pass_obj
def trial(host: Host, release_id: str, share: float | None) -> Report:
    """Put a gated release into trial: it answers a share of your turns in Pi, and what you do with them is counted."""
    from machine.release.summary import summary
    from machine.release.trial import begin
    from machine.tinker.service import connect

    project = release_project(host)
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


@click.command("reject")
@ID
@REASON
@click.pass_obj
def reject(host: Host, release_id: str, reason: str) -> Report:
    """Reject a release before it is active, and end its trial."""
    from machine.release import log
    from machine.release.trial import end

    project = release_project(host)
    standing = standing_of(project, release_id)
    standing.refuse_unless("reject")
    log.append(project.releases, release_id, standing.version, "rejected", {"reason": reason})
    end(project, release_id)
    return Report(
        f"{release_id} is rejected",
        rows=[("Reason", reason)],
        next_step=f'machine release amend {release_id} --reason "..."',
        data={"release": release_id, "reason": reason},
    )


@click.command("activate")
@ID
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
    project = release_project(host)
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


@click.command("rollback")
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
