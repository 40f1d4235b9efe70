"""Tinker's API, as the SDK speaks it: JSON in, JSON out, and protobuf where the SDK wants it.

What takes time answers with a request id at once; `retrieve_future` holds the line until there is a result. A fault of
the client is a 4xx here, or `{error, category: "user"}` as the result: the SDK would repeat a 5xx for minutes.
"""

import contextlib
import functools
import uuid
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from machine.engine import wire
from machine.engine.checkpoints import CheckpointPath
from machine.engine.core import EPHEMERAL_SECONDS, Engine, Run, Session, modules_of
from machine.engine.faults import Fault, NotFound
from machine.engine.futures import PROTOBUF, Answer, Future
from machine.engine.sampling import SampleRequest, SamplingParams

HOLD_SECONDS = 25.0
"""How long `retrieve_future` holds the line; the SDK gives up at 45."""
DEFAULT_MAX_TOKENS = 512

CLIENT_CONFIG = {
    "pjwt_auth_enabled": False,
    "parallel_fwdbwd_chunks": True,
    "proto_compress_fwdbwd": False,
    "use_pyqwest_transport": True,
    "sample_enable_stuck_detection": False,
    "sample_max_concurrent_requests": 64,
}
DYNAMIC_CONFIG = {"refresh_interval_sec": 3600, "sample_cancel_enabled": True}


Endpoint = Callable[[Request], Awaitable[Response]]


