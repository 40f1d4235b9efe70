import json

import pytest
import torch
from tinker.proto.response_conv import deserialize_sample_response

from machine.engine.faults import Fault
from machine.engine.sampling.requests import Draw
from machine.engine.wire import requests as wire
from machine.engine.wire import sampling as wire_sampling

TEXT = {"type": "encoded_text", "tokens": [1, 2, 3]}


def sampling(prompt=(TEXT,), params=(), vocabulary=10, context=16, **fields):
    body = {"prompt": {"chunks": list(prompt)}, "sampling_params": dict(params)} | fields
    asked = wire.decode(json.dumps(body).encode(), wire_sampling.Sample)
    return wire_sampling.sampling(asked, vocabulary, context, frozenset({9}))


def targets(data, shape, **fields):
    return {"data": data, "dtype": "int64", "shape": shape} | fields


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prompt": []}, "prompt: it has no tokens"),
        ({"prompt": [{"type": "image", "data": "x", "format": "png"}]}, "prompt: image chunks"),
        ({"prompt": [{"type": "encoded_text", "tokens": [10]}]}, "prompt: token 10"),
        ({"prompt": [{"type": "encoded_text", "tokens": [-1]}]}, "tokens"),
        ({"prompt": [{"type": "encoded_text", "tokens": [1.5]}]}, "tokens"),
        ({"params": {"max_tokens": 14}}, "max_tokens 14 do not fit the context of 16"),
        ({"params": {"temperature": -1}}, "sampling_params.temperature"),
        ({"params": {"top_p": 0}}, "sampling_params.top_p"),
        ({"params": {"stop": ["a", ""]}}, "sampling_params.stop"),
        ({"params": {"seed": 2**63}}, "sampling_params.seed"),
        ({"num_samples": 0}, "num_samples"),
        ({"num_samples": 10**9}, "num_samples"),
        ({"topk_sample_logprobs": 101}, "topk_sample_logprobs"),
        ({"topk_prompt_logprobs": 11}, "topk_prompt_logprobs: 11 is more than the vocabulary's 10"),
        ({"prompt_logprobs_last_n": 1}, "prompt_logprobs_last_n"),
        ({"prompt_logprobs": True, "prompt_logprobs_last_n": 3}, "prompt_logprobs_last_n: 3"),
        ({"record_stability_info": True}, "record_stability_info"),
        ({"prompt_alt_tokens_k": -1}, "prompt_alt_tokens_k"),
        ({"target_prompt_logprobs": targets([1, 2, 3], [3, 1])}, r"target_prompt_logprobs: the shape is \[3, 1\]"),
        ({"target_prompt_logprobs": targets([1], [2, 1])}, "target_prompt_logprobs: 1 tokens do not fill"),
        ({"target_prompt_logprobs": targets([1, 10], [2, 1])}, "target_prompt_logprobs: token 10"),
        ({"target_prompt_logprobs": targets([1, -2], [2, 1])}, "target_prompt_logprobs.data"),
        ({"target_prompt_logprobs": targets([1], [2, 1], sparse_crow_indices=[0, 1])}, "sparse_crow_indices"),
        (
            {
                "prompt": [TEXT, {"type": "encoded_text", "tokens": [4, 5]}],
                "target_prompt_logprobs": targets([], [4, 2**62]),
            },
            r"target_prompt_logprobs: the shape is \[4, 4611686018427387904\]",
        ),  # its rows times its columns are 0, modulo 2**64
        ({"params": {"stop": ["x"] * 257}}, "sampling_params.stop"),
        ({"params": {"stop": list(range(257))}}, "sampling_params.stop"),
        ({"params": {"stop": "x" * 1001}}, "sampling_params.stop"),
        (
            {"target_prompt_logprobs": targets([1], [2, 1], sparse_crow_indices=[0, 1, 1], sparse_col_indices=[1])},
            "sparse_col_indices",
        ),
    ],
)
def test_what_is_wrong_is_named(fields, field):
    with pytest.raises(Fault, match=field):
        sampling(**fields)


def test_defaults():
    request = sampling().request
    assert (request.params.max_tokens, request.params.stop_tokens, request.score_from) == (13, {9}, None)
    assert sampling(params={"stop": ["x", 4]}).request.params.stop_tokens == {4}
    assert sampling(prompt_logprobs=True, prompt_logprobs_last_n=1).request.score_from == 2


def test_the_sdk_reads_what_we_write():
    made = sampling(prompt_logprobs=True, topk_sample_logprobs=1, num_samples=1)
    draw = Draw(torch.Generator(), [7, 8], [-1.0, -2.0], finished="stop")
    draw.tops = [(torch.tensor([-1.0]), torch.tensor([7])), (torch.tensor([-2.0]), torch.tensor([8]))]
    made.request.draws, made.request.scores = [draw], torch.tensor([-0.5, -0.25])
    response = deserialize_sample_response(made.encode())
    [sequence] = response.sequences
    assert (list(sequence.tokens), sequence.stop_reason) == ([7, 8], "stop")
    assert sequence.topk_logprobs == [[(7, -1.0)], [(8, -2.0)]]
    assert list(response.prompt_logprobs) == [None, -0.5, -0.25]
    assert (response.topk_prompt_logprobs, response.target_prompt_logprobs, response.prompt_alt_tokens) == (None,) * 3


@pytest.mark.parametrize("sparse", [False, True])
def test_targets_come_back_in_the_layout_that_they_were_asked_in(sparse):
    layout = {"sparse_crow_indices": [0, 1, 3], "sparse_col_indices": [2, 0, 1]} if sparse else {}
    data = [4, 5, 6] if sparse else [-1, -1, 4, 5, 6, -1]
    made = sampling(
        target_prompt_logprobs=targets(data, [2, 3], **layout), prompt_logprobs=True, prompt_logprobs_last_n=1
    )
    logp = torch.randn(2, 10).log_softmax(-1)
    for hear in made.request.probes:
        hear(1, logp)
    made.request.draws, made.request.scores = [], logp[[0, 1], [2, 3]]
    response = deserialize_sample_response(made.encode())
    dense = response.target_prompt_logprobs.to_torch()
    expected = torch.zeros(2, 3)
    expected[0, 2], expected[1, 0], expected[1, 1] = logp[0, 4], logp[1, 5], logp[1, 6]
    torch.testing.assert_close(dense, expected)
    assert (response.target_prompt_logprobs.sparse_crow_indices is not None) == sparse
    assert list(response.prompt_logprobs)[:2] == [None, None]
