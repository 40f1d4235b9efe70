"""Adam with decoupled weight decay and clipping by global norm (Kingma & Ba 2014; Loshchilov & Hutter 2017).

g <- g * min(1, clip / |g|)                     m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
p <- p (1 - lr decay) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
"""

import math
from typing import Annotated

import msgspec
import torch
from safetensors import SafetensorError
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
    """The moments of some parameters, made at the first step, and the number of steps taken."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        self.parameters = parameters
        self.first: dict[str, Tensor] = {}
        self.second: dict[str, Tensor] = {}
        self.steps = 0

    @torch.no_grad()
    def step(self, params: AdamParams) -> float:
        """Applies the gradients gathered so far, forgets them, and returns their global norm before clipping.

        Raises:
            Fault: there is no gradient, or it is not finite; the parameters stay as they were.
            MemoryError, RuntimeError: there is no memory; parameters and gradients stay as they were.
        """
        scratch = self._reserve()
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
            self._update(key, gradient.mul_(factor), params, scratch[: gradient.numel()].view_as(gradient))
        return norm

    def _reserve(self) -> Tensor:
        """All the memory of a step, before anything is changed: the moments, and room for one more tensor."""
        if not self.first:
            first, second = ({k: torch.zeros_like(p) for k, p in self.parameters.items()} for _ in range(2))
            self.first, self.second = first, second
        like = next(iter(self.parameters.values()))
        return like.new_empty(max(p.numel() for p in self.parameters.values()), requires_grad=False)

    def _update(self, key: str, gradient: Tensor, params: AdamParams, scratch: Tensor) -> None:
        parameter, first, second = self.parameters[key], self.first[key], self.second[key]
        first.lerp_(gradient, 1.0 - params.beta1)
        second.mul_(params.beta2).addcmul_(gradient, gradient, value=1.0 - params.beta2)
        parameter.mul_(1.0 - params.learning_rate * params.weight_decay)
        unbiased = torch.div(second, 1.0 - params.beta2**self.steps, out=scratch)
        step = params.learning_rate / (1.0 - params.beta1**self.steps)
        parameter.addcdiv_(first, unbiased.sqrt_().add_(params.eps), value=-step)

    def state_file(self) -> bytes:
        """The optimiser's state as safetensors; before the first step there are no moments in it."""
        tensors = {f"first.{key}": value for key, value in self.first.items()}
        tensors |= {f"second.{key}": value for key, value in self.second.items()}
        return bytes(save(tensors | {"steps": torch.tensor(self.steps)}))

    def load_state(self, data: bytes) -> None:
        """Takes over what `state_file` wrote.

        Raises:
            Fault: the state is damaged, or of other parameters.
        """
        try:
            tensors = load(data)
            steps = int(tensors.pop("steps"))
        except (SafetensorError, KeyError, RuntimeError) as error:
            message = f"the optimiser's state is damaged: {error}"
            raise Fault(message, next_step="load the weights without it") from error
        expected = {f"{moment}.{key}": p.shape for moment in ("first", "second") for key, p in self.parameters.items()}
        found = {name: tensor.shape for name, tensor in tensors.items()}
        if found != (expected if found or steps else {}):
            raise Fault("the optimiser's state is not of this model", next_step="load the weights without it")
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise Fault("the optimiser's state is not finite", next_step="load the weights without it")
        squares = [tensor for name, tensor in tensors.items() if name.startswith("second.")]
        if (
            steps < 0
            or any(t.dtype != torch.float32 for t in tensors.values())
            or any(bool((t < 0).any()) for t in squares)
        ):
            raise Fault("the optimiser's state is of no optimiser", next_step="load the weights without it")
        moved = {name: tensor.to(self.parameters[name.partition(".")[2]].device) for name, tensor in tensors.items()}
        self.steps = steps
        self.first, self.second = (
            {key: moved[f"{moment}.{key}"] for key in self.parameters if moved} for moment in ("first", "second")
        )
