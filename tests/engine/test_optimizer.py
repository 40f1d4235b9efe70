import copy

import pytest
import torch
from safetensors.torch import load, save

from machine.engine.faults import Fault
from machine.engine.training.optimizer import Adam, AdamParams

PARAMS = AdamParams(learning_rate=0.01, beta2=0.98, eps=1e-8, weight_decay=0.1)


def parameters():
    generator = torch.Generator().manual_seed(0)
    return {key: torch.randn(5, 3, generator=generator).requires_grad_() for key in "ab"}


def give_gradients(params, step):
    generator = torch.Generator().manual_seed(step)
    for parameter in params.values():
        parameter.grad = torch.randn(5, 3, generator=generator)


def test_equals_torch_adamw():
    ours, theirs = parameters(), parameters()
    adam = Adam(ours)
    reference = torch.optim.AdamW(theirs.values(), lr=0.01, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1)
    for step in range(5):
        give_gradients(ours, step)
        give_gradients(theirs, step)
        adam.step(PARAMS)
        reference.step()
    for key in ours:
        torch.testing.assert_close(ours[key], theirs[key])


def test_clipping_scales_to_the_norm():
    params = parameters()
    give_gradients(params, 0)
    gradients = [parameter.grad.clone() for parameter in params.values()]
    norm = torch.cat(gradients).norm()
    adam = Adam(params)
    assert adam.step(AdamParams(grad_clip_norm=0.5)) == pytest.approx(float(norm))
    clipped = torch.cat(list(adam.first.values())) / (1 - 0.9)
    assert float(clipped.norm()) == pytest.approx(0.5, rel=1e-4)


def test_state_goes_on_bit_for_bit():
    params = parameters()
    adam = Adam(params)
    for step in range(3):
        give_gradients(params, step)
        adam.step(PARAMS)
    resumed_params = {key: copy.deepcopy(value.detach()).requires_grad_() for key, value in params.items()}
    resumed = Adam(resumed_params)
    resumed.load_state(adam.state_file())
    for pair in ((params, adam), (resumed_params, resumed)):
        give_gradients(pair[0], 9)
        pair[1].step(PARAMS)
    assert all(torch.equal(params[key], resumed_params[key]) for key in params)


def test_a_bad_gradient_changes_nothing():
    params = parameters()
    adam = Adam(params)
    before = params["a"].detach().clone()
    with pytest.raises(Fault, match="no gradient"):
        adam.step(PARAMS)
    give_gradients(params, 0)
    params["b"].grad[0, 0] = float("nan")
    with pytest.raises(Fault, match="not finite"):
        adam.step(PARAMS)
    assert torch.equal(params["a"], before)
    assert params["a"].grad is None
    assert adam.steps == 0


def test_state_that_is_damaged_or_of_another_model_is_refused():
    other = {"c": torch.zeros(1, requires_grad=True)}
    other["c"].grad = torch.ones(1)
    adam = Adam(other)
    adam.step(PARAMS)
    states = {"not of this model": adam.state_file(), "damaged": adam.state_file()[:-1]}
    adam.second["c"].fill_(float("nan"))
    for message, state in states.items():
        with pytest.raises(Fault, match=message):
            Adam(parameters()).load_state(state)
    with pytest.raises(Fault, match="not finite"):
        Adam(other).load_state(adam.state_file())


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.update(steps=torch.tensor(-1)),
        lambda state: state["second.a"].fill_(-1.0),
        lambda state: state.update({"first.a": state["first.a"].to(torch.int32)}),
    ],
    ids=["a time before the first step", "squares below zero", "whole numbers"],
)
def test_state_that_no_optimiser_has_is_refused(change):
    adam = Adam(parameters())
    for parameter in adam.parameters.values():
        parameter.grad = torch.ones_like(parameter)
    adam.step(PARAMS)
    state = load(adam.state_file())
    Adam(parameters()).load_state(save(state))
    change(state)
    with pytest.raises(Fault, match="of no optimiser"):
        Adam(parameters()).load_state(save(state))


def test_moments_take_no_memory_before_the_first_step():
    adam = Adam(parameters())
    assert (adam.first, len(adam.state_file()) < 200) == ({}, True)
    fresh = Adam(parameters())
    fresh.load_state(adam.state_file())
    assert (fresh.first, fresh.steps) == ({}, 0)


@pytest.mark.parametrize("nth", [1, 2, 4, 5])
def test_a_step_without_memory_changes_nothing(monkeypatch, nth):
    params = parameters()
    give_gradients(params, 0)
    gradients = {key: p.grad.clone() for key, p in params.items()}
    adam = Adam(params)
    left = iter(range(nth, 0, -1))

    def fails(make):
        def made(*given, **facts):
            if next(left) == 1:
                raise MemoryError
            return make(*given, **facts)

        return made

    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros_like", fails(torch.zeros_like))
        patch.setattr(torch.Tensor, "new_empty", fails(torch.Tensor.new_empty))
        with pytest.raises(MemoryError):
            adam.step(PARAMS)
    assert all(torch.equal(params[key].grad, gradients[key]) for key in params)
    reference = parameters()
    assert all(torch.equal(params[key], reference[key]) for key in params)
    assert adam.step(PARAMS) > 0
