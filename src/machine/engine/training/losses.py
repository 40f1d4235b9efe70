"""Losses over the log-probabilities of target tokens, and their derivative, in closed form.

Every loss is a sum over targets of f(logp); the engine needs f and df/dlogp, the rest is the model's business.
Notation: A advantage, m mask, old the sampler's log-probability, r = exp(logp - old). Source: Tinker's documentation
of `loss_fn`; its servers sum over tokens and do not average.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from machine.engine.faults import Fault

Inputs = Mapping[str, Tensor]
Settings = Mapping[str, float]
_Formula = Callable[[Tensor, Inputs, Settings], tuple[Tensor, Tensor]]

REQUIRED = {
    "cross_entropy": ("weights",),
    "importance_sampling": ("logprobs", "advantages"),
    "ppo": ("logprobs", "advantages"),
    "cispo": ("logprobs", "advantages"),
    "dro": ("logprobs", "advantages"),
}
"""What each loss needs beside `target_tokens`, one number a token."""

_SETTINGS = {
    "cross_entropy": (),
    "importance_sampling": (),
    "ppo": ("clip_low_threshold", "clip_high_threshold"),
    "cispo": ("clip_low_threshold", "clip_high_threshold"),
    "dro": ("beta",),
}


@dataclass(frozen=True)
class Loss:
    """A loss by name, with its settings."""

    name: str
    settings: Settings

    def __post_init__(self) -> None:
        if self.name not in REQUIRED:
            raise Fault(f"loss_fn: {self.name!r} is not supported; use one of {', '.join(REQUIRED)}")
        if unknown := sorted(set(self.settings) - set(_SETTINGS[self.name])):
            raise Fault(f"loss_fn_config: {self.name} has no setting {', '.join(unknown)}")

    def __call__(self, logp: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """f(logp) and df/dlogp, [n] each, for `logp` [n] and inputs [n] each."""
        return _FORMULAS[self.name](logp, inputs, self.settings)


def _advantages(inputs: Inputs) -> Tensor:
    return inputs["advantages"] * inputs["mask"] if "mask" in inputs else inputs["advantages"]


def _cross_entropy(logp: Tensor, inputs: Inputs, _: Settings) -> tuple[Tensor, Tensor]:
    return -logp * inputs["weights"], -inputs["weights"]


def _importance_sampling(logp: Tensor, inputs: Inputs, _: Settings) -> tuple[Tensor, Tensor]:
    surrogate = (logp - inputs["logprobs"]).exp() * _advantages(inputs)
    return -surrogate, -surrogate


def _ppo(logp: Tensor, inputs: Inputs, settings: Settings) -> tuple[Tensor, Tensor]:
    ratio, advantages = (logp - inputs["logprobs"]).exp(), _advantages(inputs)
    plain, clipped = ratio * advantages, _clipped(ratio, settings) * advantages
    return -torch.minimum(plain, clipped), torch.where(plain <= clipped, -plain, torch.zeros_like(plain))


def _cispo(logp: Tensor, inputs: Inputs, settings: Settings) -> tuple[Tensor, Tensor]:
    factor = _clipped((logp - inputs["logprobs"]).exp(), settings) * _advantages(inputs)
    return -factor * logp, -factor


def _dro(logp: Tensor, inputs: Inputs, settings: Settings) -> tuple[Tensor, Tensor]:
    beta, mask = settings.get("beta", 0.05), inputs.get("mask", torch.ones_like(logp))
    distance = (logp - inputs["logprobs"]) * mask
    advantages = _advantages(inputs)
    return -(logp * advantages - 0.5 * beta * distance**2), -(advantages - beta * distance)


def _clipped(ratio: Tensor, settings: Settings) -> Tensor:
    return ratio.clamp(settings.get("clip_low_threshold", 0.8), settings.get("clip_high_threshold", 1.2))


_FORMULAS: dict[str, _Formula] = {
    "cross_entropy": _cross_entropy,
    "importance_sampling": _importance_sampling,
    "ppo": _ppo,
    "cispo": _cispo,
    "dro": _dro,
}
