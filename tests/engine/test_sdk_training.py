"""The unmodified SDK's ServiceClient and TrainingClient against the running engine."""

import json
import time
from types import SimpleNamespace

import pytest
import torch
import zstandard
from safetensors.torch import load_file
from sdk_parts import PATIENCE, ask, call, call_async, loss, methods, row
from tinker._exceptions import APIStatusError, NotFoundError
from tinker.resources import training
from tinker.types.optimizer import DimuonParams

from machine.engine.checkpoints import WEIGHTS
from tinker import AdamParams, Datum, ModelInput, RequestFailedError, ServiceClient, TrainingClient

pytestmark = pytest.mark.filterwarnings("ignore:DEPRECATED")


@pytest.fixture(scope="module")
def datum(tokenizer):
    return row(tokenizer)


@pytest.fixture(scope="module")
def trained(service, engine, datum):
    """A client after a few steps on one answer."""
    client = service.create_lora_training_client(engine.model, rank=8, seed=1, user_metadata={"a": "b"}).result()
    losses = []
    for _ in range(4):
        output = client.forward_backward([datum], "cross_entropy")
        client.optim_step(AdamParams(learning_rate=2e-3, grad_clip_norm=1.0)).result()
        losses.append(output.result().metrics["loss:sum"])
    assert losses[-1] < 0.3 * losses[0]
    return client


@pytest.fixture(scope="module")
def scene(service, trained, datum, engine):
    """What the calls below are made with."""

    def likelihood(logprobs, weights):
        total = -(logprobs * weights).sum()
        return total, {"custom/likelihood:sum": total}

    made = service.create_custom_loss(likelihood, input_ranks={"logprobs": 1, "weights": 1}).result()
    saved = trained.save_state("scene").result().path
    return SimpleNamespace(data=[datum], loss=made, saved=saved, model=engine.model, names=iter("abcdefghij"))


STEP = AdamParams(learning_rate=0.0)
TRAINING = {
    "forward": lambda s: (s.data, "cross_entropy"),
    "forward_backward": lambda s: (s.data, "cross_entropy"),
    "forward_backward_custom": lambda s: (s.data, s.loss),
    "optim_step": lambda s: (STEP,),
    "save_state": lambda s: (next(s.names),),
    "save_weights_for_sampler": lambda s: ("sampled",),
    "save_weights_external": lambda s: ("external",),
    "save_weights_and_get_sampling_client": lambda s: (),
    "load_state": lambda s: (s.saved,),
    "load_state_with_optimizer": lambda s: (s.saved,),
    "create_sampling_client": lambda s: (s.saved,),
    "get_info": lambda s: (),
    "get_tokenizer": lambda s: (),
    "get_console_url": lambda s: (),
}
SERVICE = {
    "create_lora_training_client": lambda s: (s.model, 4),
    "create_training_client_from_state": lambda s: (s.saved,),
    "create_training_client_from_state_with_optimizer": lambda s: (s.saved,),
    "create_sampling_client": lambda s: (s.saved,),
    "create_custom_loss": lambda s: (lambda logprobs: (logprobs.sum() * 2.0, {}), {"logprobs": 1}),
    "copy_weights": lambda s: (s.saved,),
    "get_server_capabilities": lambda s: (),
    "get_console_url": lambda s: (),
    "create_rest_client": lambda s: (),
}


@pytest.mark.parametrize("name", methods(TrainingClient))
def test_every_method_of_a_training_client(trained, scene, name):
    for way in (call, call_async) if hasattr(TrainingClient, f"{name}_async") else (call,):
        trained.forward_backward(scene.data, "cross_entropy")  # a gradient for `optim_step`
        assert way(trained, name, *TRAINING[name](scene)) is not None


@pytest.mark.parametrize("name", [name for name in methods(ServiceClient) if name != "close"])
def test_every_method_of_a_service_client(service, scene, name, monkeypatch):
    monkeypatch.setattr(service, "_project_id", "a-project")
    for way in (call, call_async) if hasattr(ServiceClient, f"{name}_async") else (call,):
        assert way(service, name, *SERVICE[name](scene)) is not None


