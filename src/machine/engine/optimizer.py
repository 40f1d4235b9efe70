"""Adam with decoupled weight decay and clipping by global norm (Kingma & Ba 2014; Loshchilov & Hutter 2017).

g <- g * min(1, clip / |g|)                     m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
p <- p (1 - lr decay) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
"""

import math
from typing import Annotated

import msgspec
import torch
from safetensors.torch import load, save
from torch import Tensor

from machine.engine.faults import Fault

_Fraction = Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)]
_NotNegative = Annotated[float, msgspec.Meta(ge=0.0)]


class AdamParams(msgspec.Struct, frozen=True):
    """The settings of one step, with Tinker's defaults."""

    learning_rate: _NotNegative = 1e-4
    beta1: _Fraction = 0.9
    beta2: _Fraction = 0.95
    eps: _NotNegative = 1e-12
    weight_decay: _NotNegative = 0.0
    grad_clip_norm: float = 0.0


class Adam:
    """The moments of some parameters, and the number of steps taken."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        self.parameters = parameters
        self.first = {key: torch.zeros_like(p, requires_grad=False) for key, p in parameters.items()}
        self.second = {key: torch.zeros_like(p, requires_grad=False) for key, p in parameters.items()}
        self.steps = 0

    @torch.no_grad()
    def step(self, params: AdamParams) -> float:
        """Applies the gradients gathered so far, forgets them, and returns their global norm before clipping.

        Raises:
            Fault: there is no gradient, or it is not finite; the parameters stay as they were.
        """
        gradients = {key: p.grad for key, p in self.parameters.items() if p.grad is not None}
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients.values()))
        for parameter in self.parameters.values():
            parameter.grad = None
        if not gradients:
            raise Fault("optim_step: there is no gradient", next_step="call forward_backward first")
        if not math.isfinite(norm):
            raise Fault("optim_step: the gradient is not finite; it was dropped", next_step="lower the learning rate")
        clip = params.grad_clip_norm
        factor = clip / norm if 0.0 < clip < norm else 1.0
        self.steps += 1
        for key, gradient in gradients.items():
            self._update(key, gradient.mul_(factor), params)
        return norm

    def _update(self, key: str, gradient: Tensor, params: AdamParams) -> None:
        parameter, first, second = self.parameters[key], self.first[key], self.second[key]
        first.lerp_(gradient, 1.0 - params.beta1)
        second.mul_(params.beta2).addcmul_(gradient, gradient, value=1.0 - params.beta2)
        parameter.mul_(1.0 - params.learning_rate * params.weight_decay)
        unbiased = second / (1.0 - params.beta2**self.steps)
        step = params.learning_rate / (1.0 - params.beta1**self.steps)
        parameter.addcdiv_(first, unbiased.sqrt_().add_(params.eps), value=-step)

    def state_file(self) -> bytes:
        """The optimiser's state as safetensors."""
        tensors = {f"first.{key}": value for key, value in self.first.items()}
        tensors |= {f"second.{key}": value for key, value in self.second.items()}
        return bytes(save(tensors | {"steps": torch.tensor(self.steps)}))

    def load_state(self, data: bytes) -> None:
        """Takes over what `state_file` wrote.

        Raises:
            Fault: the state is of other parameters.
        """
        tensors = load(data)
        steps = tensors.pop("steps", None)
        expected = {f"{moment}.{key}" for moment in ("first", "second") for key in self.parameters}
        if steps is None or tensors.keys() != expected:
            raise Fault("the optimiser's state is not of this model", next_step="load the weights without it")
        self.steps = int(steps)
        self.first = {key: tensors[f"first.{key}"] for key in self.parameters}
        self.second = {key: tensors[f"second.{key}"] for key in self.parameters}
