"""One pass over the weights while decoding: the next token's scores for every new token of a batch.

`Pass` is `Llama.forward` with attention over caches: torch's functions, on every device and in every type. `Compiled`
does the same for few tokens on a processor with `kernels`, which read each weight once and cost no call between one
operation and the next; it decodes several times as fast there. `for_decoding` takes the one that fits.

An adapter is applied as it is, beside the base's weights: so all passes over one base share those, whatever their
adapters, and those weights stay in the form that is read fastest.
"""

import copy
import importlib.util
import threading
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from machine.engine.models.attention import attention, causal_mask
from machine.engine.models.llama import Attend, Block, Llama
from machine.engine.models.lora import UNEMBED, Lora
from machine.engine.sampling.caches import Batch

FEW = 32
"""Tokens up to which a compiled pass is used; torch's matrix products are better at more."""

_alone = threading.Lock()  # numba's simplest threading layer must not be entered by two threads
_NOTHING = np.empty(0, np.float32)
_NO_UPDATE = np.empty((0, 0), np.float32), np.empty((0, 0), np.float32), np.empty(0, np.int64)
_FUSED = ("q", "k", "v"), ("o",), ("gate", "up"), ("down",)
"""The modules in each of a block's matrices, in the order of `_matrices`."""

_Update = tuple[Any, Any, Any]
"""See `kernels.product`."""


