"""Starting, stopping and finding the engine's process. Nothing here imports torch.

The engine runs in a process of its own and says where it is in `engine.json`, beside a lock that it holds as long as it
lives: a file without the lock is what a killed engine left, and is not believed.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from machine.engine.logs import LOG, open_new
from machine.errors import ServiceError
from machine.home import engine_dir
from machine.store.files import private_folder

DISCOVERY, LOCK = "engine.json", "engine.lock"
START_SECONDS = 120.0
STOP_SECONDS = 15.0


@dataclass(frozen=True)
class EngineInfo:
    """A running engine."""

    url: str
    pid: int
    model: str
    model_path: Path
    started_at: str
    log: Path


def start(
    model: Path | None = None, *, state: Path | None = None, dtype: str = "fp32", device: str = "auto"
) -> EngineInfo:
    """The running engine, started unless there is one; returns once it answers.

    Args:
        model: a Hugging Face folder; None is the default model, fetched the first time.
        state: where it keeps key, log and checkpoints; None is `engine_dir()`.
        dtype: "fp32" or "bf16".
        device: "auto" (a GPU when torch sees one), "cpu", "cuda" or "mps".

    Raises:
        ServiceError: it did not come up (the message ends with its log), or another one runs here, or hangs.
    """
    state = private_folder(state or engine_dir())
    with FileLock(state / "start.lock", mode=0o600):
        if (running := _settled(state)) is not None:
            if model is not None and model.absolute() != running.model_path:
                raise ServiceError(f"an engine with {running.model} is running", next_step="machine engine stop")
            return running
        process = _spawn(model or _default_model(), state, dtype, device)
        return _wait_until_ready(process, state)


def stop(*, state: Path | None = None) -> bool:
    """Ends the running engine; False when there is none.

    Raises:
        ServiceError: it does not end.
    """
    state = state or engine_dir()
    if (running := status(state=state)) is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while _alive(state):
        if time.monotonic() > deadline:
            raise ServiceError(f"the engine (process {running.pid}) does not end", next_step=f"kill -9 {running.pid}")
        time.sleep(0.05)
    return True


def status(*, state: Path | None = None) -> EngineInfo | None:
    """The running engine, if there is one."""
    state = state or engine_dir()
    if not _alive(state):
        return None
    try:
        facts = json.loads((state / DISCOVERY).read_bytes())
        return EngineInfo(
            facts["url"], facts["pid"], facts["model"], Path(facts["model_path"]), facts["started_at"], state / LOG
        )
    except (OSError, ValueError, KeyError):
        return None  # it holds the lock and is still loading


def _settled(state: Path) -> EngineInfo | None:
    """The running engine once it answers; waits for one that is coming up or going down."""
    deadline = time.monotonic() + STOP_SECONDS
    while _alive(state):
        running = status(state=state)
        if running is not None and _healthy(running.url):
            return running
        if time.monotonic() > deadline:
            raise ServiceError("an engine is here, but it does not answer", next_step="machine engine stop")
        time.sleep(0.1)
    return None


def _alive(state: Path) -> bool:
    if not (state / LOCK).exists():
        return False
    try:
        with FileLock(state / LOCK, timeout=0, mode=0o600):
            return False
    except Timeout:
        return True


def _default_model() -> Path:
    from machine.engine.models.hub import model_folder

    return model_folder(None)


def _spawn(model: Path, state: Path, dtype: str, device: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "machine.engine.server"]
    command += ["--model", str(model.absolute()), "--state", str(state.absolute())]
    command += ["--dtype", dtype, "--device", device]
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    log = open_new(state)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    finally:
        os.close(log)


def _wait_until_ready(process: "subprocess.Popen[bytes]", state: Path) -> EngineInfo:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        running = status(state=state)
        if running is not None and running.pid == process.pid and _healthy(running.url):
            return running
        time.sleep(0.1)
    process.kill()
    reason = "it took too long" if process.wait() == -signal.SIGKILL else "it ended"
    tail = "\n".join((state / LOG).read_text("utf-8", "replace").splitlines()[-12:])
    raise ServiceError(f"the engine did not start ({reason}):\n{tail}", next_step=f"read {state / LOG}")


def _healthy(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/api/v1/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
