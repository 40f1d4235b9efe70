"""`/machine doctor` and `/tinker doctor`: what is needed, what is there, and how to mend what is not."""

import datetime
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from machine import bootstrap
from machine.errors import MachineError
from machine.home import machine_home, models_dir
from machine.host import Host
from machine.report import Report, Table
from machine.store.files import private_folder

PACKAGES = ("torch", "tinker", "tinker-cookbook", "starlette", "uvicorn", "peft")
TINKER_PACKAGES = ("tinker", "tinker-cookbook", "tml-renderers")
MODEL = "SmolLM2-135M-Instruct"

Check = tuple[str, str, str]
"""Name, what was found, how to mend it (empty: nothing to mend)."""


@click.command()
@click.pass_obj
def doctor(host: Host) -> Report:
    """Say what is missing, and how to mend it."""
    return examined([_python(), *map(_package, PACKAGES), _node(), _model(), _store(), _service(), _sandbox()])


def tinker_checks(host: Host) -> list[Check]:
    """What the models of the Tinker service need, the service itself included, which is asked."""
    versions = [_python(), _node(), _pi(host), *map(_package, TINKER_PACKAGES)]
    return [
        *versions,
        _told("key", _key),
        _told("service", _answers),
        _told("engine", _engine),
        _told("Pi's list", _list),
        _rival(),
    ]


def examined(checks: Sequence[Check]) -> Report:
    """The checks as a report; its exit code is 1 where something needs the user."""
    marks = [("ok" if not mend else "missing", name, found, mend) for name, found, mend in checks]
    missing = [mend for _, _, mend in checks if mend]
    return Report(
        title="Nothing is missing" if not missing else f"{len(missing)} of {len(checks)} things need you",
        tables=[Table("", ("", "what", "found", "how to mend it"), marks)],
        data={"checks": [{"name": n, "found": f, "mend": m} for n, f, m in checks]},
        next_step=missing[0] if missing else "",
        exit_code=1 if missing else 0,
    )


def age(when: datetime.datetime | None) -> str:
    """How long ago that was, in words."""
    if when is None:
        return "never"
    minutes = max(0, round((datetime.datetime.now(datetime.UTC) - when).total_seconds() / 60))
    for unit, size in (("day", 60 * 24), ("hour", 60), ("minute", 1)):
        if count := minutes // size:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def _told(name: str, check: Callable[[], tuple[str, str]]) -> Check:
    """A check whose error is what it found."""
    try:
        return name, *check()
    except MachineError as error:
        return name, error.message, error.next_step or "machine doctor"


def _python() -> Check:
    return "python", f"{platform.python_version()} at {sys.executable}", ""


def _package(name: str) -> Check:
    try:
        return name, version(name), ""
    except PackageNotFoundError:
        return name, "not installed", "machine setup"


def _sandbox() -> Check:
    """What only a release whose suites are repositories needs, so that it is nothing to mend by itself."""
    from machine.sandbox.choice import choose

    try:
        return "sandbox", choose().name, ""
    except MachineError as error:
        return "sandbox", f"none, which only releases with repositories need: {error.message}", ""


def _node() -> Check:
    node = bootstrap.tools(Path(sys.prefix)).node
    return "node", str(node) if node else "none >= 22.19", "" if node else "install Node >= 22.19 (Pi needs it)"


def _pi(host: Host) -> Check:
    session = host.session()
    if session is not None:
        return "pi", f"{session.host_version}, this one", ""
    on_path = shutil.which("pi")
    script = Path(on_path).resolve() if on_path else bootstrap.tools(Path(sys.prefix)).pi
    if script is None:
        return "pi", "none on your PATH", "install Pi (https://pi.dev), or make setup in Machine's clone"
    for folder in script.parents:
        manifest = _json(folder / "package.json")
        if str(manifest.get("name", "")).endswith("/pi-coding-agent"):
            return "pi", f"{manifest.get('version')} at {script}", ""
    return "pi", str(script), ""


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


def _key() -> tuple[str, str]:
    from machine.tinker.service import endpoint, named

    where = named()
    if where is None:
        return f"the engine's: {endpoint().key_source}", ""
    if not where.key.startswith("tml-"):
        return "TINKER_API_KEY is set, but is no key of Tinker's", "set TINKER_API_KEY to a key that begins with tml-"
    return f"TINKER_API_KEY is set, for {where.destination}", ""


def _answers() -> tuple[str, str]:
    """Asks the service for its models: the address, the key and the account all show in that."""
    from machine.tinker.service import connect, endpoint
    from machine.tinker.students import models

    where = endpoint()
    with connect(where) as service:
        return f"{where.url} answers, with {len(models(service))} base models", ""


def _engine() -> tuple[str, str]:
    from machine.engine import life

    info = life.status()
    return (
        f"runs at {info.url} with {info.model}" if info else "not running (machine engine start; free, on this machine)"
    ), ""


def _list() -> tuple[str, str]:
    from machine.tinker.provider import asked_at, base_models, listed

    asked = asked_at()
    found = f"{len(base_models())} base models, {len(listed())} registered; asked {age(asked)}"
    return found, "" if asked else "machine tinker models"


def _rival() -> Check:
    """Another package that has `/tinker`, as far as its name in Pi's settings shows it."""
    agent = Path(os.environ.get("PI_CODING_AGENT_DIR") or Path.home() / ".pi" / "agent").expanduser()
    packages = _json(agent / "settings.json").get("packages")
    for package in packages if isinstance(packages, list) else []:
        source = package.get("source", "") if isinstance(package, dict) else package
        if re.search(r"(^|[/:])pi-tinker(@|\.git|/|$)", str(source)):
            return "/tinker", f"{source} has a command of that name too", f"pi remove {source}"
    return "/tinker", "Machine's alone", ""


def _json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of somebody else's; empty where there is none."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
