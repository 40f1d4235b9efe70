"""The unmodified SDK's SamplingClient against the running engine."""

import asyncio
import pickle
import time

import numpy as np
import pytest
import torch
from sdk_parts import ANSWER, QUESTION, ask, call, call_async, methods, row
from tinker.types import TensorData

from tinker import AdamParams, ModelInput, SamplingClient, SamplingParams


@pytest.fixture(scope="module")
def sampler(service, engine):
    return service.create_sampling_client(base_model=str(engine.model_path)).result()


@pytest.fixture(scope="module")
def prompt(tokenizer):
    return ModelInput.from_ints(tokenizer.encode(QUESTION))


CALLS = {
    "sample": lambda prompt: (prompt, 1, SamplingParams(max_tokens=2)),
    "compute_logprobs": lambda prompt: (prompt,),
    "get_base_model": lambda prompt: (),
    "get_tokenizer": lambda prompt: (),
    "get_sampler_handle": lambda prompt: (),
}


@pytest.mark.parametrize(
    "name", [n for n in methods(SamplingClient) if n not in ("create", "from_sampler_handle", "on_queue_state_change")]
)
def test_every_method(sampler, prompt, name):
    for way in (call, call_async) if hasattr(SamplingClient, f"{name}_async") else (call,):
        assert way(sampler, name, *CALLS[name](prompt)) is not None


def test_clones_in_other_processes_sample_too(sampler, tokenizer, engine):
    expected = list(ask(sampler, tokenizer)[0].tokens)
    by_handle = SamplingClient.from_sampler_handle(sampler.get_sampler_handle(), api_key=engine.key)
    for clone in (pickle.loads(pickle.dumps(sampler)), by_handle):
        assert list(ask(clone, tokenizer)[0].tokens) == expected


def test_base_and_checkpoint_cannot_be_mixed_up(service, engine, sampler, tokenizer, rest):
    client = service.create_lora_training_client(engine.model, rank=8, seed=1).result()
    for _ in range(4):
        client.forward_backward([row(tokenizer)], "cross_entropy")
        client.optim_step(AdamParams(learning_rate=2e-3))
    path = client.save_weights_for_sampler("mine").result().path
    mine = service.create_sampling_client(model_path=path).result()
    fresh = client.save_weights_and_get_sampling_client().result()
    answers = [tokenizer.decode(ask(each, tokenizer)[0].tokens) for each in (sampler, mine, fresh)]
    assert answers[0].startswith("The capital of France is Paris.")
    assert answers[1] == answers[2] == ANSWER.strip()
    named = [rest.get_sampler(each._sampling_session_id).result().model_path for each in (sampler, mine)]
    assert named == [None, path]


def test_seeds_and_stops(sampler, tokenizer):
    seeded = [ask(sampler, tokenizer, count=3, temperature=1.0, seed=4) for _ in range(2)]
    texts = [[list(sequence.tokens) for sequence in sequences] for sequences in seeded]
    assert texts[0] == texts[1]
    assert texts[0][0] != texts[0][1]
    assert len({sequence.sequence_id for sequences in seeded for sequence in sequences}) == 6
    assert "capital" in tokenizer.decode(ask(sampler, tokenizer, stop=["capital"])[0].tokens)
    assert ask(sampler, tokenizer, max_tokens=1)[0].stop_reason == "length"


def test_scores_of_prompt_and_answer(sampler, prompt):
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
    last = sampler.sample(prompt, 1, params, include_prompt_logprobs=True, prompt_logprobs_last_n=3).result()
    assert list(last.prompt_logprobs[:-3]) == [None] * (prompt.length - 3)
    assert list(last.prompt_logprobs[-3:]) == pytest.approx(answer.prompt_logprobs[-3:], abs=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
def test_scores_of_given_targets(sampler, prompt, sparse):
    """Where the target is the prompt's own next token, its score is the prompt's."""
    own = torch.tensor(prompt.to_ints()[1:])
    asked = torch.full((len(own), 4), -1)
    asked[:, 2] = own
    targets = TensorData.from_torch_sparse(asked, -1) if sparse else TensorData.from_torch(asked)
    assert (targets.sparse_crow_indices is not None) == sparse
    params = SamplingParams(max_tokens=1, temperature=0.0)
    answer = sampler.sample(prompt, 1, params, target_prompt_logprobs=targets, include_prompt_logprobs=True).result()
    found = answer.target_prompt_logprobs.to_numpy()
    np.testing.assert_allclose(found[:, 2], np.array(answer.prompt_logprobs[1:]), atol=1e-4)
    assert not found[:, [0, 1, 3]].any()


def test_alternatives_at_every_position_of_the_prompt(sampler, prompt):
    params = SamplingParams(max_tokens=1, temperature=0.0, seed=3)
    answer = sampler.sample(prompt, 1, params, prompt_alt_tokens_k=2, topk_prompt_logprobs=1).result()
    alternatives = answer.prompt_alt_tokens
    assert alternatives.tokens.shape == alternatives.logprobs.shape == [prompt.length - 1, 2]
    likeliest = [tops[0] for tops in answer.topk_prompt_logprobs[1:]]
    for drawn, logprobs, (token, logprob) in zip(
        alternatives.tokens.tolist(), alternatives.logprobs.tolist(), likeliest, strict=True
    ):
        assert drawn == [token, token]  # temperature 0
        assert logprobs == pytest.approx([logprob, logprob], abs=1e-4)


def test_concurrent_requests_share_the_work(sampler, tokenizer):
    prompts = [QUESTION.replace("France", country) for country in ("Italy", "Spain", "Japan", "Peru")]
    inputs = [ModelInput.from_ints(tokenizer.encode(prompt)) for prompt in prompts]
    params = SamplingParams(max_tokens=16, temperature=0.0, stop=[])
    alone = [list(sampler.sample(each, 1, params).result().sequences[0].tokens) for each in inputs]
    futures = [sampler.sample(each, 1, params) for each in inputs]
    assert [list(future.result().sequences[0].tokens) for future in futures] == alone


def test_a_sample_that_is_given_up_frees_its_slot(service, engine, sampler, prompt):
    """A thousand tokens take half a minute; the SDK tells the engine when nobody waits for them any more."""
    params = SamplingParams(max_tokens=1000, temperature=2.0, stop=[])

    async def give_up():
        task = asyncio.ensure_future(sampler.sample_async(prompt, 1, params))
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with pytest.warns(FutureWarning):
        asyncio.run(give_up())
    began = time.monotonic()
    service.create_lora_training_client(engine.model, rank=2).result()
    assert time.monotonic() - began < 15


def test_what_the_engine_does_not_do_is_named(service, engine, prompt):
    recording = service.create_sampling_client(base_model=engine.model, record_stability_info=True)
    with pytest.raises(Exception, match="record_stability_info"):
        recording.result().sample(prompt, 1, SamplingParams(max_tokens=1)).result()
