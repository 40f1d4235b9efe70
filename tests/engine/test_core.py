import asyncio
import json
import os
import pickle
import threading
import types

import pytest
import torch

from machine.engine import core
from machine.engine import samplers as samplers_module
from machine.engine.checkpoints import CheckpointPath
from machine.engine.core import Engine, Run, Session
from machine.engine.faults import Fault, Gone, NotFound
from machine.engine.models.lora import ALL, ATTENTION, MODULES, UNEMBED
from machine.engine.samplers import Samplers
from machine.engine.sampling.decoding import Decoder
from machine.engine.sampling.requests import SampleRequest, SamplingParams
from machine.engine.training import trainer
from machine.engine.training.losses import Loss
from machine.engine.training.optimizer import AdamParams
from machine.engine.training.trainer import Datum
from machine.engine.work.futures import Answer
from machine.engine.work.intake import Limits

RUN = Run("session:train:0", 4, ALL, None)
PATH = CheckpointPath(RUN.model_id, "weights", "x")


@pytest.fixture
def engine(tiny_smollm, tmp_path):
    engine = Engine(tiny_smollm, tmp_path)
    add_session(engine, "session")
    yield engine
    if engine.busy:
        engine.stop()


def add_session(engine, name):
    engine.sessions[name] = Session(name, None, None)
    return engine.sessions[name]


def trained(engine, run=RUN, path=PATH):
    """A model after one step, and its checkpoint."""
    session = engine.session(run.session_id)
    engine.runs[run.model_id] = run
    session.models.append(run.model_id)
    engine.do_create(run, 0)
    trainee = engine._trainee(run.model_id)
    trainer.forward_backward(engine.model, trainee.lora, rows(), Loss("cross_entropy", {}), backward=True)
    trainee.step(AdamParams())
    engine.do_save(run, path, None, None)
    return trainee


def rows(count=2, length=16):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, 97, (count, length + 1), generator=generator)
    return [Datum(row[:-1].tolist(), row[1:], {"weights": torch.ones(length)}) for row in tokens]


def forward_backward(count=2):
    """A request as `wire` decodes it, its rows being ready."""
    return types.SimpleNamespace(model_id=RUN.model_id, loss=Loss("cross_entropy", {}), backward=True, rows=rows(count))


@pytest.fixture
def ready_rows(monkeypatch):
    monkeypatch.setattr(core.wire_training, "datums", lambda request, vocabulary, context: request.rows)


async def ask(engine, id, path=None, tokens=2, owner="chat"):
    request = SampleRequest([1], SamplingParams(tokens))
    future = engine.sample(id, request, engine.source(path), lambda done: Answer.json("done"), owner)
    return json.loads((await future.wait(20)).body)


@pytest.mark.parametrize("part", ["__init__", "admit", "step"])
def test_out_of_memory_fails_the_request_and_the_engine_goes_on(engine, monkeypatch, part):
    def no_memory(*given):
        raise MemoryError

    async def main():
        engine.start()
        with monkeypatch.context() as patch:
            patch.setattr(Decoder, part, no_memory)
            failed = await ask(engine, "a")
        assert (failed["category"], "out of memory" in failed["error"]) == ("user", True)
        assert await ask(engine, "b") == "done"

    asyncio.run(main())


