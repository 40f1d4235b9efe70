"""Tinker's API, as the SDK speaks it: JSON in, JSON out, and protobuf where the SDK wants it.

Here: what a client asks first, sessions, and futures; the rest is in `training`, `sampling`, `files` and
`account`. What takes time answers with a request id at once; `retrieve_future` holds the line until there is a result.
A fault of the client is a 4xx here, or `{error, category: "user"}` as the result: a 5xx the SDK would repeat for
minutes.
"""

import uuid

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from machine import discovery
from machine.engine.api import account, files
from machine.engine.api import sampling as api_sampling
from machine.engine.api import training as api_training
from machine.engine.api.web import engine_of, post
from machine.engine.core import MAX_SESSIONS, Session
from machine.engine.faults import Busy
from machine.engine.wire import requests as wire

HOLD_SECONDS = 25.0
"""How long `retrieve_future` holds the line; the SDK gives up at 45."""

CLIENT_CONFIG = {
    "pjwt_auth_enabled": True,
    "parallel_fwdbwd_chunks": True,
    "proto_compress_fwdbwd": True,
    "use_pyqwest_transport": True,
    "sample_enable_stuck_detection": False,
    "sample_max_concurrent_requests": 64,
}
DYNAMIC_CONFIG = {"refresh_interval_sec": 3600, "sample_cancel_enabled": True}


async def healthz(request: Request) -> Response:
    """Whether the engine answers; needs no key. Who sends a challenge learns that it is the one (see `discovery`)."""
    challenge, (_, port) = request.headers.get(discovery.CHALLENGE, ""), request.scope["server"]
    mine = discovery.is_for(challenge, port)
    shown = {"proof": discovery.proof(request.app.state.key, challenge[:64])} if mine else {}
    return JSONResponse({"status": "ok", **shown})


async def client_config(request: Request) -> Response:
    """Flags for the SDK."""
    return JSONResponse(CLIENT_CONFIG)


async def client_dynamic_config(request: Request) -> Response:
    """Flags that the SDK asks for again and again."""
    return JSONResponse(DYNAMIC_CONFIG)


async def capabilities(request: Request) -> Response:
    """The one model that there is."""
    engine = engine_of(request)
    model = {"model_name": engine.name, "max_context_length": engine.context, "trainable": True, "sampleable": True}
    return JSONResponse({"supported_models": [model]})


async def create_session(request: Request) -> Response:
    """Begins a client's session."""
    engine = engine_of(request)
    asked = wire.decode(await request.body(), wire.CreateSession)
    if len(engine.sessions) >= MAX_SESSIONS:
        raise Busy(f"{len(engine.sessions)} sessions are open", next_step="end those that are not used")
    session = Session(str(uuid.uuid4()), wire.metadata(asked.user_metadata), asked.display_name)
    engine.sessions[session.id] = session
    note = None if asked.project_id is None else "project_id has no effect: this engine has no projects"
    return JSONResponse({"type": "create_session", "session_id": session.id, "info_message": note})


async def heartbeat(request: Request) -> Response:
    """A sign of life; 410 tells the client that its session is gone."""
    engine_of(request).session(wire.decode(await request.body(), wire.OfSession).session_id)
    return JSONResponse({"type": "session_heartbeat"})


async def finish_session(request: Request) -> Response:
    """Ends a session and frees what it holds."""
    engine_of(request).end_session(request.path_params["session"])
    return Response(status_code=204)


async def telemetry(request: Request) -> Response:
    """Accepted and dropped: the engine keeps no telemetry."""
    return JSONResponse({"status": "accepted"})


async def retrieve_future(request: Request) -> Response:
    """The result of a request, or 408 when it is not there yet."""
    engine = engine_of(request)
    asked = wire.decode(await request.body(), wire.OfRequest)
    future = engine.futures.get(asked.request_id)
    answer = await future.wait(HOLD_SECONDS)
    if answer is None:
        body = {"type": "try_again", "request_id": future.id, "queue_state": "active"}
        return JSONResponse(body, status_code=408)
    engine.futures.fetched(future)
    return Response(answer.body, media_type=answer.media_type)


async def cancel_future(request: Request) -> Response:
    """Gives a request up: what waits is dropped, what runs ends at the next token or pass."""
    futures = engine_of(request).futures
    futures.cancel(futures.get(wire.decode(await request.body(), wire.OfRequest).request_id))
    return Response(status_code=204)


routes = [
    Route(discovery.HEALTH, healthz),
    Route("/api/v1/get_server_capabilities", capabilities),
    post("client/config", client_config),
    post("client/dynamic_config", client_dynamic_config),
    post("create_session", create_session),
    post("session_heartbeat", heartbeat),
    post("sessions/{session}/finish", finish_session),
    post("telemetry", telemetry),
    post("retrieve_future", retrieve_future),
    post("cancel_future", cancel_future),
    *api_training.routes,
    *api_sampling.routes,
    *files.routes,
    *account.routes,
]
