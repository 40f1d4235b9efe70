"""Releases: what the commands of `release` have in common."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from machine.host import Host
from machine.report import Report
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.release.standing import Standing


ID = click.argument("release_id", metavar="ID")
REASON = click.option("--reason", required=True, help="Why; it stays in the log.")


def release_project(host: Host) -> Project:
    """The project, whose student is what the log says."""
    from machine.release import log
    from machine.release.active import reconcile
    from machine.release.standing import ledger

    project = Project.at(host.cwd)
    mended = reconcile(project, ledger(log.read(project.releases)))
    if mended:
        host.notify(mended)
    return project


def standing_of(project: Project, release_id: str) -> "Standing":
    """The standing of a release; refused where there is no such one."""
    from machine.release import log
    from machine.release.standing import ledger

    return ledger(log.read(project.releases)).of(release_id)


def written(project: Project, release_id: str | None, exit_code: int = 0) -> Report:
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