def without_digests(engine):
    """The checkpoint as one who may write to it can make it, or as an older Machine saved it."""
    about = engine.checkpoints.folder(PATH) / "checkpoint.json"
    kept = json.loads(about.read_text())
    assert len(kept.pop("sha256")) == 3
    about.write_text(json.dumps(kept))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("adapter_model.safetensors", lambda data: data[:-10], "damaged"),
        ("adapter_model.safetensors", lambda data: b"\xff" * 64, "damaged"),
        ("adapter_model.safetensors", lambda data: data[:-4] + b"\x00\x00\xc0\x7f", "not finite"),
        ("adapter_model.safetensors", None, "adapter_model.safetensors is gone"),
        ("adapter_config.json", lambda data: b'{"r": ', "damaged"),
        ("adapter_config.json", lambda data: b"[1]", "damaged"),
        ("adapter_config.json", lambda data: data.replace(b'"r": 4', b'"r": 5'), "cannot be used"),
        ("adapter_config.json", lambda data: data.replace(b'"r": 4', b'"r": -4'), "ranks from 1 to 512"),
        ("adapter_config.json", lambda data: data.replace(b'"r": 4', b'"r": 1000000000'), "ranks from 1 to 512"),
        ("adapter_config.json", lambda data: data.replace(b'"r": 4', b'"r": "4"'), "ranks from 1 to 512"),
        ("adapter_config.json", lambda data: b'{"r": ' + b"[" * 100_000, "damaged"),
        ("adapter_model.safetensors", lambda data: (1 << 62).to_bytes(8, "little") + data[8:], "damaged"),
        ("adapter_model.safetensors", lambda data: data.replace(b'"F32"', b'"I32"'), "no floating-point numbers"),
        ("adapter_model.safetensors", lambda data: data.replace(b'"shape":[4,', b'"shape":[9,', 1), "damaged"),
        ("adapter_model.safetensors", lambda data: pickle.dumps(os.abort), "damaged"),
        ("adapter_config.json", lambda data: data.replace(b'"base_model_name_or_path": "', b'"base_model_name_or_path": "other/'), "adapter of other/"),
        ("optimizer.safetensors", lambda data: data[:-10], "damaged"),
        ("checkpoint.json", lambda data: b"[]", "damaged"),
    ],
)  # fmt: skip
def test_a_bad_checkpoint_is_an_error_that_names_it(engine, file, change, message):
    trainee = trained(engine)
    before = trainee.lora.weights_file()
    place = engine.checkpoints.folder(PATH) / file
    if change is None:
        place.unlink()
    else:
        place.write_bytes(change(place.read_bytes()))
        if file != "checkpoint.json":
            with pytest.raises(Fault, match="is not as it was saved"):
                engine.do_load(RUN, PATH, optimizer=True)
            without_digests(engine)
    with pytest.raises(Fault, match=message) as caught:
        engine.do_load(RUN, PATH, optimizer=True)
    assert str(PATH) in caught.value.message or "x/checkpoint.json" in caught.value.message
    assert engine._trainee(RUN.model_id) is trainee
    assert trainee.lora.weights_file() == before

    async def main():
        engine.start()
        return await ask(engine, "a", str(PATH))

    if file == "optimizer.safetensors":
        assert asyncio.run(main()) == "done"
    elif file != "checkpoint.json" and change is not None:
        assert asyncio.run(main())["category"] == "user"
    else:
        with pytest.raises(NotFound):
            asyncio.run(main())


def test_adapters_share_the_base_and_the_least_used_are_dropped_when_memory_is_full(engine, monkeypatch):
    trained(engine)
    paths = [CheckpointPath(RUN.model_id, "weights", name) for name in "abc"]
    for path in paths:
        engine.do_save(RUN, path, None, None)
    samplers = Samplers(engine.model, engine.checkpoints, engine.tokenizer.decode)
    base, name = samplers._loaded(engine.source(None))
    first, second, third = (engine.source(str(path)) for path in paths)
    run, weights = samplers._loaded(first)
    assert (name, run.model, run is base) == ("base", base.model, False)
    monkeypatch.setattr(samplers_module, "ADAPTER_BYTES", 2 * run.adapter_bytes)
    samplers._loaded(second)
    assert samplers._loaded(first) == (run, weights)
    samplers._loaded(third)
    assert list(samplers._adapted) == [first, third]
    monkeypatch.setattr(samplers_module, "ADAPTER_BYTES", 0)
    samplers._loaded(second)
    assert list(samplers._adapted) == [second]


