import math

import pytest
import torch
from test_lora import filled
from test_model import hidden

from machine.engine.faults import Fault
from machine.engine.models.lora import ALL, ATTENTION, MLP, UNEMBED
from machine.engine.training import packing, trainer
from machine.engine.training.losses import Loss
from machine.engine.training.trainer import Datum, Trainee, forward_backward

CROSS_ENTROPY = Loss("cross_entropy", {})


def rows(count=6, prefix=10, own=7):
    generator = torch.Generator().manual_seed(3)
    head = torch.randint(3, 97, (prefix,), generator=generator).tolist()
    return [head + torch.randint(3, 97, (own + i,), generator=generator).tolist() for i in range(count)]


def data(given):
    return [
        Datum(row[:-1], torch.tensor(row[1:]), {"weights": (torch.arange(len(row) - 1) > 8).float()}) for row in given
    ]


def gradients(model, lora, batches):
    for parameter in lora.parameters.values():
        parameter.grad = None
    loss = sum(forward_backward(model, lora, batch, CROSS_ENTROPY, backward=True).loss for batch in batches)
    return loss, torch.cat([parameter.grad.flatten() for parameter in lora.parameters.values()])


@pytest.mark.parametrize("saving", [1, 1000])
@pytest.mark.parametrize("budget", [1024, 40, 1])
def test_sharing_changes_neither_loss_nor_gradient(tiny, monkeypatch, budget, saving):
    conversations = [[*rows()[0][:14], *row] for row in rows(4, 3, 5)]
    lora, given = filled(tiny.config), data([*rows(), *rows(2, 0, 9), rows()[0], *conversations])
    apart_loss, apart = gradients(tiny, lora, [[datum] for datum in given])
    monkeypatch.setattr(trainer, "MICRO_BATCH", budget)  # 1: every segment is too long, and checkpointed
    monkeypatch.setattr(packing, "MIN_SAVING", saving)
    loss, shared = gradients(tiny, lora, [given])
    assert loss == pytest.approx(apart_loss, rel=1e-5)
    assert float((shared - apart).norm() / apart.norm()) < 1e-5
    outcome = forward_backward(tiny, lora, given, CROSS_ENTROPY, backward=False)
    assert (outcome.computed < 0.7 * outcome.tokens) == (saving == 1)


@pytest.mark.parametrize("modules", [ATTENTION, MLP, (UNEMBED,)])
@pytest.mark.parametrize("budget", [1024, 1])
def test_part_of_an_adapter_has_its_part_of_the_gradient(tiny, monkeypatch, modules, budget):
    """With rows that share: where nothing below the head is trained, and where the first layer's keys are not."""
    monkeypatch.setattr(packing, "MIN_SAVING", 1)
    monkeypatch.setattr(trainer, "MICRO_BATCH", budget)
    whole, part, given = filled(tiny.config, modules=ALL), filled(tiny.config, modules=modules), data(rows())
    for key, parameter in whole.parameters.items():
        parameter.data = part.parameters[key].data if key in part.parameters else torch.zeros_like(parameter)
    expected_loss, _ = gradients(tiny, whole, [given])
    loss, _ = gradients(tiny, part, [given])
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    for key, parameter in part.parameters.items():
        torch.testing.assert_close(parameter.grad, whole.parameters[key].grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backward", [False, True])
def test_every_logprob_is_reported(tiny, backward):
    lora, given = filled(tiny.config), data(rows())
    outcome = forward_backward(tiny, lora, given, CROSS_ENTROPY, backward=backward)
    assert all((parameter.grad is not None) == backward for parameter in lora.parameters.values())
    for datum, logprobs in zip(given, outcome.logprobs, strict=True):
        expected = tiny.logits(hidden(tiny, datum.tokens, adapter=lora), lora).log_softmax(-1)
        torch.testing.assert_close(logprobs, expected.gather(1, datum.targets[:, None])[:, 0], rtol=1e-4, atol=1e-5)


def test_several_targets_a_token_are_as_many_rows(tiny):
    lora, given, generator = filled(tiny.config), data(rows()), torch.Generator().manual_seed(5)
    wide, flat = [], []
    for datum in given:
        targets = torch.randint(0, 97, (len(datum.tokens), 3), generator=generator)
        targets[:, 2] = targets[:, 1]  # one of them twice
        weights = torch.rand(targets.shape, generator=generator) * datum.inputs["weights"][:, None]
        wide.append(Datum(datum.tokens, targets, {"weights": weights}))
        flat += [Datum(datum.tokens, targets[:, i], {"weights": weights[:, i]}) for i in range(3)]
    expected_loss, expected = gradients(tiny, lora, [flat])
    loss, gradient = gradients(tiny, lora, [wide])
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    assert float((gradient - expected).norm() / expected.norm()) < 1e-5
    outcome = forward_backward(tiny, lora, wide, CROSS_ENTROPY, backward=False)
    one_by_one = forward_backward(tiny, lora, flat, CROSS_ENTROPY, backward=False)
    torch.testing.assert_close(outcome.logprobs[1], torch.stack(one_by_one.logprobs[3:6], dim=1))


def test_a_failure_half_way_leaves_the_gradient_as_it_was(tiny, monkeypatch):
    lora, given = filled(tiny.config), data(rows())
    _, before = gradients(tiny, lora, [given[:2]])
    monkeypatch.setattr(trainer, "MICRO_BATCH", 20)
    calls, loss = [], Loss("cross_entropy", {})

    def failing(logp, inputs):
        calls.append(1)
        if len(calls) == 3:
            raise MemoryError
        return loss(logp, inputs)

    with pytest.raises(MemoryError):
        forward_backward(tiny, lora, given, failing, backward=True)
    assert torch.equal(before, torch.cat([parameter.grad.flatten() for parameter in lora.parameters.values()]))


def test_a_loss_that_is_not_finite_is_refused(tiny):
    lora, given = filled(tiny.config), data(rows())
    lora.parameters["0.q.B"].data[0, 0] = math.nan
    with pytest.raises(Fault, match="loss is nan"):
        forward_backward(tiny, lora, given, CROSS_ENTROPY, backward=True)
    assert all(parameter.grad is None for parameter in lora.parameters.values())


def test_gradients_of_several_batches_add_up(tiny):
    lora, given = filled(tiny.config), data(rows())
    _, together = gradients(tiny, lora, [given])
    _, added = gradients(tiny, lora, [given[:2], given[2:]])
    torch.testing.assert_close(added, together, rtol=1e-4, atol=1e-5)


def test_training_learns(tiny):
    from machine.engine.training.optimizer import AdamParams

    trainee, given = Trainee("m", filled(tiny.config)), data(rows())
    losses = []
    for _ in range(30):
        losses.append(forward_backward(tiny, trainee.lora, given, CROSS_ENTROPY, backward=True).loss)
        trainee.step(AdamParams(learning_rate=0.02))
    assert losses[-1] < 0.3 * losses[0]
