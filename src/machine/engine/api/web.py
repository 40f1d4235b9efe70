"""What the endpoints share: the engine behind a request, its body, and how an answer is promised."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from machine.engine.checkpoints import CheckpointPath
from machine.engine.core import Engine
from machine.engine.faults import Fault
from machine.engine.wire import requests as wire
from machine.engine.work.futures import Future

Endpoint = Callable[[Request], Awaitable[Response]]
CHECKPOINT = "/api/v1/training_runs/{run}/checkpoints/{kind}/{name}"
"""The address of a checkpoint."""


def engine_of(request: Request) -> Engine:
    """The engine that serves the application."""
    engine: Engine = request.app.state.engine
    return engine


def checkpoint_of(request: Request) -> CheckpointPath:
    """The checkpoint that an address under `CHECKPOINT` names.

    Raises:
        Fault: a part of it is not a name.
    """
    parts = request.path_params
    return CheckpointPath(parts["run"], parts["kind"], parts["name"])


async def body_of(request: Request) -> bytes:
    """The body, unfolded if it is compressed.

    Raises:
        Fault: it is compressed in another way than zstd, or badly.
    """
    body, encoding = await request.body(), request.headers.get("content-encoding", "identity")
    if encoding not in ("identity", "zstd"):
        raise Fault(f"content-encoding: {encoding!r} is not supported; use zstd or none")
    return wire.decompress(body) if encoding == "zstd" else body


def check_base_model(engine: Engine, name: str | None) -> None:
    """Refuses another base model than the engine's.

    Raises:
        Fault: it is not the one that is served.
    """
    if not engine.known_model(name):
        raise Fault(f"base_model: {name!r} is not here; this engine serves {engine.name}")


def promised(future: Future, model_id: str) -> Response:
    """The answer to a request whose result is fetched later."""
    return JSONResponse({"request_id": future.id, "model_id": model_id})


def post(path: str, endpoint: Endpoint) -> Route:
    """A route of the API that is posted to."""
    return Route(f"/api/v1/{path}", endpoint, methods=["POST"])
