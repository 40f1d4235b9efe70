"""Sampling in Tinker's API: samplers, and requests to them."""

import uuid

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from machine.engine.api.web import check_base_model, engine_of, post
from machine.engine.core import CHAT, Engine
from machine.engine.faults import NotFound
from machine.engine.samplers import Source
from machine.engine.wire import requests as wire
from machine.engine.wire import sampling as wire_sampling
from machine.engine.work.futures import PROTOBUF, Answer


async def create_sampling_session(request: Request) -> Response:
    """A sampler for the base model or a checkpoint."""
    engine = engine_of(request)
    asked = wire.decode(await request.body(), wire.CreateSamplingSession)
    session = engine.session(asked.session_id)
    sampler = f"{session.id}:sample:{asked.sampling_session_seq_id}"
    engine.add_sampler(session, sampler, _weights(engine, asked.base_model, asked.model_path))
    return JSONResponse({"type": "create_sampling_session", "sampling_session_id": sampler})


async def get_sampler(request: Request) -> Response:
    """Which weights a sampler answers with."""
    engine = engine_of(request)
    sampler = request.path_params["sampler"]
    path = _sampler(engine, sampler, "sampler_id").path
    model_path = None if path is None else str(path)
    return JSONResponse({"sampler_id": sampler, "base_model": engine.name, "model_path": model_path})


async def asample(request: Request) -> Response:
    """Samples of a prompt."""
    engine = engine_of(request)
    asked = wire.decode(await request.body(), wire_sampling.Sample)
    config = engine.model.config
    sampling = wire_sampling.sampling(asked, config.vocabulary, config.context, frozenset(config.end_tokens))
    if asked.sampling_session_id is None:
        owner, id = CHAT, str(uuid.uuid4())
        source = _weights(engine, asked.base_model, asked.model_path)
    else:
        owner, id = asked.sampling_session_id.partition(":")[0], asked.sampling_session_id
        source = _sampler(engine, id, "sampling_session_id")
    id = f"{id}:{uuid.uuid4() if asked.seq_id is None else asked.seq_id}"
    engine.sample(id, sampling.request, source, lambda _: Answer(sampling.encode(), PROTOBUF), owner)
    return JSONResponse({"request_id": id, "sample_sequence_ids": [f"{id}:{i}" for i in range(asked.num_samples)]})


def _weights(engine: Engine, base_model: str | None, model_path: str | None) -> Source:
    if model_path is None:
        check_base_model(engine, base_model)
    return engine.source(model_path)


def _sampler(engine: Engine, id: str, field: str) -> Source:
    if (source := engine.samplers.get(id)) is None:
        raise NotFound(f"{field}: there is no sampler {id!r}", next_step="create a sampling client first")
    return source


routes = [
    Route("/api/v1/samplers/{sampler:path}", get_sampler),
    post("create_sampling_session", create_sampling_session),
    post("asample", asample),
]
