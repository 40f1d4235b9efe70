"""The sidecar with one more command, `probe`, that asks Pi things or goes wrong on purpose. Run as the interpreter."""

import os
import subprocess
import sys
import types

import click

from machine import commands
from machine.host import Host
from machine.report import Report
from machine.sidecar.__main__ import main


@click.command()
@click.argument("what")
@click.argument("words", nargs=-1)
@click.pass_obj
def probe(host: Host, what: str, words: tuple[str, ...]) -> Report:
    """Do `what`."""
    match what:
        case "ask":
            answers = [
                host.select("Which?", ["one", "two"]),
                host.confirm("Sure?", "Really."),
                host.input("Name?", "a name"),
                host.editor("Text?", "as it was"),
            ]
            return Report(title=repr(answers))
        case "echo":
            return Report(title=" ".join(words))
        case "pid":
            return Report(title=str(os.getpid()))
        case "progress":
            host.progress("step 1")
            host.notify("half-way", "warning")
            host.progress(None)
        case "detail":
            host.progress("step 1", ["a job", "step 1"])
            host.progress("step 2")
            host.progress("step 3", ["a job", "step 3"])
            if words:
                os._exit(3)
            host.progress(None)
        case "noise":
            print("printed by a library", flush=True)
            subprocess.run(["echo", "printed by a child"], check=True)
        case "fault":
            raise KeyError("a bug")
        case "exit":
            print("the last words", file=sys.stderr, flush=True)
            os._exit(3)
    return Report(title=f"{what} done")


module = types.ModuleType("machine.commands.probe")
module.probe = probe
sys.modules[module.__name__] = module
commands.COMMANDS["probe"] = ("probe", "probe", "For tests.")
main()
