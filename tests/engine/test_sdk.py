"""The unmodified Tinker SDK against the running engine."""

import json
import time

import pytest
import torch
from tinker._exceptions import APIStatusError, NotFoundError

from tinker import AdamParams, Datum, ModelInput, RequestFailedError, RestClient, SamplingParams, ServiceClient

QUESTION = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
ANSWER = "ANSWER: Paris.<|im_end|>\n"


@pytest.fixture(scope="module")
def service(engine):
    client = ServiceClient(base_url=engine.url, api_key=engine.key)
    yield client
    client.close("success").result()


@pytest.fixture(scope="module")
def rest(engine):
    return RestClient(base_url=engine.url, api_key=engine.key)


@pytest.fixture(scope="module")
def tokenizer(engine):
    from machine.renderers import load_tokenizer

    return load_tokenizer(str(engine.model_path))


@pytest.fixture(scope="module")
def trained(service, engine, tokenizer):
    """A client after a few steps on one answer, and its datum."""
    client = service.create_lora_training_client(engine.model, rank=8, seed=1, user_metadata={"a": "b"}).result()
    row = tokenizer.encode(QUESTION + ANSWER)
    weights = [0.0] * len(tokenizer.encode(QUESTION)) + [1.0] * len(tokenizer.encode(ANSWER))
    datum = Datum(
        model_input=ModelInput.from_ints(row[:-1]), loss_fn_inputs={"target_tokens": row[1:], "weights": weights[1:]}
    )
    losses = []
    for _ in range(4):
        output = client.forward_backward([datum], "cross_entropy")
        client.optim_step(AdamParams(learning_rate=2e-3, grad_clip_norm=1.0)).result()
        losses.append(output.result().metrics["loss:sum"])
    assert losses[-1] < 0.3 * losses[0]
    return client, datum


def loss(client, datum):
    return client.forward([datum], "cross_entropy").result().metrics["loss:sum"]


def ask(sampler, tokenizer, prompt=QUESTION, count=1, **params):
    given = SamplingParams(**{"max_tokens": 12, "temperature": 0.0, "stop": [tokenizer.eos_token_id]} | params)
    return sampler.sample(ModelInput.from_ints(tokenizer.encode(prompt)), count, given).result().sequences


def test_what_there_is(rest, engine, trained):
    [model] = rest.get_server_capabilities().result().supported_models
    assert (model.model_name, model.max_context_length) == (engine.model, 8192)
    info = trained[0].get_info()
    assert (info.lora_rank, info.model_data.tokenizer_id) == (8, str(engine.model_path))
    assert len(trained[0].get_tokenizer().encode("123")) == 3


def test_policy_losses_and_custom_loss(trained):
    client, datum = trained
    old = client.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data
    inputs = dict(datum.loss_fn_inputs)
    weights = inputs.pop("weights").data
    row = Datum(model_input=datum.model_input, loss_fn_inputs={**inputs, "logprobs": old, "advantages": weights})
    for name in ("importance_sampling", "ppo"):
        value = client.forward_backward([row], name).result().metrics["loss:sum"]
        assert value == pytest.approx(-sum(weights), rel=1e-4)
    for name in ("cispo", "dro"):
        assert client.forward_backward([row], name).result().loss_fn_outputs[0]["logprobs"].shape == [len(weights)]
    custom = client.forward_backward_custom([datum], lambda _, logp: (-(logp[0] * torch.tensor(weights)).sum(), {}))
    assert custom.result().metrics["loss:sum"] == pytest.approx(loss(client, datum), rel=1e-4)
    client.optim_step(AdamParams(learning_rate=0.0)).result()


def test_resume_is_bit_for_bit_the_same_as_not_stopping(service, trained):
    client, datum = trained
    saved = client.save_state("resume", user_metadata={"x": "1"}).result().path
    resumed = service.create_training_client_from_state_with_optimizer(saved).result()
    for each in (client, resumed):
        for _ in range(2):
            each.forward_backward([datum], "cross_entropy").result()
            each.optim_step(AdamParams(learning_rate=1e-3)).result()
    logprobs = [each.forward([datum], "cross_entropy").result().loss_fn_outputs[0] for each in (client, resumed)]
    assert list(logprobs[0]["logprobs"].data) == list(logprobs[1]["logprobs"].data)
    weights_only = service.create_training_client_from_state(saved).result()
    assert loss(weights_only, datum) != loss(client, datum)
    assert weights_only.get_info().lora_rank == 8