class Pass:
    """Passes of a model with torch's functions."""

    def __init__(self, model: Llama) -> None:
        self.model = model
        self.adapter: Lora | None = None

    def adapted(self, adapter: Lora) -> Self:
        """Passes of the same model with an adapter; they share the model's weights."""
        other = copy.copy(self)
        other.adapter = adapter
        return other

    @property
    def adapter_bytes(self) -> int:
        """Memory that the adapter takes."""
        return self._factor_bytes

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that a pass reads (of the embedding and the norms, too little to count)."""
        return sum(matrix.nbytes for matrix in self._all_matrices()) + self._factor_bytes

    def hidden(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """See `Llama.forward`."""
        return self.model.forward(tokens, positions, attend, self.adapter)

    def logits(self, hidden: Tensor) -> Tensor:
        """See `Llama.logits`."""
        return self.model.logits(hidden, self.adapter)

    @property
    def _factor_bytes(self) -> int:
        return 0 if self.adapter is None else sum(factor.nbytes for factor in self.adapter.parameters.values())

    def _all_matrices(self) -> list[Tensor]:
        return [self.model.head, *(matrix for block in self.model.blocks for matrix in _matrices(block))]

    def __call__(self, tokens: Tensor, batch: Batch) -> Tensor:
        """Float32 scores [T, V] of what follows each of `tokens` [T], which join the caches of `batch`."""

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            mixed = []
            for x, y, z, cache in zip(*(torch.split(t, batch.counts) for t in (q, k, v)), batch.caches, strict=True):
                end = cache.length + len(x)
                cache.own[layer, :, :, cache.length : end] = torch.stack([y, z]).transpose(1, 2)
                keys, values = torch.cat([cache.prompt[layer], cache.own[layer, :, :, :end]], dim=2).transpose(1, 2)
                mixed.append(attention(x, keys, values, causal_mask(len(x), cache.tokens, q.device)))
            return torch.cat(mixed)

        return self.logits(self.hidden(tokens, batch.positions, attend))


class Compiled(Pass):
    """Passes of a float32 model on the CPU.

    Weights that bfloat16 can hold without rounding (most models are published so) are read in that form, which halves
    the time; activations and sums are float32, so that the result is that of the float32 weights.
    """

    def __init__(self, model: Llama) -> None:
        from machine.engine.sampling import kernels  # needs numba

        super().__init__(model)
        self._kernels: Any = kernels
        exact = all(torch.equal(matrix.bfloat16().float(), matrix) for matrix in self._all_matrices())
        self._head = _packed(model.head, exact)
        self._weights = [tuple(_packed(matrix, exact) for matrix in _matrices(block)) for block in model.blocks]
        self._vectors = [_vectors(block) for block in model.blocks]
        self._updates: list[tuple[_Update, ...]] = [(_NO_UPDATE,) * len(_FUSED)] * len(model.blocks)
        self._head_update: _Update = _NO_UPDATE

    def adapted(self, adapter: Lora) -> Self:
        """See `Pass`."""
        other = super().adapted(adapter)
        other._updates = [
            tuple(_update(adapter, [f"{i}.{module}" for module in fused]) for fused in _FUSED)
            for i in range(len(self._weights))
        ]
        other._head_update = _update(adapter, [UNEMBED])
        return other

    @property
    def adapter_bytes(self) -> int:
        """See `Pass`; the factors are held as torch reads them and as the kernels do."""
        updates = [self._head_update, *(update for block in self._updates for update in block)]
        packed = [part for update in updates for part in update]
        return sum(int(part.nbytes) for part in packed) + self._factor_bytes

    @property
    def weight_bytes(self) -> int:
        """See `Pass`."""
        return (
            int(self._head.nbytes + sum(matrix.nbytes for weights in self._weights for matrix in weights))
            + self._factor_bytes
        )

    def __call__(self, tokens: Tensor, batch: Batch) -> Tensor:
        """See `Pass`."""
        if len(tokens) > FEW:
            return super().__call__(tokens, batch)
        model, kernels, eps = self.model, self._kernels, self.model.config.norm_eps
        x = model.embedding[tokens].numpy()
        cos, sin = (table[batch.positions, None].numpy() for table in (model.cos, model.sin))
        hidden, scores = np.empty_like(x), torch.empty(len(x), len(self._head), device=model.device)
        with _alone:
            for i, given in enumerate(zip(self._weights, self._vectors, self._updates, strict=True)):
                turned = cos if model.config.roped[i] else cos[:0]
                kernels.block(x, *given, turned, sin, eps, i, batch.places, batch.table)
            kernels.normed(x, model.norm.numpy(), eps, hidden)
            kernels.product(hidden, self._head, _NOTHING, self._head_update, scores.numpy())
        return scores


def for_decoding(model: Llama) -> Pass:
    """Compiled passes where they apply: float32, on the CPU, with numba installed."""
    return Compiled(model) if compiles(model) else Pass(model)


def compiles(model: Llama) -> bool:
    """Whether `for_decoding` takes compiled passes."""
    return model.device.type == "cpu" and model.dtype == torch.float32 and importlib.util.find_spec("numba") is not None


def prepare() -> None:
    """Has the kernels of compiled passes ready: compiles them (some 20 s) where that was not done before.

    What is compiled is kept on disk. Without numba there is nothing to do.
    """
    if importlib.util.find_spec("numba") is None:
        return
    from machine.engine.sampling import kernels

    with _alone:
        kernels.prepare()


def _matrices(block: Block) -> tuple[Tensor, ...]:
    return block.qkv, block.o, block.gate_up, block.down


def _vectors(block: Block) -> tuple[Any, ...]:
    vectors = block.attention_norm, block.qkv_bias, block.q_norm, block.k_norm, block.mlp_norm
    return tuple(_NOTHING if vector is None else vector.numpy() for vector in vectors)


def _packed(matrix: Tensor, exact: bool) -> Any:
    """The array that a kernel reads: the bits of bfloat16 (uint16) if they hold the matrix, else the float32."""
    return matrix.bfloat16().view(torch.uint16).numpy() if exact else matrix.numpy()


def _update(adapter: Lora, places: list[str]) -> _Update:
    """What an adapter adds to the product with a matrix that `places` ("3.q", ...) make up; B has the scale in it."""
    if f"{places[0]}.A" not in adapter.parameters:
        return _NO_UPDATE
    a, b = ([adapter.parameters[f"{place}.{factor}"].detach() for place in places] for factor in "AB")
    first = [np.full(len(factor), i * adapter.rank) for i, factor in enumerate(b)]
    return torch.cat(a).numpy(), (adapter.scale * torch.cat(b)).numpy(), np.concatenate(first)
