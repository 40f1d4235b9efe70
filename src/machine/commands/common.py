"""Common: what several commands do the same way."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from machine import discovery
from machine.errors import Refused
from machine.home import engine_dir
from machine.host import Host
from machine.report import Report
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.privacy.parcel import Parcel
    from machine.tinker.service import Endpoint

PAGE, RECIPE = "train_sft.py", "tinker.yaml"
"""The files that `train sft` writes into the store's `train/`."""

STATES = click.Choice(["on", "off"])
"""What such a setting may be set to."""
POLICIES = {
    "redact": "a turn that holds a secret is kept without it",
    "refuse": "a turn that holds a secret is not kept",
    "ask": "you are asked about a turn that holds a secret; where nobody is there, it is not kept",
}
"""What becomes of secrets in a project."""
_SHOWN = 12


def tinker_service(host: Host, *, wake: bool = True) -> "Endpoint":
    """The Tinker service that is meant; Pi's list of models follows it, should it have moved.

    With `wake`, this machine's engine is started for it, as it was the last time, if need be.

    Raises:
        ServiceError: there is none: no key, and an engine that was never started or does not come up.
        UsageError: `TINKER_BASE_URL` is set without a key, or is no URL.
    """
    from machine.tinker.provider import refresh
    from machine.tinker.service import NoEngine, endpoint

    try:
        where = endpoint()
    except NoEngine:
        if not wake or not started_before():
            raise
        from machine.engine import life

        host.progress("starting the engine, as it was the last time")
        try:
            life.start()
        finally:
            host.progress(None)
        where = endpoint()
    if refresh(where):
        host.models_changed()
    return where


def started_before() -> bool:
    """Whether the user has ever started an engine here, so that it may be started again unasked."""
    return (engine_dir() / discovery.LAST).exists()


def consent(host: Host, yes: bool, title: str, summary: str, words: str) -> None:
    """Asks the user, unless `--yes` was given.

    Raises:
        Refused: the answer is no, or nobody can answer.
    """
    if yes:
        host.notify(summary)
    elif not host.interactive:
        raise Refused(f"{summary}; nobody is here to agree", next_step=words)
    elif not host.confirm(title, summary):
        raise Refused("not agreed; nothing was sent", next_step=words)


def let_go(
    host: Host, project: Project, parcel: "Parcel | None", yes: bool, title: str, summary: str, words: str
) -> None:
    """Asks as `consent` does; what is agreed to is noted for `parcel`, where there is one, and for nothing else.

    Raises:
        Refused: as `consent` says.
        StoreError: the approval cannot be noted.
    """
    from machine.store.approvals import Approvals

    consent(host, yes, title, f"{summary}; {parcel.sentence()}" if parcel else summary, words)
    if parcel:
        Approvals(project.folder).approve(parcel, "--yes" if yes else "asked")


def switched(project: Project, name: str, state: str | None) -> bool:
    """Sets a setting that is on or off, if there is something to set, and says what it is now."""
    settings = project.settings() if state is None else project.set(**{name: state == "on"})
    return bool(getattr(settings, name))


def with_page(report: Report, project: Project, run: str | None) -> Report:
    """The report with the path of the run's page, which is written anew; as it is where there is no such run."""
    from machine.evals.page import write_page
    from machine.training.run import Run

    if run is None or not (project.runs / run / "state.json").exists():
        return report
    page = str(write_page(Run(project.runs / run), project.evals))
    return replace(report, rows=[*report.rows, ("Page", page)], data={**report.data, "page": page})


def shown(lines: list[str]) -> list[str]:
    """The first lines, and how many more there are."""
    more = [f"... and {len(lines) - _SHOWN} more (--json shows all)"] if len(lines) > _SHOWN else []
    return lines[:_SHOWN] + more
