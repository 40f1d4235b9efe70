"""Sampling: prefill with a prefix cache, then decoding of many sequences in one batch.

A `Decoder` serves requests against one set of weights. New requests join between two steps and finished sequences
leave, so that concurrent requests share each pass over the weights. Every sequence draws from a generator of its own:
what it gets depends on its seed and, up to floating-point rounding, not on its neighbours.

Shapes: B sequences, S cache slots, P cached tokens, V vocabulary; other letters as in `model`.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from machine.engine.attention import attention, causal_mask
from machine.engine.model import Llama

MAX_BATCH = 32
"""Sequences that decode together."""
PREFIX_TOKENS = 8192
"""Tokens whose keys and values are kept for prompts to come."""
_SLOTS = 64  # the cache of a batch grows by so many slots at a time
_HEAD_CHUNK = 256

StopReason = Literal["stop", "length"]


@dataclass(frozen=True)
class SamplingParams:
    """How to draw. `temperature` 0 takes the likeliest token; `top_k` <= 0 and `top_p` 1 cut nothing."""

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

    `score_from` is the first prompt position whose log-probability is wanted (None: none); `on_token` hears each token
    of the first sequence, and both it and `cancelled` are called on the model's thread.
    """

    prompt: list[int]
    params: SamplingParams
    count: int = 1
    topk: int = 0
    score_from: int | None = None
    score_topk: int = 0
    on_token: Callable[[int], None] | None = None
    cancelled: Callable[[], bool] = lambda: False
    draws: list[Draw] = field(default_factory=list)
    scores: Tensor | None = None  # [len(prompt) - score_from]
    score_tops: tuple[Tensor, Tensor] | None = None  # log-probabilities and token ids, [len(prompt) - score_from, k]
    cached_tokens: int = 0
    weights: str = ""

    @property
    def done(self) -> bool:
        """Whether every sequence has ended."""
        return bool(self.draws) and all(draw.finished for draw in self.draws)


@dataclass(eq=False)
class _Row:
    request: SampleRequest
    draw: Draw
    length: int  # tokens in the cache


@dataclass(eq=False)
class _Prefix:
    weights: str
    tokens: Tensor  # [P]
    keys_values: Tensor  # [layers, 2, P, K, D]


class PrefixCache:
    """Keys and values of recent prompts, least recently used first."""

    def __init__(self, capacity: int = PREFIX_TOKENS) -> None:
        self.capacity = capacity
        self._entries: list[_Prefix] = []

    def longest(self, weights: str, prompt: Tensor) -> Tensor | None:
        """The longest cached beginning of `prompt` [n] under `weights`, at most n - 1 tokens of it."""
        best, found = 0, None
        for entry in self._entries:
            if entry.weights == weights and (common := _common(entry.tokens, prompt)) > best:
                best, found = common, entry
        if found is None:
            return None
        self._entries.remove(found)
        self._entries.append(found)
        return found.keys_values[:, :, : min(best, len(prompt) - 1)]

    def keep(self, weights: str, prompt: Tensor, keys_values: Tensor) -> None:
        """Adds a prompt; drops what it extends and, beyond the capacity, what was used least recently."""
        entries = [e for e in self._entries if e.weights != weights or _common(e.tokens, prompt) < len(e.tokens)]
        entries.append(_Prefix(weights, prompt, keys_values))
        total = 0
        self._entries = []
        for entry in reversed(entries):
            total += len(entry.tokens)
            if total > self.capacity:
                break
            self._entries.insert(0, entry)

    def drop(self, weights: str) -> None:
        """Forgets everything computed with `weights`."""
        self._entries = [entry for entry in self._entries if entry.weights != weights]