def test_kernels_that_cannot_be_compiled_leave_the_engine_alive(engine, monkeypatch, caplog):
    def broken():
        raise OSError("no space left")

    async def main():
        with monkeypatch.context() as patch:
            patch.setattr(samplers_module.passes, "prepare", broken)
            engine.start()
            assert await ask(engine, "a") == "done"

    asyncio.run(main())
    assert "no space left" in caplog.text


@pytest.mark.parametrize(
    ("rank", "modules", "words"),
    [
        (8, ALL, "the model has rank 8"),
        (4, (*ATTENTION, UNEMBED), "train_mlp True, train_unembed True; the model has rank 4, train_attn True, train_mlp False"),
        (4, MODULES, "train_mlp True, train_unembed True; the model .* train_mlp True, train_unembed False"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_shape_is_refused(engine, rank, modules, words):
    trained(engine)
    with pytest.raises(Fault, match=rf"path: tinker://session:train:0/weights/x has rank 4.*{words}"):
        engine.do_load(Run("session:train:1", rank, modules, None), PATH, optimizer=False)


def test_a_checkpoint_without_an_unembedding_is_refused_by_a_model_with_one(engine):
    trained(engine, Run(RUN.model_id, 4, MODULES, None))
    with pytest.raises(Fault, match=r"train_unembed False; the model has .* train_unembed True"):
        engine.do_load(RUN, PATH, optimizer=False)


def learn(engine, model_id):
    """One more step of a model; what its adapter is then."""
    trainee = engine._trainee(model_id)
    trainer.forward_backward(engine.model, trainee.lora, rows(), Loss("cross_entropy", {}), backward=True)
    trainee.step(AdamParams(learning_rate=1e-3))
    return trainee.lora.parameters


@pytest.mark.parametrize("modules", [ALL, (UNEMBED,)])
def test_a_model_goes_on_bit_for_bit_where_its_checkpoint_was(engine, modules):
    run = Run(RUN.model_id, 4, modules, None)
    trainee = trained(engine, run)
    assert float(trainee.lora.parameters["unembed.B"].abs().sum()) > 0
    again = Run("session:train:1", 4, modules, None)
    engine.runs[again.model_id] = again
    engine.do_load(again, PATH, optimizer=True)
    for _ in range(2):
        first, second = (learn(engine, each.model_id) for each in (run, again))
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first)


def test_a_checkpoint_from_before_unembeddings_were_trained(engine):
    """It goes on as it was, is sampled from, and in a model with `train_unembed` the unembedding begins anew."""
    old = trained(engine, Run(RUN.model_id, 4, MODULES, None)).lora
    config = engine.checkpoints.folder(PATH) / "adapter_config.json"
    settings = json.loads(config.read_text())
    del settings["exclude_modules"]
    config.write_text(json.dumps(settings))
    without_digests(engine)
    facts = engine.checkpoints.run(RUN.model_id)
    same = Run("session:train:1", facts["rank"], facts["modules"], None)
    engine.runs[same.model_id] = same
    engine.do_create_from(same, PATH, optimizer=True)
    assert engine._trainee(same.model_id).lora.parameters.keys() == old.parameters.keys()

    new = Run("session:train:2", 4, ALL, None)
    engine.runs[new.model_id] = new
    with pytest.raises(Fault, match="not of this model") as caught:
        engine.do_load(new, PATH, optimizer=True)
    assert caught.value.next_step == "load the weights without it"
    engine.do_load(new, PATH, optimizer=False)
    lora = engine._trainee(new.model_id).lora
    assert all(torch.equal(lora.parameters[key], factor) for key, factor in old.parameters.items())
    assert lora.modules == ALL
    assert not lora.parameters["unembed.B"].any()
    assert float(learn(engine, new.model_id)["unembed.B"].detach().abs().sum()) > 0

    async def main():
        engine.start()
        assert await ask(engine, "a", str(PATH)) == "done"

    asyncio.run(main())


def test_create_sent_again_after_its_answer_is_forgotten_resets_nothing(engine):
    trainee = trained(engine)
    assert b"create_model" in engine.do_create(RUN, 1).body
    assert b"load_weights" in engine.do_create_from(RUN, PATH, optimizer=False).body
    assert engine._trainee(RUN.model_id) is trainee


def test_a_session_that_ends_frees_its_models_even_those_that_come_late(engine):
    trained(engine)
    session = engine.session("session")
    engine.end_session("session")
    engine.do_load(RUN, PATH, optimizer=False)
    engine.do_create(RUN, 0)
    engine.add_sampler(session, "session:sample:0", engine.source(None))
    assert (engine._trainees, engine.runs, engine.samplers) == ({}, {}, {})
    with pytest.raises(Gone):
        engine.session("session")


def test_a_silent_session_ends_and_one_that_trains_does_not(engine, monkeypatch):
    async def main():
        trained(engine)
        add_session(engine, "silent")
        for session in engine.sessions.values():
            session.last_seen -= core.IDLE_SECONDS + 1
        engine.train(RUN.model_id, 1, lambda: Answer.json(1))
        engine.tend()
        assert list(engine.sessions) == ["session"]

    asyncio.run(main())


def test_sampling_between_the_passes_of_a_batch_changes_no_gradient(engine, monkeypatch, ready_rows):
    monkeypatch.setattr(trainer, "MICRO_BATCH", 16)
    trainee = trained(engine)

    def gradient():
        found = {key: p.grad.clone() for key, p in trainee.lora.parameters.items()}
        for parameter in trainee.lora.parameters.values():
            parameter.grad = None
        return found

    engine.do_forward_backward(forward_backward(12))
    alone = gradient()
    passes, asked = [], threading.Event()
    step, walk = Decoder.step, trainer._Batch._pass

    def seen(self, *given):
        passes.append("pass")
        asked.wait(5)
        return walk(self, *given)

    monkeypatch.setattr(trainer._Batch, "_pass", seen)
    monkeypatch.setattr(Decoder, "step", lambda self: passes.append("token") or step(self))

    async def main():
        engine.start()
        future = engine.train(RUN.model_id, 1, lambda: engine.do_forward_backward(forward_backward(12)))
        answers = [asyncio.create_task(ask(engine, id, path, 8)) for id, path in (("a", None), ("b", str(PATH)))]
        await asyncio.sleep(0.05)
        asked.set()
        await future.wait(20)
        assert await asyncio.gather(*answers) == ["done", "done"]

    asyncio.run(main())
    first, last = passes.index("pass"), len(passes) - passes[::-1].index("pass")
    assert "token" in passes[first:last]
    shared = gradient()
    assert all(torch.equal(alone[key], shared[key]) for key in alone)


def test_a_batch_of_an_ended_session_stops_and_leaves_nothing(engine, monkeypatch, ready_rows):
    monkeypatch.setattr(trainer, "MICRO_BATCH", 16)
    trainee = trained(engine)
    begun = threading.Event()
    walk = trainer._Batch._pass
    passes = []

    def seen(self, *given):
        passes.append(1)
        begun.set()
        return walk(self, *given)

    monkeypatch.setattr(trainer._Batch, "_pass", seen)

    async def main():
        engine.start()
        request = forward_backward(400)
        future = engine.train(RUN.model_id, 1, lambda: engine.do_forward_backward(request))
        waiting = engine.train(RUN.model_id, 2, lambda: engine.do_forward_backward(request))
        await asyncio.to_thread(begun.wait, 5)
        engine.end_session("session")
        for each in (future, waiting):
            assert b"the session has ended" in (await each.wait(5)).body
        assert await ask(engine, "a") == "done"

    asyncio.run(main())
    engine.stop()  # the batch may have let the sample in before it stopped
    assert len(passes) < 400
    assert all(parameter.grad is None for parameter in trainee.lora.parameters.values())
    assert engine._trainees == {}


def test_limits_are_the_callers_to_choose(tiny_smollm, tmp_path):
    assert Engine(tiny_smollm, tmp_path, limits=Limits(open=1)).futures.limits.open == 1
