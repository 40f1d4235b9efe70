"""What the engine makes of examples that are merged: the loss and the gradient of the same examples one by one."""

import pytest
import torch
from test_lora import filled
from test_trainer import gradients

from machine.dataset.merge import merged
from machine.dataset.render import Example
from machine.engine.training.trainer import Datum


def chains():
    """Conversations of several targets, each target's example with weights of its own that sum to 1."""
    generator = torch.Generator().manual_seed(5)
    examples = []
    for _ in range(3):
        tokens = torch.randint(3, 97, (9,), generator=generator).tolist()
        for target in range(4):
            start = len(tokens)
            tokens = tokens + torch.randint(3, 97, (3 + target,), generator=generator).tolist()
            trained = len(tokens) - start
            examples.append(Example(f"e{len(examples)}", "s", tokens, [0.0] * start + [1 / trained] * trained, start))
            tokens = tokens + torch.randint(3, 97, (4,), generator=generator).tolist()
    return [*examples, examples[0]]


def datums(weighted):
    return [
        Datum(each.tokens[:-1], torch.tensor(each.tokens[1:]), {"weights": torch.tensor(each.weights[1:])})
        for each in weighted
    ]


def test_merged_examples_have_the_same_loss_and_gradient(tiny):
    examples = chains()
    packs = merged(examples)
    assert len(packs) == 3
    assert sum(len(pack.tokens) for pack in packs) < 0.5 * sum(len(example.tokens) for example in examples)
    lora = filled(tiny.config)
    apart_loss, apart = gradients(tiny, lora, [[datum] for datum in datums(examples)])
    loss, together = gradients(tiny, lora, [datums(packs)])
    assert loss == pytest.approx(apart_loss, rel=1e-6)
    assert float((together - apart).norm() / apart.norm()) < 1e-4
