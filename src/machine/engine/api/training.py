"""Training in Tinker's API: models, batches, optimiser steps, checkpoints saved and loaded.

Requests of one model run in the order of their `seq_id`. All of them answer with a request id at once.
"""

import contextlib
import functools

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from machine.engine.api.web import Endpoint, body_of, check_base_model, engine_of, post, promised
from machine.engine.checkpoints import CheckpointPath
from machine.engine.core import EPHEMERAL_SECONDS, Engine, Run, Session, modules_of
from machine.engine.faults import Busy, Fault, NotFound
from machine.engine.samplers import Source
from machine.engine.wire import requests as wire
from machine.engine.wire import training as wire_training
from machine.engine.work.futures import Answer

INFLIGHT = "inflight"
"""Name of the checkpoint that a model's in-flight samplers share."""


async def create_model(request: Request) -> Response:
    """A fresh LoRA adapter on the base model."""
    engine = engine_of(request)
    asked = wire.decode(await request.body(), wire.CreateModel)
    check_base_model(engine, asked.base_model)
    if asked.optimizer_config is not None:
        asked.optimizer_config.check()
    config = asked.lora_config or wire.LoraConfig()
    session = engine.session(asked.session_id)
    model_id = f"{session.id}:train:{asked.model_seq_id}"
    run = Run(model_id, config.rank, modules_of(config), wire.metadata(asked.user_metadata))
    return promised(engine.create(run, session, lambda: engine.do_create(run, config.seed)), model_id)


async def get_info(request: Request) -> Response:
    """What a model in training is."""
    engine = engine_of(request)
    run = engine.run(wire.decode(await request.body(), wire.OfModel).model_id)
    data = {"arch": engine.model.config.family, "model_name": engine.name, "tokenizer_id": str(engine.folder)}
    info = {"type": "get_info", "model_id": run.model_id, "model_name": engine.name, "model_data": data}
    return JSONResponse({**info, "is_lora": True, "lora_rank": run.rank})


async def forward_backward(request: Request) -> Response:
    """Loss and gradients of a batch, or log-probabilities only."""
    engine = engine_of(request)
    body = await body_of(request)
    asked = wire_training.decode_forward_backward(body)
    future = engine.train(asked.model_id, asked.seq_id, lambda: engine.do_forward_backward(asked), len(body))
    return promised(future, asked.model_id)


async def optim_step(request: Request) -> Response:
    """One step of Adam."""
    engine = engine_of(request)
    asked = wire.decode(await request.body(), wire.OptimStep)
    work = functools.partial(engine.do_optim_step, asked.model_id, asked.adam())
    return promised(engine.train(asked.model_id, asked.seq_id, work), asked.model_id)


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
    engine = engine_of(request)
    asked = wire.decode(await request.body(), wire.SaveWeights)
    if asked.age_encryption_recipients:
        raise Fault("age_encryption_recipients: this engine does not encrypt", next_step="encrypt the files yourself")
    run = engine.run(asked.model_id)
    session = engine.session(run.session_id)
    sampler = _new_sampler(asked, session) if kind == "sampler_weights" and asked.path is None else None
    path = CheckpointPath(run.model_id, kind, asked.path or _name(asked, sampler))
    ttl = asked.ttl_seconds if sampler is None else EPHEMERAL_SECONDS
    result = {"type": request.scope["path"].rpartition("/")[2], "path": str(path)}

    def save() -> Answer:
        if not asked.overwrite and _exists(engine, path):
            raise Fault(f"path: there is a checkpoint {path}", next_step="use another name, or overwrite")
        engine.do_save(run, path, wire.metadata(asked.user_metadata), ttl)
        if sampler is None:
            return Answer.json(result)
        source = engine.source(str(path))
        if asked.kind == "inflight":
            _renew(engine, session, source)
        engine.add_sampler(session, sampler, source)
        return Answer.json({**result, "sampling_session_id": sampler})

    return promised(engine.train(run.model_id, asked.seq_id, save), run.model_id)


def _new_sampler(asked: wire.SaveWeights, session: Session) -> str:
    if asked.sampling_session_seq_id is None:
        raise Fault("sampling_session_seq_id: a save without a path needs it")
    return f"{session.id}:sample:{asked.sampling_session_seq_id}"


def _name(asked: wire.SaveWeights, sampler: str | None) -> str:
    """What a checkpoint is called that was given no name."""
    if sampler is None:
        return f"{asked.seq_id:06d}"
    return INFLIGHT if asked.kind == "inflight" else f"ephemeral-{asked.sampling_session_seq_id}"


def _exists(engine: Engine, path: CheckpointPath) -> bool:
    try:
        return engine.checkpoints.folder(path).is_dir()
    except NotFound:
        return False


def _renew(engine: Engine, session: Session, source: Source) -> None:
    """Moves the in-flight samplers of a model on to the weights that have just been saved."""
    for id in list(session.samplers):
        if (known := engine.samplers.get(id)) is not None and known.path == source.path:
            engine.samplers[id] = source


async def load_weights(request: Request) -> Response:
    """A checkpoint into a model, or as a new one."""
    engine = engine_of(request)
    asked = wire.decode(await request.body(), wire.LoadWeights)
    wire.check_account(asked.weights_access_token, "weights_access_token")
    if asked.optimizer_config is not None:
        asked.optimizer_config.check()
    path = CheckpointPath.parse(asked.path)
    if asked.model_id is not None:
        if asked.seq_id is None:
            raise Fault("seq_id: it is missing")
        run = engine.run(asked.model_id)
        work = functools.partial(engine.do_load, run, path, optimizer=asked.optimizer)
        return promised(engine.train(run.model_id, asked.seq_id, work), run.model_id)
    if asked.session_id is None or asked.model_seq_id is None:
        raise Fault("load_weights needs model_id and seq_id, or session_id and model_seq_id")
    if asked.base_model is not None:
        check_base_model(engine, asked.base_model)
    session = engine.session(asked.session_id)
    engine.checkpoints.folder(path)
    facts = engine.checkpoints.run(path.run)
    model_id = f"{session.id}:train:{asked.model_seq_id}"
    run = Run(model_id, facts["rank"], tuple(facts["modules"]), wire.metadata(asked.user_metadata))
    make = functools.partial(engine.do_create_from, run, path, optimizer=asked.optimizer)
    return promised(engine.create(run, session, make), model_id)


def _in_turn(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose requests have turns: one that fails at once gives its turn up, or those after it would wait."""

    @functools.wraps(endpoint)
    async def route(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Busy:
            raise  # the client will send it again
        except Exception:
            with contextlib.suppress(Fault):  # it cannot be read, has been done, or the client will send it again
                turn = wire_training.turn(await body_of(request), request.headers.get("content-type", ""))
                if turn is not None:
                    engine_of(request).train(turn.model_id, turn.seq_id, _nothing)
            raise

    return route


def _nothing() -> Answer:
    return Answer.failure("the request was refused", category="user")


routes = [
    post("create_model", create_model),
    post("get_info", get_info),
    post("forward_backward", _in_turn(forward_backward)),
    post("optim_step", _in_turn(optim_step)),
    post("save_weights", _in_turn(save_weights)),
    post("save_weights_for_sampler", _in_turn(save_weights_for_sampler)),
    post("save_weights_external", _in_turn(save_weights_external)),
    post("load_weights", _in_turn(load_weights)),
]
