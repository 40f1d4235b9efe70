"""The sidecar with one more command, `ask`: it calls the host as the file `ASK` says. Run as the interpreter."""

import json
import os
import sys
import types
from dataclasses import asdict
from pathlib import Path

import click

from machine import commands
from machine.errors import MachineError
from machine.host import Host
from machine.report import Report
from machine.sidecar.__main__ import main


@click.command()
@click.pass_obj
def ask(host: Host) -> Report:
    """Call the host, and say what it returned."""
    wanted = json.loads(Path(os.environ["ASK"]).read_text())
    try:
        got = getattr(host, wanted["method"])(**wanted["words"])
    except MachineError as fault:
        return Report(title=f"failed: {type(fault).__name__}: {fault.whole}", exit_code=fault.exit_code)
    return Report(title=json.dumps({**asdict(got), "pid": os.getpid()}))


module = types.ModuleType("machine.commands.ask")
module.ask = ask
sys.modules[module.__name__] = module
commands.COMMANDS["ask"] = ("ask", "ask", "For tests.")
main()
