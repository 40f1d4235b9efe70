"""Pi: which Node and Pi run in a box, and the job that has Pi work headless on a repository with one model.

The user's own Pi comes first where it is new enough, then this package's. Pi gets an agent folder of its own with one
provider, `machine`, and nothing that is the user's: no session, extension, skill, prompt, context file or update check.
The address of the model is known only inside the box, and Pi's `models.json` takes no variable for it: `start` puts it
in. Of Pi's events the deltas and the repetitions stay in the box, since they grow far faster than what they tell.
"""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from machine import bootstrap
from machine.errors import MissingDependency
from machine.sandbox.job import Door, Job, Limits
from machine.tinker.card import COMPAT

OLDEST = (1, 6)
"""The oldest Pi whose events say how long a tool ran: a call without it did not fit its tool."""
PROVIDER = "machine"
_PLACE = "@MODEL_URL@"
_START = """#!/bin/bash
# Gives Pi the model's address, and passes on those of its events that are whole and said once.
export LC_ALL=C PI_CODING_AGENT_DIR="$HOME/pi"
models=$(< "$PI_CODING_AGENT_DIR/models.json")
printf %s "${models//@MODEL_URL@/$MACHINE_MODEL_URL}" > "$PI_CODING_AGENT_DIR/models.json"
cd "$MACHINE_WORK" || exit 1
"$@" | grep -avE --line-buffered '^\\{"type":"(message_update|message_start|tool_execution_[a-z]+|turn_end|agent_end)"'
exit "${PIPESTATUS[0]}"
"""
_ALONE = (
    "--print", "--mode", "json", "--no-session", "--no-extensions", "--no-mcp", "--no-skills", "--no-prompt-templates",
    "--no-themes", "--no-context-files", "--no-approve", "--offline",
)  # fmt: skip
_QUIET = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
_SETTINGS: dict[str, Any] = {
    # a dropped connection is tried again, a service that is gone is found out in seconds
    "retry": {"enabled": True, "maxRetries": 2, "baseDelayMs": 1000},
    # a conversation that outgrows the context has failed: a summary of it would be another task
    "compaction": {"enabled": False},
    "enableInstallTelemetry": False,
}


@dataclass(frozen=True)
class Model:
    """Who is asked: `name` as the service knows it (a base model or a `tinker://` path), behind `door`.

    `context` and `max_tokens` (of one answer) are in tokens. `instruction` is added to Pi's system prompt: the control
    arm. `temperature` None leaves it to the service, as Pi does. Thinking is off.
    """

    name: str
    door: Door
    context: int
    max_tokens: int
    instruction: str | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class Installed:
    """A Pi that can run: `node` runs `script`; `visible` are the folders that both need."""

    node: Path
    script: Path
    version: str
    visible: tuple[Path, ...]


def installed() -> Installed:
    """The Pi to run.

    Raises:
        MissingDependency: there is no Pi that is new enough, or no Node for it.
    """
    found = bootstrap.tools(Path(sys.prefix))
    if found.node is None:
        raise MissingDependency("no Node >= 22.19 was found, which Pi needs", next_step="install Node")
    on_path = shutil.which("pi")
    scripts = [Path(on_path).resolve()] if on_path else []
    seen = []
    for script in [*scripts, *([found.pi.resolve()] if found.pi else [])]:
        package = _package(script)
        version = str(_manifest(package)["version"]) if package else ""
        if package and _numbers(version) >= OLDEST:
            node = found.node.resolve()
            return Installed(node, script, version, (node.parent, _whole(package)))
        seen += [version] if version else []
    oldest = ".".join(map(str, OLDEST))
    raise MissingDependency(
        f"no Pi >= {oldest} was found" + (f", only {' and '.join(seen)}" if seen else ""),
        next_step="install Pi (https://pi.dev), or make setup in Machine's clone",
    )


def python() -> Path:
    """This machine's Python without its packages: what a repository's check is run with."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [Path(sys.base_prefix) / "bin" / name, Path(sys.base_prefix) / "bin" / "python3"]
    return next((path for path in candidates if path.exists()), Path(getattr(sys, "_base_executable", sys.executable)))


def python_home() -> Path:
    """The folder that `python()` needs whole."""
    return Path(sys.base_prefix).resolve()


def job(pi: Installed, model: Model, prompt: str, files: Mapping[str, bytes], limits: Limits) -> Job:
    """Pi at work on `files` with `prompt`: its events come out on stdout, one JSON object a line."""
    words = [str(pi.node), str(pi.script), *_ALONE, "--provider", PROVIDER, "--model", model.name, "--thinking", "off"]
    words += ["--append-system-prompt", model.instruction] if model.instruction else []
    home = {"start": _START, "pi/models.json": json.dumps(_models(model)), "pi/settings.json": json.dumps(_SETTINGS)}
    return Job(
        command=("/bin/bash", "-c", 'exec /bin/bash "$HOME/start" "$@"', "start", *words, "--", prompt),
        files=files,
        home={name: text.encode() for name, text in home.items()},
        env=_QUIET | _environment(),
        visible=(*pi.visible, python_home()),
        door=replace(model.door, model=model.name, tokens=model.max_tokens),
        limits=limits,
    )


def check(argv: tuple[str, ...], files: Mapping[str, bytes], limits: Limits) -> Job:
    """A repository's own check: no model, no network; `python3` is this machine's Python."""
    words = (str(python()), *argv[1:]) if argv[0] == "python3" else argv
    return Job(command=words, files=files, env=_environment(), visible=(python_home(),), limits=limits)


def _environment() -> dict[str, str]:
    """What finds this machine's Python, and has it leave nothing behind in the repository."""
    return {"PATH": f"{python().parent}:/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}


def _models(model: Model) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": model.name,
        "name": model.name,
        "reasoning": False,
        "contextWindow": model.context,
        "maxTokens": model.max_tokens,
        "compat": COMPAT,
    }
    if model.temperature is not None:
        entry["samplingParams"] = {"temperature": model.temperature}
    provider = {"baseUrl": _PLACE, "api": "openai-completions", "apiKey": "none-in-the-box", "models": [entry]}
    return {"providers": {PROVIDER: provider}}


def _package(script: Path) -> Path | None:
    """The folder of the Pi package that a script belongs to; None where it is a launcher of some other kind."""
    return next((up for up in script.parents if str(_manifest(up).get("name", "")).endswith("/pi-coding-agent")), None)


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "package.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _numbers(version: str) -> tuple[int, ...]:
    first = version.split("-")[0].split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in first)


def _whole(package: Path) -> Path:
    """The least folder with a package and all it depends on: itself, or the outermost `node_modules` round it."""
    if (package / "node_modules" / "@earendil-works").is_dir():
        return package
    return next((up for up in reversed(package.parents) if up.name == "node_modules"), package)
