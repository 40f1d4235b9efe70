"""`/machine data`: where this project's data lies, what is in it, what was refused and why."""

from pathlib import Path

import click
import msgspec

from machine.commands.common import POLICIES
from machine.errors import StoreError
from machine.host import Host
from machine.report import Report, Table
from machine.store.project import Project
from machine.trace import TAGS

SHOWN = 5
AUTO = {True: "on: compacted spans and headless runs are kept as observed", False: "off: only what you tag is kept"}


@click.command()
@click.pass_obj
def data(host: Host) -> Report:
    """Where this project's data lies, what is in it, what was refused."""
    project = Project.at(host.cwd)
    counts, broken, erased, unreadable = _pool(project)
    size = sum(file.stat().st_size for file in _files(project.folder))
    refusals = project.refusals()
    settings = project.settings()
    auto, privacy = settings.auto, settings.privacy
    rows = [
        ("Project", str(project.root)),
        ("Store", str(project.folder)),
        ("Rows", "not readable" if unreadable else ", ".join(f"{counts.get(tag, 0)} {tag}" for tag in TAGS)),
        ("Auto", AUTO[auto]),
        ("Size", _bytes(size)),
        ("Runs", str(sum(1 for _ in project.runs.iterdir()) if project.runs.is_dir() else 0)),
        ("Secrets", f"{POLICIES[privacy]} (machine privacy)"),
        ("Seen by", "you alone (folder 0700, files 0600); nothing leaves this machine before you are asked"),
    ]
    notes = [unreadable.message] if unreadable else []
    if erased:
        notes.append(f"{erased} row(s) were erased")
    if broken:
        notes.append(f"{broken} line(s) of the pool are not rows and are left out")
    if (torn := project.pool.torn).exists():
        notes.append(f"a torn line was set aside in {torn}")
    notes += [f"{file}: from an earlier tool, neither read nor migrated" for file in project.old_files()]
    latest = [(item.at, item.command, item.reason) for item in refusals[-SHOWN:][::-1]]
    tables = [Table(f"refused, newest of {len(refusals)}", ("when", "command", "why"), latest)] if refusals else []
    facts = {"project": str(project.root), "store": str(project.folder), "counts": counts, "auto": auto, "bytes": size}
    return Report(
        title="Machine data",
        rows=rows,
        tables=tables,
        notes=notes,
        data=facts | {"refused": msgspec.to_builtins(refusals), "broken": broken, "erased": erased, "privacy": privacy},
        next_step=unreadable.next_step
        if unreadable
        else "machine train validate"
        if counts.get("good")
        else "/good after an answer that you liked",
        exit_code=1 if unreadable else 0,
    )


def _pool(project: Project) -> tuple[dict[str, int], int, int, StoreError | None]:
    """Rows by tag, lines that are no rows, rows that were erased; and why none of this can be told, if so."""
    try:
        return project.pool.counts(), project.pool.broken(), project.pool.erased(), None
    except StoreError as error:
        return {}, 0, 0, error


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []


def _bytes(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError
