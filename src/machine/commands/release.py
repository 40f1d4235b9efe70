"""`release`: behavior releases, where they stand, and the commands that move them on."""

import click

from machine.commands.activation import activate, reject, rollback, trial
from machine.commands.candidate import candidate, gate
from machine.commands.common import shown
from machine.commands.preregistration import amend, freeze, new
from machine.commands.releases import written
from machine.host import Host
from machine.report import Report
from machine.store.project import Project


@click.group("release", invoke_without_command=True, subcommand_metavar="[status | new | ...]")
@click.pass_context
def release(context: click.Context) -> Report | None:
    """Behavior releases: what will count is written down first, then a checkpoint earns its place in Pi."""
    return None if context.invoked_subcommand else _status(context.obj, None)


for command in (new, freeze, amend, candidate, gate, trial, reject, activate, rollback):
    release.add_command(command)


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


def _status(host: Host, release_id: str | None) -> Report:
    from machine.release import log
    from machine.release.standing import ledger
    from machine.release.status import list_report
    from machine.release.summary import summary

    project = Project.at(host.cwd)
    found = ledger(log.look(project.releases)[0])
    if release_id is None and len(found.releases) > 1:
        return list_report(found, [summary(project, each) for each in found.releases])
    return written(project, release_id)
