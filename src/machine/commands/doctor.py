"""`/machine doctor`: what Machine needs, what is there, and how to mend what is not."""

import importlib.util
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from machine import bootstrap
from machine.errors import MachineError
from machine.home import machine_home, models_dir
from machine.host import Host
from machine.report import Report, Table
from machine.store.files import private_folder

PACKAGES = ("torch", "tinker", "tinker-cookbook", "starlette", "uvicorn", "peft")
MODEL = "SmolLM2-135M-Instruct"


@click.command()
@click.pass_obj
def doctor(host: Host) -> Report:
    """Say what is missing, and how to mend it."""
    checks = [_python(), *map(_package, PACKAGES), _node(), _model(), _store(), _service()]
    marks = [("ok" if not mend else "missing", name, found, mend) for name, found, mend in checks]
    missing = [mend for _, _, mend in checks if mend]
    return Report(
        title="Nothing is missing" if not missing else f"{len(missing)} of {len(checks)} things need you",
        tables=[Table("", ("", "what", "found", "how to mend it"), marks)],
        data={"checks": [{"name": n, "found": f, "mend": m} for n, f, m in checks]},
        next_step=missing[0] if missing else "",
        exit_code=1 if missing else 0,
    )


Check = tuple[str, str, str]
"""Name, what was found, how to mend it (empty: nothing to mend)."""


def _python() -> Check:
    return "python", f"{platform.python_version()} at {sys.executable}", ""


def _package(name: str) -> Check:
    try:
        return name, version(name), ""
    except PackageNotFoundError:
        return name, "not installed", "machine setup"


def _node() -> Check:
    node = bootstrap.tools(Path(sys.prefix)).node
    return "node", str(node) if node else "none >= 22.19", "" if node else "install Node >= 22.19 (Pi needs it)"


def _model() -> Check:
    folder = models_dir() / MODEL
    there = (folder / "config.json").exists()
    return "local model", str(folder) if there else "not converted yet", "" if there else "machine setup"


def _store() -> Check:
    try:
        return "store", f"{private_folder(machine_home())}, private", ""
    except MachineError as error:
        return "store", error.message, error.next_step


def _service() -> Check:
    if importlib.util.find_spec("tinker") is None:
        return "Tinker service", "not checked: the tinker package is missing", "machine setup"
    from machine.tinker.service import endpoint

    try:
        found = endpoint()
    except MachineError as error:
        return "Tinker service", error.message, error.next_step
    return "Tinker service", f"{found.base_url or 'hosted Tinker'} ({found.origin})", ""