def test_closing_ends_the_session_and_its_models(engine, datum):
    client = ServiceClient(base_url=engine.url, api_key=engine.key, project_id="p", user_metadata={"a": "b"})
    trainer = client.create_lora_training_client(engine.model, rank=4).result()
    client.close("success").result()
    session = trainer.model_id.partition(":")[0]
    assert engine.request("GET", f"/api/v1/sessions/{session}")[0] == 410
    assert engine.request("POST", "/api/v1/session_heartbeat", {"session_id": session})[0] == 410
    assert engine.request("POST", "/api/v1/get_info", {"model_id": trainer.model_id})[0] == 404


def test_what_the_clients_are_told(trained, engine):
    info = trained.get_info()
    assert (info.lora_rank, info.model_data.tokenizer_id) == (8, str(engine.model_path))
    assert len(trained.get_tokenizer().encode("123")) == 3


def test_policy_losses_and_custom_losses(trained, datum, scene):
    old = trained.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data
    inputs = dict(datum.loss_fn_inputs)
    weights = inputs.pop("weights").data
    policy = Datum(model_input=datum.model_input, loss_fn_inputs={**inputs, "logprobs": old, "advantages": weights})
    for name in ("importance_sampling", "ppo"):
        value = trained.forward_backward([policy], name).result().metrics["loss:sum"]
        assert value == pytest.approx(-sum(weights), rel=1e-4)
    for name in ("cispo", "dro"):
        assert trained.forward_backward([policy], name).result().loss_fn_outputs[0]["logprobs"].shape == [len(weights)]
    clip = {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}
    assert trained.forward_backward([policy], "ppo", clip).result().metrics["loss:sum"] < 0
    expected = pytest.approx(loss(trained, datum), rel=1e-4)
    for custom in (scene.loss, lambda _, logp: (-(logp[0] * torch.tensor(weights)).sum(), {"seen:sum": 1.0})):
        assert trained.forward_backward_custom([datum], custom).result().metrics["loss:sum"] == expected
    trained.optim_step(STEP).result()


@pytest.mark.parametrize("filled", [0.2, 1.0])
def test_several_weighted_targets_a_token(trained, datum, filled):
    """The loss of top-k targets, sent sparse or dense, is that of its columns one by one; rows of one target go along."""
    n, k = datum.model_input.length, 5
    targets = torch.where(torch.rand(n, k) < filled, torch.randint(5, 40_000, (n, k)), 0)
    weights = torch.where(targets > 0, torch.rand(n, k), 0.0)
    many = Datum(model_input=datum.model_input, loss_fn_inputs={"target_tokens": targets, "weights": weights})
    output = trained.forward([many, datum, many], "cross_entropy").result()
    logprobs = [out["logprobs"].to_torch() for out in output.loss_fn_outputs]
    assert [each.shape for each in logprobs] == [(n, k), (n,), (n, k)]
    columns = [
        Datum(
            model_input=datum.model_input,
            loss_fn_inputs={"target_tokens": targets[:, i].contiguous(), "weights": weights[:, i].contiguous()},
        )
        for i in range(k)
    ]
    one_by_one = trained.forward(columns, "cross_entropy").result().loss_fn_outputs
    expected = torch.stack([out["logprobs"].to_torch() for out in one_by_one], dim=1)
    torch.testing.assert_close(logprobs[0], expected, rtol=1e-4, atol=1e-4)
    total = float(-(logprobs[0] * weights).sum())
    assert output.metrics["loss:sum"] == pytest.approx(2 * total + loss(trained, datum), rel=1e-4)
    learnt = trained.forward_backward([many], "cross_entropy").result()
    assert learnt.metrics["loss:sum"] == pytest.approx(total, rel=1e-4)
    trained.optim_step(STEP).result()


