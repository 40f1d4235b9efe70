"""Decoding: reads prompts chunk by chunk, with a prefix cache, then draws tokens for many sequences in one batch.

A `Decoder` serves requests against one set of weights. New requests join between two steps and finished sequences
leave, so that concurrent requests share each pass over the weights; a long prompt is read between the steps of others.
Every sequence draws from a generator of its own: what it gets depends on its seed and, up to floating-point rounding,
not on its neighbours. With few sequences a pass also checks guessed tokens (`lookup`): each position draws from the
model's distribution as it would without guesses, and the pass counts as far as draws and guesses agree.

Shapes: T tokens of all sequences, L layers, P prompt tokens; other letters as in `llama`.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from machine.engine.faults import Fault
from machine.engine.models.attention import attention, causal_mask
from machine.engine.sampling.caches import Batch, Cache
from machine.engine.sampling.lookup import Lookup
from machine.engine.sampling.passes import Pass
from machine.engine.sampling.prefixes import PrefixCache
from machine.engine.sampling.requests import Draw, SampleRequest, choose

MAX_BATCH = 32
"""Sequences that decode together."""
CHUNK = 256
"""Tokens of a prompt that are read in one pass; between two passes others decode, and a request may be given up."""
GUESSERS, GUESSES = 4, 15
"""Sequences up to which guesses are made, and the most guessed tokens in a pass."""

_CPU = torch.device("cpu")


@dataclass(eq=False)
class _Reading:
    """A request whose prompt is being read."""

    request: SampleRequest
    tokens: Tensor  # [P], on the CPU
    keys_values: Tensor  # [L, 2, K, P, D]
    read: int
    scores: list[Tensor] = field(default_factory=list)
    tops: list[tuple[Tensor, Tensor]] = field(default_factory=list)


@dataclass(eq=False)
class _Row:
    """A sequence that grows; its last token is not in the cache yet."""

    request: SampleRequest
    draw: Draw
    cache: Cache
    lookup: Lookup


class Decoder:
    """Requests being answered by one set of weights (`weights` names it in the prefix cache)."""

    def __init__(
        self,
        run: Pass,
        weights: str,
        prefixes: PrefixCache,
        detokenize: Callable[[list[int]], str],
        *,
        guessing: bool = True,
    ) -> None:
        self.run, self.weights, self.prefixes, self.detokenize = run, weights, prefixes, detokenize
        self.model, self.guessing = run.model, guessing
        self._reading: list[_Reading] = []
        self._rows: list[_Row] = []

    @property
    def active(self) -> int:
        """Sequences that are not finished."""
        return len(self._rows) + sum(reading.request.count for reading in self._reading)

    @torch.inference_mode()
    def admit(self, request: SampleRequest) -> None:
        """Takes a request in; its prompt is read by the steps that follow, after those of earlier requests."""
        request.weights = self.weights
        prompt = torch.tensor(request.prompt, device=_CPU)
        past = None if request.score_from is not None else self.prefixes.longest(self.weights, prompt)
        c = self.model.config
        keys_values = torch.empty(
            c.layers, 2, c.kv_heads, len(prompt), c.head_size, dtype=self.model.dtype, device=self.model.device
        )
        if past is not None:
            request.cached_tokens = past.shape[3]
            keys_values[:, :, :, : past.shape[3]] = past
        self._reading.append(_Reading(request, prompt, keys_values, request.cached_tokens))

    @torch.inference_mode()
    def step(self) -> None:
        """Reads a chunk of the first prompt that waits, then draws a token or more for every sequence."""
        self._drop_finished()
        if self._reading:
            self._read(self._reading[0])
        if self._rows:
            self._decode()
            self._drop_finished()

    def _read(self, reading: _Reading) -> None:
        """One chunk of a prompt; after the last one the request's sequences begin."""
        try:
            hidden = self._read_chunk(reading)
            if reading.read == len(reading.tokens):
                self._reading.remove(reading)
                self._begin(reading, hidden[-1:])
        except Exception as error:  # it is this request's alone, and the others go on
            self._reading = [other for other in self._reading if other is not reading]
            reading.request.error = error

    def _read_chunk(self, reading: _Reading) -> Tensor:
        """Hidden states [n, d] of the next chunk, whose keys and values are put where they belong."""
        start, stop = reading.read, min(reading.read + CHUNK, len(reading.tokens))
        mask = causal_mask(stop - start, start, self.model.device) if start else None

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            reading.keys_values[layer, :, :, start:stop] = torch.stack([k, v]).transpose(1, 2)
            keys, values = reading.keys_values[layer, :, :, :stop].transpose(1, 2)
            return attention(q, keys, values, mask)

        hidden = self.run.hidden(reading.tokens[start:stop], torch.arange(start, stop, device=_CPU), attend)
        reading.read = stop
        if reading.request.score_from is not None:
            self._score(reading, start, hidden)
        return hidden

    def _score(self, reading: _Reading, start: int, hidden: Tensor) -> None:
        """Log-probabilities of the prompt's own tokens: position t is scored by the hidden state of t - 1."""
        request = reading.request
        first = max(request.score_from or 1, start + 1)
        targets = reading.tokens[first : start + len(hidden) + 1]
        if len(targets) == 0:
            return
        logp = _logprobs(self.run.logits(hidden[first - 1 - start :][: len(targets)])).cpu()
        reading.scores.append(logp.gather(1, targets[:, None])[:, 0])
        for hear in request.probes:
            hear(first, logp)
        if request.score_topk:
            values, ids = logp.topk(request.score_topk, dim=-1)
            reading.tops.append((values, ids))

    def _begin(self, reading: _Reading, hidden: Tensor) -> None:
        """Draws the first token of each sequence from the hidden state [1, d] of the prompt's last token."""
        request = reading.request
        if request.score_from is not None:
            request.scores = torch.cat(reading.scores) if reading.scores else torch.empty(0, device=_CPU)
        if reading.tops:
            request.score_tops = (
                torch.cat([values for values, _ in reading.tops]),
                torch.cat([ids for _, ids in reading.tops]),
            )
        self.prefixes.keep(self.weights, reading.tokens, reading.keys_values)
        logp = _logprobs(self.run.logits(hidden)).cpu()[0]
        request.draws = _draws(request)
        for draw in request.draws:
            row = _Row(request, draw, Cache.after(reading.keys_values), Lookup(request.prompt))
            self._choose(row, logp)
            if draw.finished is None:
                self._rows.append(row)

    def _decode(self) -> None:
        """One pass: for every sequence its last token and what is guessed to follow it."""
        most = GUESSES // len(self._rows) if self.guessing and len(self._rows) <= GUESSERS else 0
        guesses = [row.lookup.guess(min(most, self._room(row))) for row in self._rows]
        logp = self._pass(guesses)
        start = 0
        for row, guess in zip(self._rows, guesses, strict=True):
            right = self._accept(row, guess, logp[start : start + 1 + len(guess)])
            row.lookup.learn(len(guess), right)
            start += 1 + len(guess)

    def _pass(self, guesses: list[list[int]]) -> Tensor:
        """Log-probabilities [T, V] of what follows each sequence's last token and each token of its guess."""
        given = [[row.draw.tokens[-1], *guess] for row, guess in zip(self._rows, guesses, strict=True)]
        for row, tokens in zip(self._rows, given, strict=True):
            row.cache.reserve(len(tokens))
        batch = Batch([row.cache for row in self._rows], [len(tokens) for tokens in given])
        return _logprobs(self.run(torch.tensor([t for tokens in given for t in tokens], device=_CPU), batch)).cpu()

    def _room(self, row: _Row) -> int:
        """Tokens that may be guessed: the draw that follows them must be wanted too."""
        return row.request.params.max_tokens - len(row.draw.tokens) - 1

    def _accept(self, row: _Row, guess: list[int], logp: Tensor) -> int:
        """Draws tokens as long as they are the guessed ones, and one more; says how many were."""
        right = 0
        for guessed, after in zip([*guess, None], logp, strict=True):
            row.cache.length += 1
            self._choose(row, after)
            if row.draw.finished is not None or row.draw.tokens[-1] != guessed:
                break
            right += 1
        return right

    def _choose(self, row: _Row, logp: Tensor) -> None:
        """Draws the next token of a sequence from `logp` [V] and decides whether it ends."""
        request, draw = row.request, row.draw
        if len(draw.tokens) >= request.params.max_tokens:
            draw.finished = "length"
            return
        token = choose(logp, request.params, draw.generator)
        draw.tokens.append(token)
        row.lookup.add(token)
        draw.logprobs.append(float(logp[token]))
        if not math.isfinite(draw.logprobs[-1]):
            _fail(request, Fault("the weights give numbers that are not finite", next_step="use other weights"))
            return
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

    def _drop_finished(self) -> None:
        """Lets go of sequences that have ended, and of requests that nobody waits for."""
        for request in {row.request: None for row in self._rows} | {r.request: None for r in self._reading}:
            if request.cancelled():
                request.draws = request.draws or _draws(request)
                for draw in request.draws:
                    draw.finished = draw.finished or "length"
        self._reading = [reading for reading in self._reading if not reading.request.done]
        self._rows = [row for row in self._rows if row.draw.finished is None]


def _logprobs(scores: Tensor) -> Tensor:
    """Of scores [n, V]; in float32 torch's log_softmax is off by 2e-5 for a large vocabulary, this by a tenth of it."""
    return scores - scores.logsumexp(dim=-1, keepdim=True)


def _fail(request: SampleRequest, fault: Fault) -> None:
    """Ends a request and its sequences; its neighbours go on."""
    request.error = fault
    for draw in request.draws:
        draw.finished = draw.finished or "length"


def _draws(request: SampleRequest) -> list[Draw]:
    base = request.params.seed if request.params.seed is not None else secrets.randbits(48)
    seeds = [(base * 1_000_003 + i) % 2**63 for i in range(request.count)]
    return [Draw(torch.Generator(_CPU).manual_seed(seed)) for seed in seeds]
