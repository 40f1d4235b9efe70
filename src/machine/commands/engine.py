"""`engine`: the embedded engine, Tinker's API on this machine. Start it, stop it, ask how it is."""

import contextlib
import dataclasses
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import click

from machine.errors import MissingDependency, UsageError
from machine.host import Host
from machine.report import Report, printable


@click.group("engine")
def engine() -> None:
    """Tinker's API on this machine: trains, samples and chats, with nothing sent anywhere."""


@engine.command("start")
@click.option(
    "--model", metavar="NAME|PATH", help="A Hugging Face model folder, or a name; default SmolLM2-135M-Instruct."
)
@click.option("--dtype", type=click.Choice(["fp32", "bf16"]), default="fp32", show_default=True, help="fp32 is exact.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    show_default=True,
    help="auto is a GPU when torch sees one.",
)
@click.option("--foreground", is_flag=True, help="Serve in this process until Ctrl-C.")
@click.pass_obj
def start(host: Host, model: str | None, dtype: str, device: str, foreground: bool) -> Report:
    """Start the engine, unless it is running. The first time fetches the default model (93 MB).

    A name is looked for among Machine's models, in the Hugging Face cache, then on the hub.
    """
    _require("torch", "starlette", "uvicorn", "gguf")
    from machine.engine import life
    from machine.engine.models import hub
    from machine.home import engine_dir

    running = life.status()
    wanted = running is None or model not in (None, running.model)
    folder = hub.model_folder(model, host.progress) if wanted else None
    if foreground:
        return _serve(folder, engine_dir(), dtype, device)
    host.progress("starting the engine")
    info = life.start(folder, dtype=dtype, device=device)
    host.progress(None)
    _tell_pi(host)
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
    """Say whether the engine runs, where, and with which model."""
    from machine.engine import life

    info = life.status()
    if info is None:
        return Report("The engine is not running", next_step="machine engine start", data={"running": False})
    return Report(f"The engine runs at {info.url}", _rows(info), data=_data(info))


@engine.command("logs")
@click.option("--lines", type=click.IntRange(min=1), default=40, show_default=True, help="How many of the last lines.")
@click.option("--follow", is_flag=True, help="Go on showing lines as they are written, until Ctrl-C.")
@click.pass_obj
def logs(host: Host, lines: int, follow: bool) -> Report:
    """Show the engine's log: starts, stops, failed requests. It holds no prompt, no answer and no key."""
    from machine.engine import logs
    from machine.home import engine_dir

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


def _serve(folder: Path | None, state: Path, dtype: str, device: str) -> Report:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    from machine.engine import life, server
    from machine.engine.models import device as devices

    if (running := life.status()) is not None:
        return Report(f"The engine runs already at {running.url}", _rows(running), next_step="machine engine stop")
    assert folder is not None
    server.serve(
        folder,
        state,
        0,
        server.DTYPES[dtype],
        devices.choose(device),
        ready=lambda url: print(f"serving at {url}", file=sys.stderr),
    )
    return Report("The engine is stopped")


def _tell_pi(host: Host) -> None:
    """The engine has another port at each start: the models that Pi was told of follow it."""
    from machine.tinker.provider import refresh
    from machine.tinker.service import endpoint

    if refresh(endpoint()):
        host.models_changed()


def _require(*modules: str) -> None:
    from importlib.util import find_spec

    if missing := [module for module in modules if find_spec(module) is None]:
        raise MissingDependency(f"the engine needs {', '.join(missing)}", next_step="machine setup")


def _rows(info: Any) -> list[tuple[str, str]]:
    rows = [("Model", info.model), ("Process", str(info.pid)), ("Started", info.started_at)]
    return [*rows, ("Key", str(info.log.parent / "key")), ("Log", str(info.log))]


def _data(info: Any) -> dict[str, Any]:
    facts = {key: str(value) if isinstance(value, Path) else value for key, value in dataclasses.asdict(info).items()}
    return {"running": True, **facts}