def test_resume_is_bit_for_bit_the_same_as_not_stopping(service, trained, datum):
    saved = trained.save_state("resume", user_metadata={"x": "1"}).result().path
    resumed = service.create_training_client_from_state_with_optimizer(saved).result()
    for each in (trained, resumed):
        for _ in range(2):
            each.forward_backward([datum], "cross_entropy").result()
            each.optim_step(AdamParams(learning_rate=1e-3)).result()
    logprobs = [each.forward([datum], "cross_entropy").result().loss_fn_outputs[0] for each in (trained, resumed)]
    assert list(logprobs[0]["logprobs"].data) == list(logprobs[1]["logprobs"].data)
    weights_only = service.create_training_client_from_state(saved).result()
    assert loss(weights_only, datum) != loss(trained, datum)
    assert weights_only.get_info().lora_rank == 8


def test_a_saved_adapter_loads_in_peft(engine, trained, datum):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    path = trained.save_weights_external("peft").result().path
    folder = engine.home / "checkpoints" / path.removeprefix("tinker://")
    assert {file.suffix for file in folder.iterdir()} == {".json", ".safetensors"}
    base = AutoModelForCausalLM.from_pretrained(engine.model_path, dtype=torch.float32)
    with torch.no_grad():
        tokens = torch.tensor([datum.model_input.to_ints()])
        logp = PeftModel.from_pretrained(base, str(folder))(tokens).logits[0].log_softmax(-1)
    targets = torch.tensor(datum.loss_fn_inputs["target_tokens"].data)
    theirs = logp.gather(1, targets[:, None])[:, 0]
    ours = trained.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].to_torch()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("part", ["attn", "mlp", "unembed"])
def test_the_parts_that_are_asked_for_are_those_that_are_trained(service, engine, rest, datum, part):
    parts = {f"train_{name}": name == part for name in ("attn", "mlp", "unembed")}
    client = service.create_lora_training_client(engine.model, rank=4, seed=1, **parts).result()
    before = loss(client, datum)
    client.forward_backward_custom([datum], lambda _, logp: (-logp[0].sum(), {})).result()
    client.optim_step(AdamParams(learning_rate=1e-2)).result()
    assert loss(client, datum) < before - 1.0
    path = client.save_weights_external(part).result().path
    info = rest.get_weights_info_by_tinker_path(path).result()
    assert {name: getattr(info, name) for name in parts} == parts
    folder = engine.home / "checkpoints" / path.removeprefix("tinker://")
    names = {"attn": "self_attn", "mlp": "mlp", "unembed": "lm_head"}
    assert all(f".{names[part]}." in name for name in load_file(folder / WEIGHTS))


