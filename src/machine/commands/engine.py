"""`engine`: the embedded engine, Tinker's API on this machine. Start it, stop it, ask how it is."""

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import click

from machine.errors import MissingDependency
from machine.host import Host
from machine.report import Report


@click.group("engine")
def engine() -> None:
    """Tinker's API on this machine: trains, samples and chats, with nothing sent anywhere."""


@engine.command("start")
@click.option(
    "--model", type=click.Path(path_type=Path), help="A Hugging Face model folder; default SmolLM2-135M-Instruct."
)
@click.option("--dtype", type=click.Choice(["fp32", "bf16"]), default="fp32", show_default=True, help="fp32 is exact.")
@click.option("--foreground", is_flag=True, help="Serve in this process until Ctrl-C.")
@click.pass_obj
def start(host: Host, model: Path | None, dtype: str, foreground: bool) -> Report:
    """Start the engine, unless it is running. The first time fetches the default model (93 MB)."""
    _require("torch", "starlette", "uvicorn", "gguf")
    from machine.engine import life
    from machine.home import engine_dir

    folder = None if model is None else model.expanduser().absolute()
    if life.status() is None and folder is None:
        from machine.engine.convert import ensure_model

        folder = ensure_model(host.progress)
    if foreground:
        return _serve(folder, engine_dir(), dtype)
    host.progress("starting the engine")
    info = life.start(folder, dtype=dtype)
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


def _serve(folder: Path | None, state: Path, dtype: str) -> Report:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    from machine.engine import life, server

    if (running := life.status()) is not None:
        return Report(f"The engine runs already at {running.url}", _rows(running), next_step="machine engine stop")
    assert folder is not None
    server.serve(folder, state, 0, server.DTYPES[dtype], ready=lambda url: print(f"serving at {url}", file=sys.stderr))
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
