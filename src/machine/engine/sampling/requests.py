"""Sampling: what may be asked for, what comes of it, and how one token is drawn.

Letter in shapes: V vocabulary, k alternatives.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

StopReason = Literal["stop", "length"]
COLDEST = 1e-6
"""A temperature below it is 0: what is divided by it would not stay finite."""


@dataclass(frozen=True)
class SamplingParams:
    """How to draw; `temperature` 0 takes the likeliest token, `top_k` <= 0 and `top_p` 1 cut nothing."""

    max_tokens: int
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    seed: int | None = None
    stop_tokens: frozenset[int] = frozenset()
    stop_texts: tuple[str, ...] = ()


@dataclass(eq=False)
class Draw:
    """One sequence as it grows; `logprobs` are the model's own, before temperature and cuts."""

    generator: torch.Generator
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    tops: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    finished: StopReason | None = None


@dataclass(eq=False)
class SampleRequest:
    """A prompt and what to do with it; the decoder fills in the fields after `cancelled`.

    `weights` will name the weights that answered (`checkpoints.fingerprint`, or "base").

    `score_from` is the first prompt position whose log-probability is wanted (None: none); each of `probes` then hears
    the log-probabilities [m, V] of the positions from its first argument on, chunk by chunk. `on_token` hears each
    token of the first sequence. They and `cancelled` are called on the model's thread.
    """

    prompt: list[int]
    params: SamplingParams
    count: int = 1
    topk: int = 0
    score_from: int | None = None
    score_topk: int = 0
    probes: tuple[Callable[[int, Tensor], None], ...] = ()
    on_token: Callable[[int], None] | None = None
    cancelled: Callable[[], bool] = lambda: False
    draws: list[Draw] = field(default_factory=list)
    scores: Tensor | None = None  # [len(prompt) - score_from]
    score_tops: tuple[Tensor, Tensor] | None = None  # log-probabilities and token ids, [len(prompt) - score_from, k]
    cached_tokens: int = 0
    weights: str = ""
    error: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether every sequence has ended, or `error` says why there is none."""
        return self.error is not None or (bool(self.draws) and all(draw.finished for draw in self.draws))


def choose(logp: Tensor, params: SamplingParams, generator: torch.Generator) -> int:
    """One token from log-probabilities [V]: temperature, then top-k, then top-p, then one uniform draw."""
    if params.temperature < COLDEST:
        return int(logp.argmax())
    scaled = logp / params.temperature
    if 0 < params.top_k < len(scaled):
        scaled = scaled.masked_fill(scaled < scaled.topk(params.top_k).values[-1], -math.inf)
    probabilities = scaled.softmax(dim=-1)
    if params.top_p < 1.0:
        ordered, order = probabilities.sort(descending=True)
        before = ordered.cumsum(dim=-1) - ordered  # a token stays if what lies before it does not reach top_p
        probabilities = torch.zeros_like(probabilities).scatter_(0, order, ordered.where(before < params.top_p, 0.0))
    cumulative = probabilities.double().cumsum(dim=-1)
    point = torch.rand(1, generator=generator, dtype=torch.float64) * cumulative[-1]
    return min(int(torch.searchsorted(cumulative, point, right=True)), len(cumulative) - 1)