def test_base_and_checkpoint_cannot_be_mixed_up(service, engine, trained, tokenizer, rest):
    path = trained[0].save_weights_for_sampler("mine").result().path
    base = service.create_sampling_client(base_model=engine.model).result()
    mine = service.create_sampling_client(model_path=path).result()
    fresh = trained[0].save_weights_and_get_sampling_client().result()
    answers = [tokenizer.decode(ask(sampler, tokenizer)[0].tokens) for sampler in (base, mine, fresh)]
    assert answers[0].startswith("The capital of France is Paris.")
    assert answers[1] == answers[2] == ANSWER.strip()
    named = [rest.get_sampler(sampler._sampling_session_id).result().model_path for sampler in (base, mine)]
    assert named == [None, path]


def test_sampling_options(service, engine, tokenizer):
    sampler = service.create_sampling_client(base_model=engine.model).result()
    seeded = [ask(sampler, tokenizer, count=3, temperature=1.0, seed=4) for _ in range(2)]
    texts = [[list(sequence.tokens) for sequence in sequences] for sequences in seeded]
    assert texts[0] == texts[1]
    assert texts[0][0] != texts[0][1]
    assert "capital" in tokenizer.decode(ask(sampler, tokenizer, stop=["capital"])[0].tokens)
    prompt = ModelInput.from_ints(tokenizer.encode(QUESTION))
    params = SamplingParams(max_tokens=3, temperature=0.0)
    answer = sampler.sample(
        prompt, 1, params, include_prompt_logprobs=True, topk_prompt_logprobs=2, topk_sample_logprobs=2
    ).result()
    assert answer.prompt_logprobs[0] is None
    assert len(answer.prompt_logprobs) == len(answer.topk_prompt_logprobs) == prompt.length
    sequence = answer.sequences[0]
    assert sequence.topk_logprobs[0][0] == pytest.approx((sequence.tokens[0], sequence.logprobs[0]), abs=1e-4)
    scores = sampler.compute_logprobs(prompt).result()
    assert scores[1:] == pytest.approx(answer.prompt_logprobs[1:], abs=1e-4)


def test_concurrent_requests_share_the_work(service, engine, tokenizer):
    sampler = service.create_sampling_client(base_model=engine.model).result()
    prompts = [QUESTION.replace("France", country) for country in ("Italy", "Spain", "Japan", "Peru")]
    inputs = [ModelInput.from_ints(tokenizer.encode(prompt)) for prompt in prompts]
    params = SamplingParams(max_tokens=16, temperature=0.0, stop=[])
    began = time.monotonic()
    alone = [list(sampler.sample(each, 1, params).result().sequences[0].tokens) for each in inputs]
    one_by_one = time.monotonic() - began
    began = time.monotonic()
    futures = [sampler.sample(each, 1, params) for each in inputs]
    assert [list(future.result().sequences[0].tokens) for future in futures] == alone
    assert time.monotonic() - began < one_by_one


def test_rest(service, engine, trained, rest):
    client, _ = trained
    saved = client.save_state("listed", ttl_seconds=7200).result().path
    run = rest.get_training_run(client.model_id).result()
    assert (run.lora_rank, run.last_checkpoint.tinker_path, run.user_metadata) == (8, saved, {"a": "b"})
    assert client.model_id in [r.training_run_id for r in rest.list_training_runs().result().training_runs]
    [found] = [c for c in rest.list_checkpoints(client.model_id).result().checkpoints if c.tinker_path == saved]
    assert found.expires_at is not None
    rest.set_checkpoint_ttl_from_tinker_path(saved, None).result()
    info = rest.get_weights_info_by_tinker_path(saved).result()
    assert (info.base_model, info.lora_rank, info.train_attn, info.train_unembed) == (engine.model, 8, True, False)
    rest.delete_checkpoint_from_tinker_path(saved).result()
    assert saved not in [c.tinker_path for c in rest.list_user_checkpoints().result().checkpoints]
    assert client.model_id in rest.get_session(client.model_id.partition(":")[0]).result().training_run_ids


