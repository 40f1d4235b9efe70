"""Rows of tokens as a tree of segments, so that what rows begin with in common is computed once.

An agent's rows share their system prompt, and the rows of one conversation share its earlier turns. `prefix_tree`
finds the segments, `SegmentAttention` lets each token see what lies above its segment and, causally, the segment itself
(letters in shapes as in `llama`; P tokens above).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from machine.engine.models.attention import attention, causal_mask

MIN_SAVING = 64
"""Tokens that sharing a segment must save: a pass of its own costs about as much as some tens of tokens."""
MAX_DEPTH = 32
"""Segments above one another; rows that share more share it only down to here."""

Tokens = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(eq=False)
class Segment:
    """Tokens [n] at positions `start` to `start + n` of `rows`, which have the same tokens before it."""

    tokens: Tokens
    start: int
    rows: list[int]
    children: list["Segment"] = field(default_factory=list)

    @property
    def stop(self) -> int:
        """The position after the last token."""
        return self.start + len(self.tokens)


def prefix_tree(rows: Sequence[Tokens]) -> list[Segment]:
    """The segments that begin at position 0; those that follow are their `children`. Empty rows are in none."""
    order = sorted(range(len(rows)), key=lambda row: rows[row].astype(">i8").tobytes())
    common = [_common(rows[a], rows[b]) for a, b in pairwise(order)]
    return list(_segments(rows, order, common, start=0, depth=0))


def _segments(rows: Sequence[Tokens], order: list[int], common: list[int], start: int, depth: int) -> Iterator[Segment]:
    """Segments from `start` on of sorted rows; `common[i]` tokens are shared by rows i and i + 1 of `order`."""
    if depth == MAX_DEPTH:
        yield from (Segment(rows[row][start:], start, [row]) for row in order if len(rows[row]) > start)
        return
    for first, last in _runs(common, start):
        run, shared = order[first : last + 1], common[first:last]
        if first == last:
            if len(rows[run[0]]) > start:
                yield Segment(rows[run[0]][start:], start, run)
            continue
        stop = min(shared)
        if (stop - start) * (len(run) - 1) >= MIN_SAVING:
            below = list(_segments(rows, run, shared, stop, depth + 1))
            yield Segment(rows[run[0]][start:stop], start, run, below)
        else:
            for a, b in _runs(shared, stop):
                yield from _segments(rows, run[a : b + 1], shared[a:b], start, depth)


def _runs(common: Sequence[int], start: int) -> Iterator[tuple[int, int]]:
    """(first, last) of the neighbours that share more than `start` tokens."""
    first = 0
    for i, shared in enumerate(common):
        if shared <= start:
            yield first, i
            first = i + 1
    yield first, len(common)


def _common(a: Tokens, b: Tokens) -> int:
    n = min(len(a), len(b))
    different = a[:n] != b[:n]
    return int(different.argmax()) if different.any() else n


def passes(segments: Sequence[Segment], budget: int) -> Iterator[list[Segment]]:
    """Segments to compute side by side: leaves of up to `budget` tokens in all, others one by one."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        if segment.children:
            yield [segment]
            continue
        if group and size + len(segment.tokens) > budget:
            yield group
            group, size = [], 0
        group.append(segment)
        size += len(segment.tokens)
    if group:
        yield group


@dataclass
class Past:
    """Keys and values of the P tokens above a segment, by layer: leaves of the graph, where gradients gather."""

    keys: list[Tensor]  # layers x [P, K, D]
    values: list[Tensor]

    @classmethod
    def join(cls, above: "Past | None", keys: Sequence[Tensor], values: Sequence[Tensor], *, grad: bool) -> "Past":
        """What lies above the children of a segment with these keys and values [n, K, D]."""

        def joined(old: Sequence[Tensor] | None, new: Sequence[Tensor]) -> list[Tensor]:
            whole = new if old is None else [torch.cat([a.detach(), b]) for a, b in zip(old, new, strict=True)]
            return [x.detach().requires_grad_(grad) for x in whole]

        return cls(joined(above.keys if above else None, keys), joined(above.values if above else None, values))

    def gradients(self, above: "Past | None") -> list[Tensor]:
        """What the children asked of the segment's own keys, then values [n, K, D]; the rest is added to `above`."""
        leaves = [*self.keys, *self.values]
        parents = [*above.keys, *above.values] if above else [None] * len(leaves)
        return [_passed_up(leaf, parent) for leaf, parent in zip(leaves, parents, strict=True)]


def _passed_up(leaf: Tensor, parent: Tensor | None) -> Tensor:
    gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
    if parent is None:
        return gradient
    past, own = gradient[: len(parent)], gradient[len(parent) :]
    parent.grad = past.clone() if parent.grad is None else parent.grad.add_(past)
    return own


class SegmentAttention:
    """Attention for segments of these `lengths` side by side, all with the same `past`; see `llama.Attend`.

    `keys` and `values` hold what the layers had of each, for the segments below: layers x [T, K, D].
    """

    def __init__(self, lengths: Sequence[int], past: Past | None = None, *, keep: bool = False) -> None:
        self.past, self.keep = past, keep
        ends = np.cumsum([0, *lengths])
        self.spans = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self._masks: dict[int, Tensor] = {}

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [T, H, D], k and v [T, K, D] -> [T, H * D]."""
        if self.keep and layer == len(self.keys):  # a checkpointed layer comes twice
            self.keys.append(k)
            self.values.append(v)
        if self.past is None:
            return torch.cat([attention(q[own], k[own], v[own]) for own in self.spans])
        keys, values = self.past.keys[layer], self.past.values[layer]
        mixed = [
            attention(
                q[own], torch.cat([keys, k[own]]), torch.cat([values, v[own]]), self._mask(own.stop - own.start, q)
            )
            for own in self.spans
        ]
        return torch.cat(mixed)

    def _mask(self, n: int, like: Tensor) -> Tensor:
        if n not in self._masks:
            assert self.past is not None
            self._masks[n] = causal_mask(n, len(self.past.keys[0]), like.device)
        return self._masks[n]
