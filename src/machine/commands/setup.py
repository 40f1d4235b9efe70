"""`/machine setup`: makes the Python environment that Machine runs in, outside the package."""

import subprocess
import sys
from pathlib import Path

import click

from machine import bootstrap
from machine.errors import MissingDependency
from machine.home import machine_home
from machine.host import Host
from machine.report import Report


@click.command()
@click.option("--venv", type=click.Path(path_type=Path), help="Where to make it (default: ~/.machine/venv).")
@click.pass_obj
def setup(host: Host, venv: Path | None) -> Report:
    """Make the Python environment that Machine runs in."""
    venv = venv or machine_home() / "venv"
    command = [sys.executable, bootstrap.__file__, "--venv", str(venv)]
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines = [*lines[-19:], line.rstrip()]
            host.progress(line.strip())
    host.progress(None)
    if child.returncode:
        raise MissingDependency(
            lines[-1] if lines else "set-up failed", next_step="mend that, then machine setup again"
        )
    done = [line for line in lines if line.startswith("•")]
    title = "The environment is ready" if done else "The environment was ready: nothing to do"
    return Report(title=title, rows=[("Environment", str(venv))], data={"venv": str(venv)}, next_step="machine doctor")
