"""The engine's process: `python -m machine.engine.server --model DIR --port 0 --state DIR` serves on loopback.

The state folder holds the key, the checkpoints, and, while the server runs, `engine.json` (where it is) and a lock that
the system frees whatever ends the process. SIGTERM and Ctrl-C end it, and so does a while in which nobody asks it
anything (an open session does: it sends signs of life); nothing is left half written. It gives way to what else runs on
the machine.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read by torch's OpenMP once, when it is loaded
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import asyncio
import contextlib
import logging
import re
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import torch
import uvicorn
from filelock import FileLock, Timeout
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from machine import discovery
from machine.engine import logs, memory
from machine.engine.api import rest
from machine.engine.api import routes as api
from machine.engine.api.auth import Guard
from machine.engine.api.bodies import BodyLimit
from machine.engine.api.connections import Connection, allow_files
from machine.engine.api.tokens import Tokens
from machine.engine.chat import chat, completions, openai
from machine.engine.core import Engine
from machine.engine.faults import RETRY_SECONDS, Busy, Fault
from machine.engine.models import device as devices
from machine.engine.work.futures import is_out_of_memory
from machine.errors import MachineError, Refused, ServiceError
from machine.store.files import open_private, private_folder, write_private

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LOCK = "engine.lock"
TEND_SECONDS = 5.0
NICENESS = 10
IDLE_MINUTES = 30
"""After how long an engine ends that nobody asks anything."""
_KEY = re.compile(r"tml-[\w-]{20,}", re.ASCII)
_log = logging.getLogger("machine.engine")


def build_app(engine: Engine, key: str, idle: float = 0) -> Starlette:
    """The whole server as an ASGI application; after `idle` minutes without a request (0: never) the process ends."""
    use = Use()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        engine.start()
        tending = asyncio.create_task(_tend(engine, use, idle * 60))
        yield
        tending.cancel()
        engine.stop()

    app = Starlette(
        routes=[*api.routes, *rest.routes, *chat.routes, *completions.routes],
        middleware=[Middleware(Guard, key=key), Middleware(Counted, use=use), Middleware(BodyLimit)],
        exception_handlers={
            Refused: _refused,
            HTTPException: _http_error,
            ClientDisconnect: _hung_up,
            Exception: _internal,
        },
        lifespan=lifespan,
    )
    app.state.engine = engine
    app.state.key = key
    app.state.tokens = Tokens(key)
    return app


async def _tend(engine: Engine, use: "Use", idle: float) -> None:
    while True:
        await asyncio.sleep(min(TEND_SECONDS, idle or TEND_SECONDS))
        engine.tend()
        logs.bound(engine.state)
        if idle and use.idle > idle:
            _log.info("nobody asked anything for %g minutes", idle / 60)
            signal.raise_signal(signal.SIGTERM)
            return


class Use:
    """When something was last asked, and how much is being answered."""

    def __init__(self) -> None:
        self.open, self._last = 0, time.monotonic()

    @property
    def idle(self) -> float:
        """Seconds for which nothing has been asked or answered."""
        return 0.0 if self.open else time.monotonic() - self._last

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """One request, from its beginning to the end of its answer."""
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1
            self._last = time.monotonic()


class Counted:
    """ASGI middleware: notes that somebody uses the engine; looking whether it is there is no use of it."""

    def __init__(self, app: ASGIApp, use: Use) -> None:
        self.app, self._use = app, use

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Counts what is not a look at its health."""
        if scope["type"] != "http" or scope["path"] == discovery.HEALTH:
            await self.app(scope, receive, send)
            return
        with self._use.asked():
            await self.app(scope, receive, send)


class _Server(uvicorn.Server):
    """A server that answers who waits for a result before it waits for them to go."""

    def __init__(self, config: uvicorn.Config, engine: Engine) -> None:
        super().__init__(config)
        self._engine = engine

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self._engine.futures.close()
        await super().shutdown(sockets)


def load_key(state: Path) -> str:
    """The key of this state folder, made the first time; Tinker's SDK wants it to begin with `tml-`.

    Raises:
        StoreError: the file is a link or another user's, or cannot be read.
        ServiceError: it holds no key: an empty or a short one would let in who guesses it.
    """
    path = state / discovery.KEY
    if not path.exists():
        write_private(path, f"tml-{secrets.token_urlsafe(32)}".encode())
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        key = file.read(1024).decode("ascii", "replace").strip()
    if not _KEY.fullmatch(key):
        raise ServiceError(f"{path} does not hold a key", next_step="remove it; the next start makes a new one")
    return key


