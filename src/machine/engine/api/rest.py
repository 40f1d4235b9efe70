"""Tinker's REST API: training runs, checkpoints, sessions. Reads the checkpoints folder, keeps nothing itself."""

import uuid
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from machine.engine import checkpoints
from machine.engine.api.web import CHECKPOINT, checkpoint_of, engine_of, post
from machine.engine.checkpoints import OPTIMIZER, CheckpointPath, Checkpoints
from machine.engine.faults import Fault
from machine.engine.models.lora import trained
from machine.engine.wire import requests as wire

MAX_PAGE = 1000
"""The `tinker` CLI asks for so many at a time, and takes fewer for the end of the list."""


async def training_runs(request: Request) -> Response:
    """The runs, latest first."""
    store = engine_of(request).checkpoints
    offset, limit = _page(request)
    names = await run_in_threadpool(store.runs)
    page = [await run_in_threadpool(_run, store, name) for name in names[offset : offset + limit]]
    return JSONResponse({"training_runs": page, "cursor": _cursor(offset, limit, len(names))})


async def training_run(request: Request) -> Response:
    """One run."""
    return JSONResponse(await run_in_threadpool(_run, engine_of(request).checkpoints, request.path_params["run"]))


async def run_checkpoints(request: Request) -> Response:
    """The checkpoints of one run, oldest first."""
    store, run = engine_of(request).checkpoints, request.path_params["run"]
    store.run(run)
    return JSONResponse({"checkpoints": await run_in_threadpool(store.of_run, run)})


async def all_checkpoints(request: Request) -> Response:
    """The checkpoints of all runs."""
    store = engine_of(request).checkpoints
    offset, limit = _page(request)
    found = await run_in_threadpool(store.all)
    return JSONResponse({"checkpoints": found[offset : offset + limit], "cursor": _cursor(offset, limit, len(found))})


async def delete_checkpoint(request: Request) -> Response:
    """Removes a checkpoint for good."""
    await run_in_threadpool(engine_of(request).checkpoints.delete, checkpoint_of(request))
    return Response(status_code=204)


async def publish(request: Request) -> Response:
    """Marks a checkpoint public or not; on this engine nobody else can see it either way."""
    engine_of(request).checkpoints.update(checkpoint_of(request), public=request.method == "POST")
    return Response(status_code=204)


async def set_ttl(request: Request) -> Response:
    """Says how long a checkpoint lives from now; null is for ever."""
    asked = wire.decode(await request.body(), wire.Ttl)
    engine_of(request).checkpoints.update(checkpoint_of(request), expires_at=checkpoints.expiry(asked.ttl_seconds))
    return Response(status_code=204)


async def copy_weights(request: Request) -> Response:
    """A copy of a checkpoint in a run of its own; a request that is sent again (by its idempotency key) makes one."""
    asked = wire.decode(await request.body(), wire.CopyWeights)
    wire.check_account(request.headers.get("x-tinker-weights-access-token"), "weights_access_token")
    engine, source = engine_of(request), CheckpointPath.parse(asked.source_path)
    if asked.session_id is not None:
        run = f"{engine.session(asked.session_id).id}:train:{asked.model_seq_id or 0}"
    else:
        run = str(uuid.uuid5(uuid.NAMESPACE_URL, request.headers.get("x-idempotency-key", uuid.uuid4().hex)))
    copy = CheckpointPath(run, source.kind, source.name)
    await run_in_threadpool(_copy, engine.checkpoints, source, copy, asked.ttl_seconds)
    return JSONResponse({"tinker_path": str(copy)})


def _copy(store: Checkpoints, source: CheckpointPath, copy: CheckpointPath, ttl: int | None) -> None:
    has_optimizer = (store.folder(source) / OPTIMIZER).is_file()
    about, facts = store.describe(source), store.run(source.run)
    files = store.read(source, optimizer=has_optimizer)
    meta = {"base_model": facts["base_model"], "user_metadata": about["user_metadata"]}
    store.save(copy, files, meta | {"expires_at": checkpoints.expiry(ttl)})
    store.save_run(copy.run, facts)


async def weights_info(request: Request) -> Response:
    """What a checkpoint is an adapter of."""
    engine = engine_of(request)
    path = CheckpointPath.parse(wire.decode(await request.body(), wire.WeightsInfo).tinker_path)
    engine.checkpoints.folder(path)
    facts = engine.checkpoints.run(path.run)
    info = {"base_model": facts["base_model"], "is_lora": True, "lora_rank": facts["rank"]}
    return JSONResponse(info | trained(facts["modules"]))


async def sessions(request: Request) -> Response:
    """The sessions that are alive, latest first."""
    offset, limit = _page(request)
    return JSONResponse({"sessions": list(engine_of(request).sessions)[::-1][offset : offset + limit]})


async def session(request: Request) -> Response:
    """What a session holds."""
    found = engine_of(request).session(request.path_params["session"])
    body = {"training_run_ids": found.models, "sampler_ids": found.samplers}
    return JSONResponse({**body, "user_metadata": found.metadata, "display_name": found.display_name})


def _run(store: Checkpoints, name: str) -> dict[str, Any]:
    facts, found = store.run(name), store.of_run(name)

    def last(kind: str) -> dict[str, Any] | None:
        return next((c for c in reversed(found) if c["checkpoint_type"] == kind), None)

    return {
        "training_run_id": name,
        "base_model": facts["base_model"],
        "model_owner": "local",
        "is_lora": True,
        "lora_rank": facts["rank"],
        "corrupted": False,
        "last_request_time": facts["time"],
        "last_checkpoint": last("training"),
        "last_sampler_checkpoint": last("sampler"),
        "user_metadata": facts["user_metadata"],
    }


def _page(request: Request) -> tuple[int, int]:
    try:
        offset, limit = (int(request.query_params.get(key, default)) for key, default in (("offset", 0), ("limit", 20)))
    except ValueError as error:
        raise Fault("offset and limit must be whole numbers") from error
    return max(0, offset), max(0, min(limit, MAX_PAGE))


def _cursor(offset: int, limit: int, total: int) -> dict[str, int]:
    return {"offset": offset, "limit": limit, "total_count": total}


routes = [
    Route("/api/v1/training_runs", training_runs),
    Route("/api/v1/training_runs/{run}", training_run),
    Route("/api/v1/training_runs/{run}/checkpoints", run_checkpoints),
    Route("/api/v1/checkpoints", all_checkpoints),
    Route(CHECKPOINT, delete_checkpoint, methods=["DELETE"]),
    Route(f"{CHECKPOINT}/publish", publish, methods=["POST", "DELETE"]),
    Route(f"{CHECKPOINT}/ttl", set_ttl, methods=["PUT"]),
    post("weights_info", weights_info),
    post("copy_weights", copy_weights),
    Route("/api/v1/sessions", sessions),
    Route("/api/v1/sessions/{session}", session),
]