def test_chunks_travel_compressed_and_in_parallel_and_come_back_in_order(service, trained, monkeypatch):
    """The SDK sends a large batch in pieces, the first one last; here each piece holds three rows."""
    config, compressed = service.holder.get_client_config(), []

    class Compressor:
        def __init__(self):
            self.real = zstandard.ZstdCompressor()

        def compress(self, data):
            if trained.model_id.encode() in data:  # not what a client of another test still sends anew
                compressed.append(len(data))
            return self.real.compress(data)

    monkeypatch.setattr(service.holder, "_client_config", config.model_copy(update={"fwdbwd_max_chunk_len": 3}))
    monkeypatch.setattr(training, "zstd", SimpleNamespace(ZstdCompressor=Compressor))
    assert config.parallel_fwdbwd_chunks
    rows = [
        Datum(model_input=ModelInput.from_ints([i + 5] * 4), loss_fn_inputs={"target_tokens": [i + 9] * 4})
        for i in range(10)
    ]
    outputs = trained.forward(rows, "cross_entropy").result().loss_fn_outputs
    assert len(compressed) == 4
    alone = [trained.forward([each], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data for each in rows]
    for output, expected in zip(outputs, alone, strict=True):
        assert list(output["logprobs"].data) == pytest.approx(list(expected), abs=1e-4)


def test_inflight_samplers_move_on_to_the_weights_saved_last(service, engine, trained, datum, tokenizer):
    client = service.create_lora_training_client(engine.model, rank=8, seed=1).result()
    inflight = client.save_weights_and_get_sampling_client(kind="inflight").result()
    snapshot = client.save_weights_and_get_sampling_client().result()
    before = list(ask(inflight, tokenizer)[0].tokens)
    for _ in range(4):
        client.forward_backward([datum], "cross_entropy")
        client.optim_step(AdamParams(learning_rate=2e-3))
    second = client.save_weights_and_get_sampling_client(kind="inflight").result()
    after = [list(ask(sampler, tokenizer)[0].tokens) for sampler in (inflight, second, snapshot)]
    assert after[0] == after[1] != before
    assert after[2] == before


def test_user_faults_are_errors_at_once(service, engine, trained, datum, tokenizer):
    began = time.monotonic()
    long = Datum(model_input=ModelInput.from_ints([5] * 9000), loss_fn_inputs={"target_tokens": [5] * 9000})
    with pytest.raises(RequestFailedError, match="9000 tokens"):
        trained.forward_backward([long], "cross_entropy").result()
    with pytest.raises(RequestFailedError, match="no gradient"):
        trained.optim_step(AdamParams()).result()
    with pytest.raises(RequestFailedError, match="there is a checkpoint"):
        [trained.save_state("twice").result() for _ in range(2)]
    with pytest.raises(NotFoundError, match="no checkpoint"):
        service.create_sampling_client(model_path="tinker://nope/sampler_weights/x").result()
    with pytest.raises(Exception, match="not here"):
        service.create_lora_training_client("Qwen/Qwen3-8B", rank=8).result()
    sampler = service.create_sampling_client(base_model=engine.model).result()
    with pytest.raises(Exception, match="do not fit"):
        ask(sampler, tokenizer, max_tokens=9000)
    assert time.monotonic() - began < PATIENCE
    assert loss(trained, datum) > 0


def test_a_request_that_was_refused_does_not_hold_up_the_next(service, engine, datum):
    client = service.create_lora_training_client(engine.model, rank=4).result()
    refused = (
        lambda: client.forward_backward([datum], "no_such_loss"),
        lambda: client.optim_step(AdamParams(learning_rate=-1.0)),
        lambda: client.optim_step(DimuonParams(learning_rate=1.0)),
        lambda: client.save_state("no good name"),
        lambda: client.save_weights_external("x", age_encryption_recipients=["age1x"]),
        lambda: client.load_state("tinker://nowhere"),
    )
    for ask_for in refused:
        with pytest.raises(APIStatusError):
            ask_for().result(timeout=PATIENCE)
    assert client.forward([datum], "cross_entropy").result(timeout=PATIENCE)


def test_requests_out_of_order_and_resent(engine):
    """What the SDK does under load, by hand: the second first, each of them twice."""
    _, session = engine.request("POST", "/api/v1/create_session", {})
    model = {"session_id": session["session_id"], "model_seq_id": 0, "base_model": engine.model}
    model |= {"lora_config": {"rank": 4}}
    _, created = engine.request("POST", "/api/v1/create_model", model)
    assert engine.request("POST", "/api/v1/create_model", model)[1] == created
    save = {"model_id": created["model_id"], "path": "x", "overwrite": True}
    requests = [engine.request("POST", "/api/v1/save_weights", save | {"seq_id": n})[1] for n in (2, 2, 1, 1)]
    assert requests[0] == requests[1] != requests[2] == requests[3]
    for request in requests:
        status, result = engine.request("POST", "/api/v1/retrieve_future", {"request_id": request["request_id"]})
        assert (status, result["path"]) == (200, f"tinker://{created['model_id']}/weights/x")
    meta = json.loads((engine.home / "checkpoints" / created["model_id"] / "run.json").read_text())
    assert meta["rank"] == 4
    assert engine.request("POST", f"/api/v1/sessions/{session['session_id']}/finish")[0] == 204