def serve(
    folder: Path,
    state: Path,
    port: int,
    dtype: torch.dtype,
    device: torch.device,
    ready: Callable[[str], None] = lambda url: None,
    idle: float = 0,
) -> None:
    """Serves until it is told to end, or `idle` minutes without a request; `ready` hears the URL once it answers.

    A pass or a save that takes longer than `core.STOP_SECONDS` to end is cut off with the process: what is on disk is
    whole at every moment (`checkpoints`).

    Raises:
        ServiceError: an engine with this state folder is running, the port is taken, or there is not enough memory.
    """
    private_folder(state)
    lock = FileLock(state / LOCK, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ServiceError("an engine is already running here", next_step="machine engine status") from error
    with lock, _listen(port) as listener:
        logs.configure()
        allow_files()
        if device.type == "cpu":  # a GPU's driver bounds its memory itself, and reserves far more of ours than it uses
            memory.bound()
        engine = _loaded(folder, state, dtype, device)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            build_app(engine, load_key(state), idle),
            log_level="warning",
            timeout_graceful_shutdown=2,
            http=Connection,
            ws="none",
            proxy_headers=False,
            server_header=False,
        )
        started = datetime.now(UTC).isoformat(timespec="seconds")
        found = discovery.Found(url, os.getpid(), engine.name, folder, started, idle)
        write_private(state / discovery.FILE, found.encoded())
        ready(url)
        _log.info("serving %s (%s, %s) at %s, process %d", engine.name, dtype, device, url, os.getpid())
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises it anew once it has shut down
        try:
            with contextlib.suppress(KeyboardInterrupt):
                _Server(config, engine).run(sockets=[listener])
        except Exception:
            _log.exception("the server failed")
            raise
        finally:
            (state / discovery.FILE).unlink(missing_ok=True)
            _log.info("stopped%s", " in the middle of a job" if engine.busy else "")
            if engine.busy:
                os._exit(0)


def _loaded(folder: Path, state: Path, dtype: torch.dtype, device: torch.device) -> Engine:
    try:
        return Engine(folder, state, dtype, device)
    except (MemoryError, RuntimeError) as error:
        if is_out_of_memory(error):
            next_step = "free some memory, or take a smaller model or --dtype bf16"
            raise ServiceError(f"there is not enough memory for {folder.name}", next_step=next_step) from error
        raise


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m machine.engine.server", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", type=Path, required=True, help="a Hugging Face model folder")
    parser.add_argument("--state", type=Path, required=True, help="key, checkpoints, discovery file")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="fp32", help="fp32 is exact, bf16 smaller")
    parser.add_argument("--device", choices=devices.CHOICES, default="auto", help="auto takes a GPU if there is one")
    parser.add_argument("--idle", type=float, default=IDLE_MINUTES, help="end after so many unused minutes; 0: never")
    asked = parser.parse_args()
    os.umask(0o077)  # what libraries write is private too
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    try:
        device = devices.choose(asked.device)
        folder, state = asked.model.absolute(), asked.state.absolute()
        serve(folder, state, asked.port, DTYPES[asked.dtype], device, idle=asked.idle)
    except MachineError as error:
        print(f"{error.message}\nNext: {error.next_step}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    # On Windows SO_REUSEADDR would let another process listen at the same address.
    listener.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR), 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise ServiceError(f"port {port} is taken ({error.strerror})", next_step="use --port 0") from error
    return listener


async def _refused(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, Refused)
    if request.scope["path"].startswith("/oai/"):
        return openai.error(fault)
    status = fault.status if isinstance(fault, Fault) else 400
    headers = {"Retry-After": RETRY_SECONDS} if isinstance(fault, Busy) else None
    return JSONResponse({"detail": fault.whole}, status_code=status, headers=headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    unknown = error.status_code in (404, 405)
    message = f"this engine does not serve {request.method} {request.scope['path']}" if unknown else error.detail
    body = {"detail": message, "error": {"message": message, "type": "invalid_request_error", "code": None}}
    return JSONResponse(body, status_code=404 if unknown else error.status_code, headers=error.headers)


async def _hung_up(request: Request, error: Exception) -> Response:
    """Nobody hears it: the client went in the middle of its request."""
    return Response(status_code=499)


async def _internal(request: Request, error: Exception) -> Response:
    """A fault of the engine, logged with its traceback; 422 to Tinker's SDK, which would repeat a 5xx for minutes."""
    message = f"the engine failed ({type(error).__name__}: {error}); its log says where"
    if is_out_of_memory(error):
        message = "out of memory (send fewer or shorter rows at a time)"
    body = {"detail": message, "error": {"message": message, "type": "server_error", "code": None}}
    return JSONResponse(body, status_code=500 if request.scope["path"].startswith("/oai/") else 422)


if __name__ == "__main__":
    main()
