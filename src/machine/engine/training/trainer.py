"""Training: the forward and backward pass over a batch of datums.

Rows that begin with the same tokens, as an agent's rows do with their system prompt, share the work: the batch is a
tree of segments (`packing`), walked from the top. A segment is computed once; what lies below it sees its keys and
values, and gives their gradients back before the segment's own backward pass. The sum is the gradient of the rows one
by one. In memory at any moment: the segments from the top down to one pass of `MICRO_BATCH` tokens.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from machine.engine.faults import Fault
from machine.engine.models.llama import Llama
from machine.engine.models.lora import Lora
from machine.engine.training.losses import Loss
from machine.engine.training.optimizer import Adam, AdamParams
from machine.engine.training.packing import Past, Segment, SegmentAttention, passes, prefix_tree

MICRO_BATCH = 1024
"""Tokens that pass through the model at once; a longer segment goes alone, with activations computed twice."""
HEAD_CHUNK = 256
"""Places whose scores [chunk, V] are in memory at once."""


@dataclass(frozen=True)
class Datum:
    """One row: `tokens` of length n; `targets` [n], or [n, k] where a token has several; inputs shaped like them."""

    tokens: list[int]
    targets: Tensor
    inputs: Mapping[str, Tensor]


@dataclass(frozen=True)
class Outcome:
    """The summed loss and, for each datum, the log-probabilities of its targets, shaped like them.

    `tokens` were in the rows; `computed` of them passed through the model.
    """

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


def forward_backward(
    model: Llama,
    lora: Lora,
    data: Sequence[Datum],
    loss: Loss,
    *,
    backward: bool,
    pause: Callable[[], None] = lambda: None,
) -> Outcome:
    """The loss of a batch; if `backward`, its gradient is added to the adapter's.

    `pause` is called before each pass; what it raises ends the batch.

    Raises:
        Fault: the loss is not finite. Then, as after any failure, the adapter's gradients are what they were.
    """
    batch = _Batch(model, lora, data, loss, backward, pause)
    tree = prefix_tree([np.array(datum.tokens, np.int64) for datum in data])
    with _all_or_nothing(lora.parameters) if backward else contextlib.nullcontext():
        batch.walk(tree, None)
        if not math.isfinite(batch.loss):
            raise Fault(f"data: the loss is {batch.loss}; nothing was learnt", next_step="lower the learning rate")
    return Outcome(batch.loss, batch.logprobs, sum(len(datum.tokens) for datum in data), batch.computed)


@contextlib.contextmanager
def _all_or_nothing(parameters: Mapping[str, Tensor]) -> Iterator[None]:
    """Gradients made inside are added to those from before, or dropped if it fails."""
    before = {key: parameter.grad for key, parameter in parameters.items()}
    for parameter in parameters.values():
        parameter.grad = None
    try:
        yield
    except BaseException:
        for key, parameter in parameters.items():
            parameter.grad = before[key]
        raise
    for key, parameter in parameters.items():
        if (old := before[key]) is not None:
            parameter.grad = old if parameter.grad is None else old.add_(parameter.grad)


@dataclass(frozen=True)
class _Entries:
    """The targets of one pass over T places, E in all: for each its place, its token, and what the loss needs."""

    places: Tensor  # [E]
    targets: Tensor  # [E]
    inputs: dict[str, Tensor]  # [E] each
    homes: list[Tensor]  # parts of the datums' log-probabilities, E numbers in all, in the order of the entries


class _Batch:
    """One call of `forward_backward` on its way through the tree."""

    def __init__(
        self,
        model: Llama,
        lora: Lora,
        data: Sequence[Datum],
        loss: Loss,
        backward: bool,
        pause: Callable[[], None],
    ) -> None:
        self.model, self.lora, self.data, self.loss_function, self.backward = model, lora, data, loss, backward
        self.pause = pause
        self.logprobs = [torch.zeros(datum.targets.shape) for datum in data]
        self.loss, self.computed = 0.0, 0

    def walk(self, segments: Sequence[Segment], past: Past | None) -> None:
        """Computes segments and everything below them; gradients for what lies above gather in `past`."""
        for group in passes(segments, MICRO_BATCH):
            self.pause()
            self._pass(group, past)

    def _pass(self, group: list[Segment], past: Past | None) -> None:
        children = group[0].children
        tokens = np.concatenate([segment.tokens for segment in group])
        positions = np.concatenate([np.arange(segment.start, segment.stop) for segment in group])
        self.computed += len(tokens)
        attend = SegmentAttention([len(segment.tokens) for segment in group], past, keep=bool(children))
        with torch.set_grad_enabled(self.backward):
            hidden = self.model.forward(
                torch.from_numpy(tokens),
                torch.from_numpy(positions),
                attend,
                self.lora,
                checkpointed=self.backward and len(tokens) > MICRO_BATCH,
            )  # [T, d]
        gradient = self._score(self._entries(group), hidden.detach())
        wanted = [(hidden, gradient)] if gradient is not None else []
        if children:
            below = Past.join(past, attend.keys, attend.values, grad=self.backward)
            self.walk(children, below)
            if self.backward:
                wanted += zip([*attend.keys, *attend.values], below.gradients(past), strict=True)
        wanted = [(y, dy) for y, dy in wanted if y.requires_grad]  # keys of the first layer may not
        if wanted:
            torch.autograd.backward([y for y, _ in wanted], [dy for _, dy in wanted])

    def _entries(self, group: Sequence[Segment]) -> _Entries:
        places, targets, homes, offset = [], [], [], 0
        inputs: dict[str, list[Tensor]] = {key: [] for key in self.data[0].inputs}
        for segment in group:
            part = slice(segment.start, segment.stop)
            for row in segment.rows:
                datum = self.data[row]
                each = datum.targets[part]  # [n] or [n, k]
                targets.append(each.flatten())
                places.append(torch.arange(offset, offset + len(each)).repeat_interleave(each[0].numel()))
                homes.append(self.logprobs[row][part])
                for key, values in inputs.items():
                    values.append(datum.inputs[key][part].flatten())
            offset += len(segment.tokens)
        device = self.model.device
        joined = {key: torch.cat(values).to(device) for key, values in inputs.items()}
        return _Entries(torch.cat(places).to(device), torch.cat(targets).to(device), joined, homes)

    @torch.no_grad()
    def _score(self, entries: _Entries, hidden: Tensor) -> Tensor | None:
        """Adds the loss, fills in the log-probabilities, and gives dloss/dhidden [T, d], or None where it is zero.

        With z = head h, p = softmax(z) and c = df/dlogp summed over the targets t of a place:
        dlogp/dz = onehot(t) - p, so dloss/dh = (sum of c onehot(t) - (sum of c) p) head. Where the adapter covers the
        head, z has its update, and its gradients are added here.
        """
        order = entries.places.argsort(stable=True)
        places = entries.places[order]
        logp = torch.empty(len(order), device=hidden.device)
        gradient = None
        for start in range(0, len(hidden), HEAD_CHUNK):
            z = self.model.logits(hidden[start : start + HEAD_CHUNK], self.lora)  # [chunk, V]
            log_z = z.logsumexp(dim=-1)
            first, last = torch.searchsorted(places, places.new_tensor([start, start + len(z)])).tolist()
            which, local = order[first:last], places[first:last] - start
            targets = entries.targets[which]
            logp[which] = z[local, targets] - log_z[local]
            value, c = self.loss_function(logp[which], {key: x[which] for key, x in entries.inputs.items()})
            self.loss += float(value.sum())
            if self.backward and (active := c != 0).any():
                kept, dz = _dz(z, log_z, local[active], targets[active], c[active])
                gradient = torch.zeros_like(hidden) if gradient is None else gradient
                gradient[start + kept] = self._through_head(dz.to(hidden.dtype), hidden[start + kept])
        sizes = [home.numel() for home in entries.homes]
        for home, values in zip(entries.homes, torch.split(logp, sizes), strict=True):
            home.copy_(values.view(home.shape))
        return gradient

    def _through_head(self, dz: Tensor, hidden: Tensor) -> Tensor:
        """dloss/dhidden [n, d] for dloss/dz [n, V]; the adapter's own gradients are added to it."""
        gradient = F.linear(dz, self.model.head.t())
        update = self.lora.unembed_backward(dz, hidden)
        return gradient if update is None else gradient.add_(update)


def _dz(z: Tensor, log_z: Tensor, local: Tensor, targets: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The places [n] that `local` [E] names, and dloss/dz [n, V] there, for scores `z` [chunk, V]."""
    kept, index = torch.unique(local, return_inverse=True)
    total = c.new_zeros(len(kept)).index_add_(0, index, c)
    dz = (z[kept] - log_z[kept, None]).exp_().mul_(-total[:, None])
    return kept, dz.index_put_((index, targets), c, accumulate=True)


def check_length(length: int, context: int, name: str) -> None:
    """Refuses a row that the model cannot hold.

    Raises:
        Fault: it is empty or longer than the context.
    """
    if not 0 < length <= context:
        raise Fault(f"{name}: {length} tokens; the model takes 1 to {context}", next_step="shorten or drop the row")
