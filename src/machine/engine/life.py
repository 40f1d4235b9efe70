"""Starting, stopping and finding the engine's process. Nothing here imports torch.

The engine runs in a process of its own, one for all who need it, and says where it is in `engine.json`, beside a lock
that it holds as long as it lives: a file without the lock is what a killed engine left, and is not believed. How it was
started stands in `last.json`: whoever starts it next, unasked perhaps, gets the same model at the same address.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from filelock import FileLock, Timeout

from machine import discovery
from machine.discovery import Found
from machine.engine.logs import LOG, open_new
from machine.errors import ServiceError
from machine.home import engine_dir
from machine.store.files import private_folder, write_private

LOCK = "engine.lock"
START_SECONDS = 120.0
STOP_SECONDS = 15.0


class Manner(msgspec.Struct, frozen=True):
    """How an engine is started.

    `model` is a Hugging Face folder (None: the default model, fetched the first time), `dtype` "fp32" or "bf16",
    `device` "auto" (a GPU when torch sees one), "cpu", "cuda" or "mps", `idle` the minutes after which it ends unused
    (0: never).
    """

    model: str | None = None
    dtype: str = "fp32"
    device: str = "auto"
    idle: float = 30
    port: int = 0
    """Where it listened last, which it takes again if it can: what was told of it stays true."""


@dataclass(frozen=True)
class Use:
    """What a running engine takes of the machine: bytes of memory now and at most, seconds of a processor."""

    memory: int
    peak: int | None
    seconds: float


def start(model: Path | None = None, *, state: Path | None = None, manner: Manner | None = None) -> Found:
    """The running engine, started unless there is one; returns once it answers.

    Args:
        model: a Hugging Face folder; None is that of `manner`.
        state: where it keeps key, log and checkpoints; None is `engine_dir()`.
        manner: how it is started; None is as it was the last time.

    Raises:
        ServiceError: it did not come up (the message ends with its log), or another one runs here, or hangs.
    """
    state = private_folder(state or engine_dir())
    manner = manner or last(state)
    with FileLock(state / "start.lock", mode=0o600):
        if (running := _settled(state)) is not None:
            if model is not None and model.absolute() != running.model_path:
                raise ServiceError(f"an engine with {running.model} is running", next_step="machine engine stop")
            return running
        folder = model or (Path(manner.model) if manner.model else _default_model())
        process = _spawn(folder, state, manner)
        running = _wait_until_ready(process, state)
        kept = msgspec.structs.replace(manner, model=str(folder.absolute()), port=urlsplit(running.url).port or 0)
        write_private(state / discovery.LAST, msgspec.json.encode(kept))
        return running


def last(state: Path | None = None) -> Manner:
    """How the engine was started the last time; the defaults where it never was, or its model is gone."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        found = msgspec.json.decode(((state or engine_dir()) / discovery.LAST).read_bytes(), type=Manner)
        if found.model is None or Path(found.model).is_dir():
            return found
    return Manner()


def use(running: Found) -> Use | None:
    """What a running engine takes; None where the system does not say."""
    try:
        import psutil

        process = psutil.Process(running.pid)
        memory, times = process.memory_info(), process.cpu_times()
    except (ImportError, psutil.Error):
        return None
    return Use(memory.rss, getattr(memory, "peak_wset", None) or _peak(running.pid), times.user + times.system)


def _peak(pid: int) -> int | None:
    """The most memory that a process of a Linux has held, in bytes."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024
    return None


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


def status(*, state: Path | None = None) -> Found | None:
    """The running engine, if there is one."""
    state = state or engine_dir()
    if not _alive(state):
        return None
    with contextlib.suppress(ServiceError):
        return discovery.read(state)
    return None


def _settled(state: Path) -> Found | None:
    """The running engine once it answers; waits for one that is coming up or going down."""
    deadline = time.monotonic() + STOP_SECONDS
    while _alive(state):
        running = status(state=state)
        if running is not None and _healthy(running, state):
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


def _spawn(model: Path, state: Path, manner: Manner) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "machine.engine.server"]
    command += ["--model", str(model.absolute()), "--state", str(state.absolute())]
    command += ["--dtype", manner.dtype, "--device", manner.device, "--idle", str(manner.idle)]
    command += ["--port", str(manner.port if _is_free(manner.port) else 0)]
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    log = open_new(state)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    finally:
        os.close(log)


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError, OverflowError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _wait_until_ready(process: "subprocess.Popen[bytes]", state: Path) -> Found:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        running = status(state=state)
        if running is not None and running.pid == process.pid and _healthy(running, state):
            return running
        time.sleep(0.1)
    process.kill()
    reason = "it took too long" if process.wait() == -signal.SIGKILL else "it ended"
    tail = "\n".join((state / LOG).read_text("utf-8", "replace").splitlines()[-12:])
    raise ServiceError(f"the engine did not start ({reason}):\n{tail}", next_step=f"read {state / LOG}")


def _healthy(running: Found, state: Path) -> bool:
    key = discovery.key(state)
    return key is not None and discovery.proves(running.url, key)
