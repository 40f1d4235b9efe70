import pytest
import torch

from machine.engine.faults import Fault
from machine.engine.training.losses import REQUIRED, Loss

N = 64


def inputs(masked):
    generator = torch.Generator().manual_seed(0)
    given = {"weights": torch.rand(N, generator=generator), "advantages": torch.randn(N, generator=generator)}
    given["logprobs"] = -torch.rand(N, generator=generator)
    if masked:
        given["mask"] = (torch.arange(N) % 3 != 0).float()
    return given


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_the_derivative_is_that_of_the_value(name, masked):
    logp = (-torch.rand(N, generator=torch.Generator().manual_seed(1))).requires_grad_()
    value, derivative = Loss(name, {})(logp, inputs(masked))
    if name == "cispo":  # its ratio is a constant by definition: the value's own slope also runs through the ratio
        ratio = (logp.detach() - inputs(masked)["logprobs"]).exp().clamp(0.8, 1.2)
        value = -ratio * logp * inputs(masked)["advantages"] * inputs(masked).get("mask", 1.0)
    value.sum().backward()
    torch.testing.assert_close(derivative.detach(), logp.grad)


def test_ppo_stops_at_the_clip():
    given = {"logprobs": torch.zeros(2), "advantages": torch.tensor([1.0, -1.0])}
    _, derivative = Loss("ppo", {"clip_high_threshold": 1.1})(torch.tensor([0.5, -0.5]), given)
    assert derivative.tolist() == [0.0, 0.0]


def test_unknown_names_are_refused():
    with pytest.raises(Fault, match="loss_fn"):
        Loss("hinge", {})
    with pytest.raises(Fault, match="beta"):
        Loss("ppo", {"beta": 1.0})