def _engine(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


async def healthz(request: Request) -> Response:
    """Whether the engine answers; needs no key."""
    return JSONResponse({"status": "ok"})


async def client_config(request: Request) -> Response:
    """Flags for the SDK."""
    return JSONResponse(CLIENT_CONFIG)


async def client_dynamic_config(request: Request) -> Response:
    """Flags that the SDK asks for again and again."""
    return JSONResponse(DYNAMIC_CONFIG)


async def capabilities(request: Request) -> Response:
    """The one model that there is."""
    engine = _engine(request)
    model = {"model_name": engine.name, "max_context_length": engine.context, "trainable": True, "sampleable": True}
    return JSONResponse({"supported_models": [model]})


async def create_session(request: Request) -> Response:
    """Begins a client's session."""
    engine = _engine(request)
    asked = wire.decode(await request.body(), wire.CreateSession)
    engine.end_idle_sessions()
    session = Session(str(uuid.uuid4()), wire.metadata(asked.user_metadata), asked.display_name)
    engine.sessions[session.id] = session
    return JSONResponse({"type": "create_session", "session_id": session.id})


async def heartbeat(request: Request) -> Response:
    """A sign of life; 410 tells the client that its session is gone."""
    _engine(request).session(wire.decode(await request.body(), wire.OfSession).session_id)
    return JSONResponse({"type": "session_heartbeat"})


async def telemetry(request: Request) -> Response:
    """Accepted and dropped: the engine keeps no telemetry."""
    return JSONResponse({"status": "accepted"})


async def create_model(request: Request) -> Response:
    """A fresh LoRA adapter on the base model."""
    engine = _engine(request)
    asked = wire.decode(await request.body(), wire.CreateModel)
    if not engine.known_model(asked.base_model):
        raise Fault(f"base_model: {asked.base_model!r} is not here; this engine serves {engine.name}")
    config = asked.lora_config or wire.LoraConfig()
    session = engine.session(asked.session_id)
    model_id = f"{asked.session_id}:train:{asked.model_seq_id}"
    run = Run(model_id, config.rank, modules_of(config), wire.metadata(asked.user_metadata))
    if model_id not in engine.runs:
        engine.add_run(run, session)
    future = engine.futures.submit(f"{model_id}:create", lambda: engine.do_create(run, config.seed))
    return _accepted(future, model_id)


async def get_info(request: Request) -> Response:
    """What a model in training is."""
    engine = _engine(request)
    run = engine.run(wire.decode(await request.body(), wire.OfModel).model_id)
    data = {"arch": "llama", "model_name": engine.name, "tokenizer_id": str(engine.folder)}
    info = {"type": "get_info", "model_id": run.model_id, "model_name": engine.name, "model_data": data}
    return JSONResponse({**info, "is_lora": True, "lora_rank": run.rank})


async def forward_backward(request: Request) -> Response:
    """Loss and gradients of a batch, or log-probabilities only."""
    engine = _engine(request)
    asked = wire.decode_forward_backward(await _body(request))
    return _in_order(engine, asked.model_id, asked.seq_id, lambda: engine.do_forward_backward(asked))


async def _body(request: Request) -> bytes:
    body = await request.body()
    return wire.decompress(body) if request.headers.get("content-encoding") == "zstd" else body


async def optim_step(request: Request) -> Response:
    """One step of Adam."""
    engine = _engine(request)
    asked = wire.decode(await request.body(), wire.OptimStep)
    return _in_order(engine, asked.model_id, asked.seq_id, lambda: engine.do_optim_step(asked))


async def save_weights(request: Request) -> Response:
    """A checkpoint to go on from: adapter and optimiser state."""
    return await _save(request, "weights")


async def save_weights_external(request: Request) -> Response:
    """A checkpoint for use elsewhere: the adapter alone."""
    return await _save(request, "external_weights")


async def save_weights_for_sampler(request: Request) -> Response:
    """A checkpoint to sample from; without a name it lives for a day and comes with a sampler of its own."""
    return await _save(request, "sampler_weights")


async def _save(request: Request, kind: str) -> Response:
    engine = _engine(request)
    asked = wire.decode(await request.body(), wire.SaveWeights)
    run = engine.run(asked.model_id)
    named = asked.path or (f"{asked.seq_id:06d}" if kind != "sampler_weights" else None)
    path = CheckpointPath(run.model_id, kind, named or f"ephemeral-{asked.sampling_session_seq_id or asked.seq_id}")
    ttl = asked.ttl_seconds if named else EPHEMERAL_SECONDS
    session = engine.session(run.model_id.partition(":")[0])

    def save() -> Answer:
        engine.do_save(run, path, wire.metadata(asked.user_metadata), ttl)
        result = {"type": request.url.path.rpartition("/")[2], "path": str(path)}
        if named is None:
            sampler = f"{session.id}:sample:{asked.sampling_session_seq_id}"
            engine.samplers[sampler] = engine.source(str(path))
            session.samplers.append(sampler)
            result["sampling_session_id"] = sampler
        return Answer.json(result)

    return _in_order(engine, run.model_id, asked.seq_id, save)


async def load_weights(request: Request) -> Response:
    """A checkpoint into a model, or as a new one."""
    engine = _engine(request)
    asked = wire.decode(await request.body(), wire.LoadWeights)
    path = CheckpointPath.parse(asked.path)
    if asked.model_id is not None:
        run = engine.run(asked.model_id)
        return _in_order(
            engine, run.model_id, asked.seq_id, lambda: engine.do_load(run, path, optimizer=asked.optimizer)
        )
    if asked.session_id is None or asked.model_seq_id is None:
        raise Fault("load_weights needs model_id and seq_id, or session_id and model_seq_id")
    if asked.base_model is not None and not engine.known_model(asked.base_model):
        raise Fault(f"base_model: {asked.base_model!r} is not here; this engine serves {engine.name}")
    session = engine.session(asked.session_id)
    facts = engine.checkpoints.run(path.run)
    engine.checkpoints.folder(path)
    model_id = f"{asked.session_id}:train:{asked.model_seq_id}"
    run = Run(model_id, facts["rank"], tuple(facts["modules"]), wire.metadata(asked.user_metadata))
    if model_id not in engine.runs:
        engine.add_run(run, session)
    future = engine.futures.submit(f"{model_id}:create", lambda: engine.do_load(run, path, optimizer=asked.optimizer))
    return _accepted(future, model_id)


async def create_sampling_session(request: Request) -> Response:
    """A sampler for the base model or a checkpoint."""
    engine = _engine(request)
    asked = wire.decode(await request.body(), wire.CreateSamplingSession)
    session = engine.session(asked.session_id)
    if asked.model_path is None and not engine.known_model(asked.base_model):
        raise Fault(f"base_model: {asked.base_model!r} is not here; this engine serves {engine.name}")
    sampler = f"{asked.session_id}:sample:{asked.sampling_session_seq_id}"
    engine.samplers[sampler] = engine.source(asked.model_path)
    session.samplers.append(sampler)
    return JSONResponse({"type": "create_sampling_session", "sampling_session_id": sampler})


async def get_sampler(request: Request) -> Response:
    """Which weights a sampler answers with."""
    engine = _engine(request)
    sampler = request.path_params["sampler"]
    if (source := engine.samplers.get(sampler)) is None:
        raise NotFound(f"sampler_id: there is no sampler {sampler!r}")
    path = str(source.path) if source.path else None
    return JSONResponse({"sampler_id": sampler, "base_model": engine.name, "model_path": path})


async def asample(request: Request) -> Response:
    """Samples of a prompt."""
    engine = _engine(request)
    asked = wire.decode(await request.body(), wire.Sample)
    sample = sample_request(asked, engine)
    if asked.sampling_session_id is not None:
        if (source := engine.samplers.get(asked.sampling_session_id)) is None:
            raise NotFound(f"sampling_session_id: there is no sampler {asked.sampling_session_id!r}")
    else:
        if asked.model_path is None and not engine.known_model(asked.base_model):
            raise Fault(f"base_model: {asked.base_model!r} is not here; this engine serves {engine.name}")
        source = engine.source(asked.model_path)
    id = f"{asked.sampling_session_id or uuid.uuid4()}:{asked.seq_id}"
    future = engine.sample(id, sample, source, lambda done: Answer(wire.encode_sample(done), PROTOBUF))
    sequences = [f"{id}:{i}" for i in range(asked.num_samples)]
    return JSONResponse({"request_id": future.id, "sample_sequence_ids": sequences})


def sample_request(asked: wire.Sample, engine: Engine) -> SampleRequest:
    """The decoder's form of a wire request.

    Raises:
        Fault: a field is out of range, or asks for what the engine does not do.
    """
    for name in ("target_prompt_logprobs", "prompt_alt_tokens_k", "record_stability_info"):
        if getattr(asked, name):
            raise Fault(f"{name}: this engine does not do that")
    prompt = wire.prompt_tokens(asked.prompt, engine.model.config.vocabulary)
    given = asked.sampling_params
    room = engine.context - len(prompt)
    if room < (given.max_tokens or 0) or room < 1:
        raise Fault(
            f"prompt: {len(prompt)} tokens and max_tokens {given.max_tokens or 0} do not fit the context of "
            f"{engine.context}"
        )
    stops = [given.stop] if isinstance(given.stop, str) else given.stop
    ends = frozenset(engine.model.config.end_tokens) if stops is None else frozenset()
    params = SamplingParams(
        max_tokens=min(DEFAULT_MAX_TOKENS, room) if given.max_tokens is None else given.max_tokens,
        temperature=given.temperature,
        top_k=given.top_k,
        top_p=given.top_p,
        seed=given.seed,
        stop_tokens=ends | {stop for stop in stops or () if isinstance(stop, int)},
        stop_texts=tuple(stop for stop in stops or () if isinstance(stop, str)),
    )
    scored = bool(asked.prompt_logprobs) or asked.topk_prompt_logprobs > 0
    return SampleRequest(
        prompt,
        params,
        count=asked.num_samples,
        topk=asked.topk_sample_logprobs,
        score_from=max(1, len(prompt) - (asked.prompt_logprobs_last_n or len(prompt))) if scored else None,
        score_topk=asked.topk_prompt_logprobs,
    )


async def retrieve_future(request: Request) -> Response:
    """The result of a request, or 408 when it is not there yet."""
    engine = _engine(request)
    asked = wire.decode(await request.body(), wire.OfRequest)
    future = engine.futures.get(asked.request_id)
    answer = await future.wait(HOLD_SECONDS)
    if answer is None:
        body = {"type": "try_again", "request_id": future.id, "queue_state": "active"}
        return JSONResponse(body, status_code=408)
    engine.futures.fetched(future)
    return Response(answer.body, media_type=answer.media_type)


async def cancel_future(request: Request) -> Response:
    """Gives a request up: sampling stops at the next token, other work goes on."""
    engine = _engine(request)
    engine.futures.get(wire.decode(await request.body(), wire.OfRequest).request_id).cancelled = True
    return Response(status_code=204)


async def finish_session(request: Request) -> Response:
    """Ends a session and frees what it holds."""
    _engine(request).end_session(request.path_params["session"])
    return Response(status_code=204)


def _in_order(engine: Engine, model_id: str, seq_id: int | None, run: Callable[[], Answer]) -> Response:
    engine.run(model_id)
    if seq_id is None:
        raise Fault("seq_id: it is missing")
    return _accepted(engine.futures.submit(f"{model_id}:{seq_id}", run, order=model_id, seq=seq_id), model_id)


def _in_turn(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose requests have turns: one that fails at once gives its turn up, or those after it would wait."""

    @functools.wraps(endpoint)
    async def route(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception:
            turn = wire.turn(await _body(request), request.headers.get("content-type", ""))
            if turn is not None and turn.model_id in _engine(request).runs:
                with contextlib.suppress(Fault):  # it has been done, or the client will send it again
                    _in_order(_engine(request), turn.model_id, turn.seq_id, _nothing)
            raise

    return route


def _nothing() -> Answer:
    return Answer.failure("the request was refused", category="user")


def _accepted(future: Future, model_id: str) -> Response:
    return JSONResponse({"request_id": future.id, "model_id": model_id})


def _post(path: str, endpoint: Endpoint) -> Route:
    return Route(f"/api/v1/{path}", endpoint, methods=["POST"])


routes = [
    Route("/api/v1/healthz", healthz),
    Route("/api/v1/get_server_capabilities", capabilities),
    Route("/api/v1/samplers/{sampler:path}", get_sampler),
    _post("client/config", client_config),
    _post("client/dynamic_config", client_dynamic_config),
    _post("create_session", create_session),
    _post("session_heartbeat", heartbeat),
    _post("sessions/{session}/finish", finish_session),
    _post("telemetry", telemetry),
    _post("create_model", create_model),
    _post("get_info", get_info),
    _post("forward_backward", _in_turn(forward_backward)),
    _post("optim_step", _in_turn(optim_step)),
    _post("save_weights", _in_turn(save_weights)),
    _post("save_weights_for_sampler", _in_turn(save_weights_for_sampler)),
    _post("save_weights_external", _in_turn(save_weights_external)),
    _post("load_weights", _in_turn(load_weights)),
    _post("create_sampling_session", create_sampling_session),
    _post("asample", asample),
    _post("retrieve_future", retrieve_future),
    _post("cancel_future", cancel_future),
]
