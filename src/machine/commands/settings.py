"""`/machine auto`, `footer`, `contributors` and `teacher`: what the user chooses for one project."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from machine.commands.common import STATES, switched
from machine.errors import StoreError, UsageError
from machine.home import machine_home
from machine.host import Host
from machine.report import Report
from machine.store.files import explained, locked, private_folder, write_private
from machine.store.project import Project

WORK = "the model that you work with"
_KEPT = "the turns that a compaction summarises; every completed turn of pi in print, json and rpc mode"


@click.command()
@click.argument("state", type=STATES, required=False)
@click.pass_obj
def auto(host: Host, state: str | None) -> Report:
    """Capture turns unasked, or stop it: those that a compaction summarises, those of headless runs. Off at first."""
    project = Project.at(host.cwd)
    on = switched(project, "auto", state)
    if state is not None:
        _tell_pi()
    counts = project.pool.counts()
    rows = [
        ("Project", str(project.root)),
        ("Keeps", _KEPT if on else "nothing but what you tag"),
        ("Store", str(project.folder)),
        ("Observed", f"{counts.get('observed', 0)} rows"),
    ]
    notes = [
        "kept as observed, never as good: nothing is trained on it unless you tag it",
        "secrets are redacted first and reasoning is left out, as with /good; nothing leaves this machine",
    ]
    return Report(
        title=f"Automatic capture is {_word(on)} for this project",
        rows=rows,
        notes=notes if on else [],
        data={"auto": on, "project": str(project.root), "store": str(project.folder)},
        next_step="machine data" if on else "machine auto on",
    )


@click.command()
@click.argument("state", type=STATES, required=False)
@click.pass_obj
def footer(host: Host, state: str | None) -> Report:
    """Let Pi's footer say how many turns are tagged, and whether the last one is; or not. On at first."""
    project = Project.at(host.cwd)
    on = switched(project, "footer", state)
    return Report(
        title=f"Machine's part of Pi's footer is {_word(on)} for this project",
        rows=[("Project", str(project.root))],
        data={"footer": on, "project": str(project.root)},
        next_step=f"machine footer {_word(not on)}",
    )


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL...|default]")
@click.pass_obj
def contributors(host: Host, models: tuple[str, ...]) -> Report:
    """The models (provider/id, as Pi lists them) that propose a reasoning in a correction. At first the work model."""
    project = Project.at(host.cwd)
    if models:
        project.set(contributors=_models(models))
    chosen = project.settings().contributors
    return Report(
        title=f"A reasoning is proposed by {', '.join(chosen) or WORK}",
        rows=[("Project", str(project.root))],
        notes=["they are sent what the model saw before the rejected turn, and the turn; secrets are redacted first"],
        data={"contributors": list(chosen), "project": str(project.root)},
        next_step="machine contributors default" if chosen else "machine contributors PROVIDER/MODEL",
    )


@click.command()
@click.argument("model", required=False, metavar="[MODEL|default]")
@click.pass_obj
def teacher(host: Host, model: str | None) -> Report:
    """The model (provider/id, as Pi lists it) that does a corrected turn again. At first the work model."""
    project = Project.at(host.cwd)
    if model is not None:
        project.set(teacher=next(iter(_models([model])), None))
    chosen = project.settings().teacher
    return Report(
        title=f"A corrected turn is done again by {chosen or WORK}",
        rows=[("Project", str(project.root))],
        data={"teacher": chosen, "project": str(project.root)},
        next_step="machine teacher default" if chosen else "machine teacher PROVIDER/MODEL",
    )


def _models(words: Sequence[str]) -> tuple[str, ...]:
    if list(words) == ["default"]:
        return ()
    for word in words:
        provider, slash, name = word.partition("/")
        if not (provider and slash and name):
            raise UsageError(f"{word!r} is no provider/model", next_step="pi --list-models, or the word default")
    return tuple(dict.fromkeys(words))


def _word(on: bool) -> str:
    return "on" if on else "off"


def _tell_pi() -> None:
    """Writes `auto.json`, in which Pi's side looks up whether asking Python is worth while.

    It is made anew from the settings of all projects, which stay the truth: a file that is lost or damaged, or another
    process that writes it at the same time, does no harm.
    """
    home = private_folder(machine_home())
    with locked(private_folder(home / "locks") / "auto.lock"):
        write_private(home / "auto.json", json.dumps({"version": 1, "projects": sorted(_captured())}).encode() + b"\n")


def _captured() -> Iterator[str]:
    """The roots of the projects whose turns are captured."""
    for about in machine_home().glob("*/project.json"):
        with contextlib.suppress(StoreError, ValueError, KeyError, TypeError), explained(about):
            root = json.loads(about.read_bytes())["path"]
            if Project(Path(root), about.parent).settings().auto:
                yield root
