"""`release new`, `freeze`, `amend`: what will count, written down."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from machine.commands.releases import ID, REASON, release_project, standing_of
from machine.host import Host
from machine.report import Report

if TYPE_CHECKING:
    pass


@click.command("new")
@ID
@click.option("--from", "source", help="A template of Machine's (BR-000, BR-001, blank), or a folder of your own.")
@click.pass_obj
def new(host: Host, release_id: str, source: str | None) -> Report:
    """Write the draft of a preregistration, filled with the recipe's figures and the rows it trains on."""
    from machine.release.draft import new as drafted

    project = release_project(host)
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


@click.command("freeze")
@ID
@click.pass_obj
def freeze(host: Host, release_id: str) -> Report:
    """Freeze a draft: from now on its file and its suites count as they are."""
    from machine.release.freeze import freeze as frozen

    project = release_project(host)
    standing = standing_of(project, release_id)
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


@click.command("amend")
@ID
@REASON
@click.pass_obj
def amend(host: Host, release_id: str, reason: str) -> Report:
    """Begin the next version of a frozen preregistration; the version before stays as it is."""
    from machine.release.draft import amend as amended

    project = release_project(host)
    place = amended(project, standing_of(project, release_id), reason)
    return Report(
        f"{release_id} v{place.version} is a draft, a copy of v{place.version - 1}",
        rows=[("Preregistration", str(place.file)), ("Reason", reason)],
        next_step=f"edit {place.file}, then machine release freeze {release_id}",
        data={"file": str(place.file), "version": place.version},
    )


def _source(host: Host, source: str | None) -> str | None:
    """A template's name as it is; a folder of the user's from where the user is."""
    from machine.release.draft import templates

    if source is None or source in templates():
        return source
    return str(host.cwd / Path(source).expanduser())
