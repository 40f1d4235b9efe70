"""Training: the forward and backward pass over a batch of datums.

Two savings, neither of which changes a number beyond rounding. The head (V x d, a quarter of a small model's work)
runs only where the loss has weight. And rows that begin with the same tokens, as an agent's rows do with their system
prompt, are packed so that the common prefix is computed once; its gradient is the sum of the rows', as it would be
apart.
So `forward_backward` reports log-probabilities at tokens with weight and 0 elsewhere; `forward` reports all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from machine.engine.faults import Fault
from machine.engine.lora import Lora
from machine.engine.losses import Loss
from machine.engine.model import Llama
from machine.engine.optimizer import Adam, AdamParams
from machine.engine.packing import Packed, PackedAttention

MICRO_BATCH = 1024
"""Tokens that pass through the model at once; a longer row goes alone, with activations computed twice."""
HEAD_CHUNK = 256
"""Targets whose scores [chunk, V] are in memory at once."""


@dataclass(frozen=True)
class Datum:
    """One row: `tokens` and `targets` of the same length n, and the loss's inputs [n] each."""

    tokens: list[int]
    targets: Tensor
    inputs: Mapping[str, Tensor]


@dataclass(frozen=True)
class Outcome:
    """The summed loss and, for each datum, the log-probabilities [n] of its targets."""

    loss: float
    logprobs: list[Tensor]
    tokens: int
    computed: int


@dataclass
class Trainee:
    """An adapter in training."""

    model_id: str
    lora: Lora
    optimizer: Adam = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = Adam(self.lora.parameters)

    def step(self, params: AdamParams) -> dict[str, float]:
        """One optimiser step; returns its metrics."""
        norm = self.optimizer.step(params)
        return {"grad_norm:mean": norm, "learning_rate:mean": params.learning_rate}


def forward_backward(model: Llama, lora: Lora, data: Sequence[Datum], loss: Loss, *, backward: bool) -> Outcome:
    """Adds the gradient of the summed loss to the adapter's (if `backward`); see the module's head for the outcome."""
    logprobs = [torch.zeros(len(datum.tokens)) for datum in data]
    total, computed = 0.0, 0
    for batch in micro_batches([datum.tokens for datum in data], MICRO_BATCH):
        rows = [data[i] for i in batch]
        packed = Packed.of([row.tokens for row in rows], common_prefix([row.tokens for row in rows]))
        computed += len(packed.tokens)
        total += _pass(model, lora, packed, rows, [logprobs[i] for i in batch], loss, backward)
    return Outcome(total, logprobs, sum(len(datum.tokens) for datum in data), computed)


def micro_batches(rows: Sequence[list[int]], budget: int) -> Iterator[list[int]]:
    """Groups of row indices, each within `budget` packed tokens (or one row), neighbours sharing long prefixes.

    A row joins a group only if that costs no more than its own length, that is, if no sharing is lost by it.
    """
    group: list[int] = []
    cost = 0
    for i in sorted(range(len(rows)), key=lambda i: (rows[i], i)):
        joined = _packed_length([rows[j] for j in [*group, i]])
        if group and (joined > budget or joined > cost + len(rows[i])):
            yield group
            group, joined = [], len(rows[i])
        group.append(i)
        cost = joined
    if group:
        yield group


def common_prefix(rows: Sequence[list[int]]) -> int:
    """How many tokens all rows begin with; 0 for a single row, which has nobody to share with."""
    if len(rows) == 1:
        return 0
    first, last = min(rows), max(rows)  # in lexicographic order the others lie between these two
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _packed_length(rows: Sequence[list[int]]) -> int:
    prefix = common_prefix(rows)
    return prefix + sum(len(row) - prefix for row in rows)


def _pass(
    model: Llama, lora: Lora, packed: Packed, rows: Sequence[Datum], out: Sequence[Tensor], loss: Loss, backward: bool
) -> float:
    """One packed forward (and backward) pass; fills `out` [n] of each row and returns the summed loss."""
    chosen = [loss.active(row.inputs) if backward else torch.ones(len(row.tokens), dtype=torch.bool) for row in rows]
    places = torch.cat([packed.places(i)[mask] for i, mask in enumerate(chosen)])  # [N] into the packed sequence
    if not len(places):
        return 0.0
    targets = torch.cat([row.targets[mask] for row, mask in zip(rows, chosen, strict=True)])  # [N]
    inputs = {
        key: torch.cat([row.inputs[key][mask] for row, mask in zip(rows, chosen, strict=True)])
        for key in rows[0].inputs
    }
    with torch.set_grad_enabled(backward):
        attend = PackedAttention(packed)
        long = len(packed.tokens) > MICRO_BATCH
        hidden = model.forward(packed.tokens, packed.positions, attend, lora, checkpointed=backward and long)
        hidden = hidden[places]  # [N, d]; a place of the shared prefix may occur for several rows
    logp, total, gradient = _head(model, hidden.detach(), targets, inputs, loss, backward)
    if gradient is not None:
        torch.autograd.backward(hidden, gradient)
    for mask, row_logp, values in zip(
        chosen, out, torch.split(logp, [int(mask.sum()) for mask in chosen]), strict=True
    ):
        row_logp[mask] = values
    return total


@torch.no_grad()
def _head(
    model: Llama, hidden: Tensor, targets: Tensor, inputs: Mapping[str, Tensor], loss: Loss, backward: bool
) -> tuple[Tensor, float, Tensor | None]:
    """Log-probabilities [N] of `targets` [N], the summed loss, and its gradient with respect to `hidden` [N, d].

    With p = softmax(z) and z = head h:  dlogp/dz = onehot(target) - p, so dloss/dh = c (onehot - p) head, c = df/dlogp.
    """
    logp, total = torch.empty(len(targets)), 0.0
    gradient = torch.empty_like(hidden) if backward else None
    for start in range(0, len(targets), HEAD_CHUNK):
        part = slice(start, start + HEAD_CHUNK)
        target = targets[part, None]
        z = model.logits(hidden[part])  # [chunk, V]
        log_z = z.logsumexp(dim=-1, keepdim=True)
        logp[part] = (z.gather(1, target) - log_z)[:, 0]
        value, c = loss(logp[part], {key: x[part] for key, x in inputs.items()})
        total += float(value.sum())
        if gradient is not None:
            dz = z.sub_(log_z).exp_().mul_(-c[:, None])  # -c p
            dz.scatter_add_(1, target, c[:, None])
            gradient[part] = F.linear(dz.to(hidden.dtype), model.head.t())
    return logp, total, gradient


def check_length(length: int, context: int, name: str) -> None:
    """Refuses a row that the model cannot hold.

    Raises:
        Fault: it is empty or longer than the context.
    """
    if not 0 < length <= context:
        raise Fault(f"{name}: {length} tokens; the model takes 1 to {context}", next_step="shorten or drop the row")
