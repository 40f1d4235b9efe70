"""Rows of tokens packed into one sequence without padding, a common prefix once (letters in shapes as in `model`)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from machine.engine.attention import attention, causal_mask


@dataclass(frozen=True)
class Packed:
    """Rows in one sequence of tokens: a prefix that all rows begin with, once, then what each row has of its own.

    `spans[r]` is where row r's own tokens lie; they see the prefix and, causally, themselves.
    """

    tokens: Tensor  # [T] int64
    positions: Tensor  # [T] int64
    prefix: int
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], prefix: int) -> "Packed":
        """Packs `rows`, whose first `prefix` tokens are the same."""
        tokens, positions, spans = list(rows[0][:prefix]), list(range(prefix)), []
        for row in rows:
            spans.append((len(tokens), len(tokens) + len(row) - prefix))
            tokens += row[prefix:]
            positions += range(prefix, len(row))
        return cls(torch.tensor(tokens), torch.tensor(positions), prefix, tuple(spans))

    def places(self, row: int) -> Tensor:
        """Where in the packed sequence the tokens of a row lie: [length of the row]."""
        start, stop = self.spans[row]
        return torch.cat([torch.arange(self.prefix), torch.arange(start, stop)])


class PackedAttention:
    """Causal attention within each row of a `Packed`."""

    def __init__(self, packed: Packed) -> None:
        self.packed = packed
        self._masks: dict[int, Tensor] = {}

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `Attend`."""
        p = self.packed.prefix
        mixed = [attention(q[:p], k[:p], v[:p])] if p else []
        for start, stop in self.packed.spans:
            if start == stop:
                continue
            own = slice(start, stop)
            if p:
                keys, values = torch.cat([k[:p], k[own]]), torch.cat([v[:p], v[own]])
                mixed.append(attention(q[own], keys, values, self._mask(stop - start)))
            else:
                mixed.append(attention(q[own], k[own], v[own]))
        return torch.cat(mixed)

    def _mask(self, n: int) -> Tensor:
        if n not in self._masks:
            self._masks[n] = causal_mask(n, self.packed.prefix)
        return self._masks[n]
