"""What can be read off a prompt while it is scored, beside its own log-probabilities.

A probe hears the model's log-probabilities [m, V] chunk by chunk, as the decoder computes them, and keeps the few
numbers that it is for. Row i of what it keeps belongs to prompt position i + 1: position 0 has nothing before it.
"""

import secrets

import torch
from torch import Tensor

from machine.engine.sampling.requests import COLDEST

_ALTERNATIVES = 0x5EED  # so that alternatives draw other numbers than the sequences of the same seed


class Targets:
    """The log-probabilities of given tokens.

    Cell c asks for `tokens[c]` at row `rows[c]` (rows ascend); a token of -1 asks for nothing and gets 0.
    """

    def __init__(self, rows: Tensor, tokens: Tensor) -> None:
        self.rows, self.tokens = rows, tokens
        self.logprobs = torch.zeros(len(tokens))

    def hear(self, position: int, logp: Tensor) -> None:
        """Takes `logp` [m, V] of the prompt positions from `position` on."""
        first = position - 1
        span = slice(*torch.searchsorted(self.rows, torch.tensor([first, first + len(logp)])).tolist())
        rows, tokens = (self.rows[span] - first).to(logp.device), self.tokens[span].to(logp.device)
        found = logp[rows, tokens.clamp(min=0)]
        self.logprobs[span] = torch.where(tokens < 0, 0.0, found).float().cpu()


class Alternatives:
    """Draws of `count` tokens at every row, independent and with replacement, at a temperature (0: the likeliest)."""

    def __init__(self, count: int, temperature: float, seed: int | None) -> None:
        self.count, self.temperature = count, temperature
        self.seed = (secrets.randbits(48) if seed is None else seed ^ _ALTERNATIVES) % 2**63
        self._generator: torch.Generator | None = None
        self._drawn: list[tuple[Tensor, Tensor]] = []

    def hear(self, position: int, logp: Tensor) -> None:
        """Takes `logp` [m, V] of the prompt positions from `position` on; chunks come in order."""
        if self._generator is None:
            self._generator = torch.Generator(logp.device).manual_seed(self.seed)
        if self.temperature < COLDEST:
            tokens = logp.argmax(-1, keepdim=True).expand(-1, self.count)
        else:
            chances = (logp / self.temperature).softmax(-1)
            tokens = torch.multinomial(chances, self.count, replacement=True, generator=self._generator)
        self._drawn.append((tokens.cpu(), logp.gather(1, tokens).float().cpu()))

    def drawn(self) -> tuple[Tensor, Tensor]:
        """Tokens and the model's log-probabilities of them, [rows, count] each."""
        if not self._drawn:
            return torch.zeros(0, self.count, dtype=torch.int64), torch.zeros(0, self.count)
        tokens, logprobs = zip(*self._drawn, strict=True)
        return torch.cat(tokens), torch.cat(logprobs)