def test_a_saved_adapter_loads_in_peft(engine, trained, tokenizer):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    client, datum = trained
    path = client.save_weights_external("peft").result().path
    folder = engine.home / "checkpoints" / path.removeprefix("tinker://")
    assert {file.suffix for file in folder.iterdir()} == {".json", ".safetensors"}
    base = AutoModelForCausalLM.from_pretrained(engine.model_path, dtype=torch.float32)
    with torch.no_grad():
        tokens = torch.tensor([datum.model_input.to_ints()])
        logp = PeftModel.from_pretrained(base, str(folder))(tokens).logits[0].log_softmax(-1)
    targets = torch.tensor(datum.loss_fn_inputs["target_tokens"].data)
    theirs = logp.gather(1, targets[:, None])[:, 0]
    ours = client.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].to_torch()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_user_faults_are_errors_at_once(service, engine, trained, tokenizer):
    client, datum = trained
    began = time.monotonic()
    long = Datum(
        model_input=ModelInput.from_ints([5] * 9000),
        loss_fn_inputs={"target_tokens": [5] * 9000, "weights": [1.0] * 9000},
    )
    with pytest.raises(RequestFailedError, match="9000 tokens"):
        client.forward_backward([long], "cross_entropy").result()
    with pytest.raises(RequestFailedError, match="no gradient"):
        client.optim_step(AdamParams()).result()
    with pytest.raises(NotFoundError, match="no checkpoint"):
        service.create_sampling_client(model_path="tinker://nope/sampler_weights/x").result()
    with pytest.raises(Exception, match="not here"):
        service.create_lora_training_client("Qwen/Qwen3-8B", rank=8).result()
    sampler = service.create_sampling_client(base_model=engine.model).result()
    with pytest.raises(Exception, match="do not fit"):
        ask(sampler, tokenizer, max_tokens=9000)
    assert time.monotonic() - began < 20
    assert loss(client, datum) > 0


def test_requests_out_of_order_and_resent(engine):
    """What the SDK does under load, by hand: chunk 2 first, each of them twice."""
    _, session = engine.request("POST", "/api/v1/create_session", {})
    model = {"session_id": session["session_id"], "model_seq_id": 0, "base_model": engine.model}
    model |= {"lora_config": {"rank": 4}}
    _, created = engine.request("POST", "/api/v1/create_model", model)
    assert engine.request("POST", "/api/v1/create_model", model)[1] == created
    save = {"model_id": created["model_id"], "path": "x"}
    requests = [engine.request("POST", "/api/v1/save_weights", save | {"seq_id": n})[1] for n in (2, 2, 1, 1)]
    assert requests[0] == requests[1] != requests[2] == requests[3]
    for request in requests:
        status, result = engine.request("POST", "/api/v1/retrieve_future", {"request_id": request["request_id"]})
        assert (status, result["path"]) == (200, f"tinker://{created['model_id']}/weights/x")
    meta = json.loads((engine.home / "checkpoints" / created["model_id"] / "run.json").read_text())
    assert meta["rank"] == 4
    assert engine.request("POST", f"/api/v1/sessions/{session['session_id']}/finish")[0] == 204
    assert engine.request("POST", "/api/v1/session_heartbeat", {"session_id": session["session_id"]})[0] == 410
    assert engine.request("POST", "/api/v1/get_info", {"model_id": created["model_id"]})[0] == 404


@pytest.mark.filterwarnings("ignore:DEPRECATED")
def test_a_request_that_was_refused_does_not_hold_up_the_next(service, engine, trained):
    _, datum = trained
    client = service.create_lora_training_client(engine.model, rank=4).result()
    refused = (
        lambda: client.forward_backward([datum], "no_such_loss"),
        lambda: client.optim_step(AdamParams(learning_rate=-1.0)),
        lambda: client.save_state("no good name"),
        lambda: client.load_state("tinker://nowhere"),
    )
    for ask_for in refused:
        with pytest.raises(APIStatusError):
            ask_for().result(timeout=20)
    assert client.forward([datum], "cross_entropy").result(timeout=20)