class Decoder:
    """Requests being answered by one set of weights (`weights` names it in the prefix cache)."""

    def __init__(
        self, model: Llama, weights: str, prefixes: PrefixCache, detokenize: Callable[[list[int]], str]
    ) -> None:
        self.model, self.weights, self.prefixes, self.detokenize = model, weights, prefixes, detokenize
        self._rows: list[_Row] = []
        config = model.config
        self._cache = torch.empty(config.layers, 2, 0, 0, config.kv_heads, config.head_size, dtype=model.dtype)

    @property
    def active(self) -> int:
        """Sequences that are not finished."""
        return len(self._rows)

    @torch.inference_mode()
    def admit(self, request: SampleRequest) -> None:
        """Reads the prompt and draws the first token of each sequence."""
        request.weights = self.weights
        keys_values, logits = self._prefill(request)
        base = request.params.seed if request.params.seed is not None else secrets.randbits(48)
        for i in range(request.count):
            generator = torch.Generator().manual_seed((base * 1_000_003 + i) % 2**63)
            request.draws.append(Draw(generator))
        logp = logits.log_softmax(dim=-1)
        rows = [_Row(request, draw, len(request.prompt)) for draw in request.draws]
        for row in rows:
            self._choose(row, logp)
        self._add([row for row in rows if row.draw.finished is None], keys_values)

    @torch.inference_mode()
    def step(self) -> None:
        """Draws one more token for every active sequence."""
        self._drop_finished()
        if not self._rows:
            return
        lengths = torch.tensor([row.length for row in self._rows])  # [B]
        self._reserve(int(lengths.max()) + 1)
        tokens = torch.tensor([row.draw.tokens[-1] for row in self._rows])
        logp = self.model.logits(self.model.forward(tokens, lengths, self._attend(lengths))).log_softmax(dim=-1)
        for row, row_logp in zip(self._rows, logp, strict=True):
            row.length += 1
            self._choose(row, row_logp)
        self._drop_finished()

    def _attend(self, lengths: Tensor) -> Callable[[int, Tensor, Tensor, Tensor], Tensor]:
        batch, slots = torch.arange(len(lengths)), int(lengths.max()) + 1
        mask = (torch.arange(slots) <= lengths[:, None])[:, None, None]  # [B, 1, 1, S]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self._cache[layer, 0, batch, lengths] = k
            self._cache[layer, 1, batch, lengths] = v
            keys, values = self._cache[layer, :, :, :slots].transpose(2, 3)  # [B, K, S, D]
            grouped = q.view(len(q), keys.shape[1], -1, q.shape[-1])  # [B, K, H / K, D]: a group reads the same keys
            return F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask).flatten(1)

        return attend

    def _prefill(self, request: SampleRequest) -> tuple[Tensor, Tensor]:
        """Keys and values [layers, 2, n, K, D] of the prompt, and the scores [V] of what follows it."""
        prompt = torch.tensor(request.prompt)
        past = None if request.score_from is not None else self.prefixes.longest(self.weights, prompt)
        request.cached_tokens = start = 0 if past is None else past.shape[2]
        layers: list[Tensor] = []
        mask = causal_mask(len(prompt) - start, start) if start else None

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys_values = torch.stack([k, v])
            if past is not None:
                keys_values = torch.cat([past[layer], keys_values], dim=1)
            layers.append(keys_values)
            return attention(q, keys_values[0], keys_values[1], mask)

        hidden = self.model.forward(prompt[start:], torch.arange(start, len(prompt)), attend)
        keys_values = torch.stack(layers)
        if request.score_from is not None:
            self._score(request, prompt, hidden)
        self.prefixes.keep(self.weights, prompt, keys_values)
        return keys_values, self.model.logits(hidden[-1])

    def _score(self, request: SampleRequest, prompt: Tensor, hidden: Tensor) -> None:
        """Log-probabilities of the prompt's own tokens: position t is scored by the hidden state of t - 1."""
        scores: list[Tensor] = []
        tops: list[tuple[Tensor, Tensor]] = []
        first = request.score_from or 1
        for start in range(first, len(prompt), _HEAD_CHUNK):
            stop = min(start + _HEAD_CHUNK, len(prompt))
            logp = self.model.logits(hidden[start - 1 : stop - 1]).log_softmax(dim=-1)
            scores.append(logp.gather(1, prompt[start:stop, None])[:, 0])
            if request.score_topk:
                values, ids = logp.topk(request.score_topk, dim=-1)
                tops.append((values, ids))
        request.scores = torch.cat(scores) if scores else torch.empty(0)
        if tops:
            request.score_tops = torch.cat([values for values, _ in tops]), torch.cat([ids for _, ids in tops])

    def _choose(self, row: _Row, logp: Tensor) -> None:
        """Draws the next token of a sequence from `logp` [V] and decides whether it ends."""
        request, draw = row.request, row.draw
        if len(draw.tokens) >= request.params.max_tokens:
            draw.finished = "length"
            return
        token = choose(logp, request.params, draw.generator)
        draw.tokens.append(token)
        draw.logprobs.append(float(logp[token]))
        if request.topk:
            values, ids = logp.topk(request.topk)
            draw.tops.append((values, ids))
        if token in request.params.stop_tokens or self._ends_in_text(draw.tokens, request.params.stop_texts):
            draw.finished = "stop"
        elif len(draw.tokens) == request.params.max_tokens:
            draw.finished = "length"
        if request.on_token is not None and draw is request.draws[0]:
            request.on_token(token)

    def _ends_in_text(self, tokens: list[int], texts: tuple[str, ...]) -> bool:
        if not texts:
            return False
        longest = max(len(text.encode()) for text in texts)  # a token is at least a byte
        tail = self.detokenize(tokens[-longest - 4 :])
        return any(text in tail for text in texts)

    def _add(self, rows: list[_Row], keys_values: Tensor) -> None:
        if not rows:
            return
        length = keys_values.shape[2]
        self._reserve(length + 1)
        slots = self._cache.shape[3]
        padded = F.pad(keys_values, (0, 0, 0, 0, 0, slots - length))
        added = padded[:, :, None].expand(-1, -1, len(rows), -1, -1, -1)
        self._cache = torch.cat([self._cache, added], dim=2)
        self._rows += rows

    def _reserve(self, slots: int) -> None:
        missing = slots - self._cache.shape[3]
        if missing > 0:
            self._cache = F.pad(self._cache, (0, 0, 0, 0, 0, math.ceil(missing / _SLOTS) * _SLOTS))

    def _drop_finished(self) -> None:
        for row in self._rows:
            if row.draw.finished is None and row.request.cancelled():
                row.draw.finished = "length"
        kept = [i for i, row in enumerate(self._rows) if row.draw.finished is None]
        if len(kept) < len(self._rows):
            self._rows = [self._rows[i] for i in kept]
            slots = max((row.length for row in self._rows), default=0)
            self._cache = self._cache[:, :, kept, :slots]


def choose(logp: Tensor, params: SamplingParams, generator: torch.Generator) -> int:
    """One token from log-probabilities [V]: temperature, then top-k, then top-p, then one uniform draw."""
    if params.temperature == 0.0:
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


def _common(a: Tensor, b: Tensor) -> int:
    n = min(len(a), len(b))
    different = (a[:n] != b[:n]).nonzero()
    return int(different[0]) if len(different) else n
