import pytest
import torch
from test_lora import filled

from machine.engine import trainer
from machine.engine.losses import Loss
from machine.engine.trainer import Datum, Trainee, common_prefix, forward_backward, micro_batches

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


@pytest.mark.parametrize("budget", [1024, 40, 1])
def test_packing_changes_neither_loss_nor_gradient(tiny, monkeypatch, budget):
    lora, given = filled(tiny.config), data([*rows(), *rows(2, 0, 9), rows()[0]])
    apart_loss, apart = gradients(tiny, lora, [[datum] for datum in given])
    monkeypatch.setattr(trainer, "MICRO_BATCH", budget)  # 1: every row is too long, and checkpointed
    loss, packed = gradients(tiny, lora, [given])
    assert loss == pytest.approx(apart_loss, rel=1e-5)
    assert float((packed - apart).norm() / apart.norm()) < 1e-5


def test_forward_reports_every_logprob_and_leaves_no_gradient(tiny):
    lora, given = filled(tiny.config), data(rows())
    forward = forward_backward(tiny, lora, given, CROSS_ENTROPY, backward=False)
    assert all(parameter.grad is None for parameter in lora.parameters.values())
    assert all((logprobs < 0).all() for logprobs in forward.logprobs)
    backward = forward_backward(tiny, lora, given, CROSS_ENTROPY, backward=True)
    assert backward.loss == pytest.approx(forward.loss, rel=1e-5)
    for datum, full, partial in zip(given, forward.logprobs, backward.logprobs, strict=True):
        torch.testing.assert_close(full * datum.inputs["weights"], partial, rtol=1e-5, atol=1e-6)


def test_training_learns(tiny):
    from machine.engine.optimizer import AdamParams

    trainee, given = Trainee("m", filled(tiny.config)), data(rows())
    losses = []
    for _ in range(12):
        losses.append(forward_backward(tiny, trainee.lora, given, CROSS_ENTROPY, backward=True).loss)
        trainee.step(AdamParams(learning_rate=0.02))
    assert losses[-1] < 0.3 * losses[0]


def test_micro_batches_hold_the_budget_and_every_row_once():
    given = [*rows(8, 30, 5), *rows(3, 0, 60), [1, 2, 3]]
    groups = list(micro_batches(given, 64))
    assert sorted(i for group in groups for i in group) == list(range(len(given)))
    for group in groups:
        members = [given[i] for i in group]
        prefix = common_prefix(members)
        assert len(group) == 1 or prefix + sum(len(row) - prefix for row in members) <= 64


def test_common_prefix():
    assert common_prefix([[1, 2, 3]]) == 0
    assert common_prefix([[1, 2, 3], [1, 2, 4], [1, 2]]) == 2
    assert common_prefix([[1, 2], [1, 2]]) == 2
    assert common_prefix([[1], [2]]) == 0
