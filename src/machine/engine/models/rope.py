"""Rotary position embedding: the angles by which queries and keys are turned, pair by pair of a head's dimensions.

Dimension j of a head of size D turns by position * theta^(-2j / D). A model stretched to a longer context turns more
slowly: "linear" divides every frequency by `factor`; "llama3" divides only those whose wavelength is long against the
context that it was first trained with, with a smooth passage between. Sources: Su et al. 2021; Llama 3.1's model card.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rope:
    """Which angles; all but `theta` matter for the kinds "linear" and "llama3" only."""

    theta: float
    kind: str = "default"
    factor: float = 1.0
    low: float = 1.0  # wavelengths above `original` / low are stretched in full
    high: float = 1.0  # those below `original` / high not at all
    original: int = 0  # the context length before stretching

    @classmethod
    def read(cls, settings: Mapping[str, Any], theta: float, context: int) -> "Rope":
        """From `rope_scaling` or `rope_parameters` of a `config.json`.

        Raises:
            ValueError: another kind, or a setting that this kind needs is missing; the text says which.
        """
        kind = settings.get("rope_type") or settings.get("type") or "default"
        if "mrope_section" in settings or kind == "mrope":
            raise ValueError("rope_type mrope")
        if kind not in ("default", "linear", "llama3"):
            raise ValueError(f"rope_type {kind}")
        if settings.get("partial_rotary_factor", 1.0) != 1.0:
            raise ValueError("partial_rotary_factor")

        def number(key: str, default: float | None = None) -> float:
            value = settings.get(key, default)
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise ValueError(f"rope_type {kind} with {key} {value!r}")
            return float(value)

        theta = number("rope_theta", theta)
        if kind == "default":
            return cls(theta)
        if kind == "linear":
            return cls(theta, kind, number("factor"))
        low, high = number("low_freq_factor"), number("high_freq_factor")
        original = number("original_max_position_embeddings", context)
        return cls(theta, kind, number("factor"), low, high, int(original))

    def frequencies(self, head_size: int) -> Tensor:
        """Radians a position, [D / 2]; on the CPU."""
        f = 1.0 / self.theta ** (torch.arange(0, head_size, 2, device="cpu").float() / head_size)
        if self.kind == "linear":
            return f / self.factor
        if self.kind == "llama3":
            turns = self.original * f / (2 * math.pi)  # full turns within the original context
            kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
            return kept * f + (1 - kept) * f / self.factor
        return f

    def tables(self, context: int, head_size: int) -> tuple[Tensor, Tensor]:
        """Cosine and sine [context, D] of every position's angles, both halves of a head alike; on the CPU."""
        angles = torch.outer(torch.arange(context, device="cpu").float(), self.frequencies(head_size))
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`x` [T, heads, D] turned: (a, b) -> (a cos - b sin, b cos + a sin) for the halves a, b of a head."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
