"""The keys and values of sequences that are being decoded.

Shapes: L layers, P prompt tokens, C slots for what follows the prompt; other letters as in `llama`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

_SLOTS = 64


@dataclass(eq=False)
class Cache:
    """Keys and values of one sequence: those of its prompt, which others may share, and its own after that."""

    prompt: Tensor  # [L, 2, K, P, D]
    own: Tensor  # [L, 2, K, C, D]
    length: int = 0  # slots of `own` in use

    @classmethod
    def after(cls, prompt: Tensor) -> "Cache":
        """Of a sequence that has nothing but its prompt."""
        return cls(prompt, prompt.new_empty(*prompt.shape[:3], _SLOTS, prompt.shape[4]))

    @property
    def tokens(self) -> int:
        """Tokens whose keys and values it holds."""
        return int(self.prompt.shape[3]) + self.length

    def reserve(self, more: int) -> None:
        """Makes room for so many tokens; doubles what it has when that is full."""
        slots = self.own.shape[3]
        if self.length + more > slots:
            self.own = F.pad(self.own, (0, 0, 0, max(slots, more)))


class Batch:
    """The caches of one pass, with the number of new tokens of each; they have room for them, and stay so meanwhile."""

    def __init__(self, caches: list[Cache], counts: list[int]) -> None:
        self.caches, self.counts = caches, counts

    @cached_property
    def positions(self) -> Tensor:
        """Where in its sequence each new token stands: [T]."""
        pairs = zip(self.caches, self.counts, strict=True)
        return torch.tensor([c.tokens + i for c, count in pairs for i in range(count)], device="cpu")

    @cached_property
    def places(self) -> Any:
        """See `kernels.attend`."""
        pairs = zip(self.caches, self.counts, strict=True)
        return np.array([(row, c.length + i) for row, (c, count) in enumerate(pairs) for i in range(count)])

    @cached_property
    def table(self) -> Any:
        """See `kernels.attend`."""
        return np.array([(c.prompt.data_ptr(), c.prompt.shape[3], c.own.data_ptr(), c.own.shape[3])
                         for c in self.caches])  # fmt: skip
