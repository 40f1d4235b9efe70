"""`engine`: the embedded engine, Tinker's API on this machine. Start it, stop it, ask how it is."""

import contextlib
import dataclasses
import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from machine import discovery
from machine.commands.common import tinker_service
from machine.engine.logs import LOG
from machine.errors import MissingDependency, UsageError
from machine.home import engine_dir
from machine.host import Host
from machine.report import Report, printable

if TYPE_CHECKING:
    from machine.discovery import Found
    from machine.engine.life import Manner


@click.group("engine")
def engine() -> None:
    """Tinker's API on this machine: trains, samples and chats, with nothing sent anywhere."""


@engine.command("start")
@click.option(
    "--model", metavar="NAME|PATH", help="A Hugging Face model folder, or a name; default SmolLM2-135M-Instruct."
)
@click.option("--dtype", type=click.Choice(["fp32", "bf16"]), help="fp32, the default, is exact.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    help="auto, the default, is a GPU when torch sees one.",
)
@click.option(
    "--idle", type=click.IntRange(0, 10_000), metavar="MINUTES", help="Stop when unused for so long (30); 0: never."
)
@click.option("--foreground", is_flag=True, help="Serve in this process until Ctrl-C.")
@click.pass_obj
def start(
    host: Host, model: str | None, dtype: str | None, device: str | None, idle: int | None, foreground: bool
) -> Report:
    """Start the engine, unless it is running; what is not said is as it was the last time.

    The first time fetches the default model (93 MB). A name is looked for among Machine's models, in the Hugging Face
    cache, then on the hub.
    """
    _require("torch", "starlette", "uvicorn", "gguf")
    from machine.engine import life
    from machine.engine.models import hub

    running, manner = life.status(), life.last()
    given = {name: value for name, value in (("dtype", dtype), ("device", device), ("idle", idle)) if value is not None}
    manner = msgspec.structs.replace(manner, **given)
    wanted = model if running is None or model not in (None, running.model) else None
    folder = hub.model_folder(wanted, host.progress) if wanted or not (running or manner.model) else None
    if foreground:
        return _serve(folder or Path(manner.model or ""), engine_dir(), manner, idle or 0)
    host.progress("starting the engine")
    info = life.start(folder, manner=manner)
    host.progress(None)
    tinker_service(host, wake=False)  # Pi's list of models follows the engine to its address
    return Report(f"The engine runs at {info.url}", _rows(info), next_step="machine train validate", data=_data(info))


@engine.command("stop")
@click.pass_obj
def stop(host: Host) -> Report:
    """Stop the engine. Checkpoints stay; training that was under way ends."""
    from machine.engine import life

    stopped = life.stop()
    return Report("The engine is stopped" if stopped else "The engine was not running", data={"stopped": stopped})


@engine.command("status")
@click.pass_obj
def status(host: Host) -> Report:
    """Say whether the engine runs, where, with which model, and what it takes of this machine."""
    from machine.engine import life

    info = life.status()
    if info is None:
        return Report("The engine is not running", next_step="machine engine start", data={"running": False})
    taken = life.use(info)
    rows = _rows(info)
    if taken is not None:
        most = f", at most {taken.peak / 1e9:.1f} GB" if taken.peak else ""
        rows.append(("Memory", f"{taken.memory / 1e9:.1f} GB{most}"))
        rows.append(("Computed", f"{taken.seconds:.0f} s of a processor, giving way to what else runs"))
    data = _data(info) | {"use": None if taken is None else dataclasses.asdict(taken)}
    return Report(f"The engine runs at {info.url}", rows, data=data)


@engine.command("logs")
@click.option("--lines", type=click.IntRange(min=1), default=40, show_default=True, help="How many of the last lines.")
@click.option("--follow", is_flag=True, help="Go on showing lines as they are written, until Ctrl-C.")
@click.pass_obj
def logs(host: Host, lines: int, follow: bool) -> Report:
    """Show the engine's log: starts, stops, failed requests. It holds no prompt, no answer and no key."""
    from machine.engine import logs

    if follow and host.session() is not None:
        raise UsageError("--follow shows lines in a terminal only", next_step="machine engine logs")
    new = logs.follow(engine_dir())  # from before the tail is read, so that no line falls between the two
    found = logs.tail(engine_dir(), lines)
    if follow:
        with contextlib.suppress(KeyboardInterrupt):
            for line in itertools.chain(found, new):
                click.echo(printable(line))
        return Report("")
    if not found:
        return Report("The engine has no log yet", next_step="machine engine start", data={"lines": []})
    return Report("The engine's log", notes=found, data={"lines": found})


def _serve(folder: Path, state: Path, manner: "Manner", idle: float) -> Report:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    from machine.engine import life, server
    from machine.engine.models import device as devices

    if (running := life.status()) is not None:
        return Report(f"The engine runs already at {running.url}", _rows(running), next_step="machine engine stop")
    server.serve(
        folder,
        state,
        0,
        server.DTYPES[manner.dtype],
        devices.choose(manner.device),
        ready=lambda url: print(f"serving at {url}", file=sys.stderr),
        idle=idle,
    )
    return Report("The engine is stopped")


def _require(*modules: str) -> None:
    from importlib.util import find_spec

    if missing := [module for module in modules if find_spec(module) is None]:
        raise MissingDependency(f"the engine needs {', '.join(missing)}", next_step="machine setup")


def _rows(info: "Found") -> list[tuple[str, str]]:
    ends = f"when nobody has asked it anything for {info.idle:g} minutes" if info.idle else "when it is told to"
    rows = [("Model", info.model), ("Process", str(info.pid)), ("Started", info.started_at), ("Stops", ends)]
    return [*rows, ("Key", str(engine_dir() / discovery.KEY)), ("Log", str(engine_dir() / LOG))]


def _data(info: "Found") -> dict[str, Any]:
    facts = {key: str(value) if isinstance(value, Path) else value for key, value in dataclasses.asdict(info).items()}
    return {"running": True, **facts, "log": str(engine_dir() / LOG)}
