"""A Llama on torch: frozen base weights, tokens without padding, attention handed in by the caller.

One forward pass serves all families (Qwen2 adds biases to q, k and v, Qwen3 a norm over each head, SmolLM3 leaves some
layers without rotary embedding): what a family has is data in `Config` and `Block`.

`Llama.forward` takes T tokens with their positions and knows nothing of rows: which token sees which is the business
of an `Attend` function: `packing` has one for training, `sampling` one for prefill and one for decoding.
Letters in shapes: T tokens, d width, H query heads, K key-value heads, D head size, f MLP width, V vocabulary.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from machine.engine.models import device as devices
from machine.engine.models.config import Config
from machine.engine.models.rope import rotated
from machine.engine.models.weights import Weights

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [T, H, D], k [T, K, D], v [T, K, D]) -> [T, H * D]."""

_KEEP_ATTENTION = functools.partial(
    create_selective_checkpoint_contexts,
    [
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
        torch.ops.aten._scaled_dot_product_flash_attention.default,
        torch.ops.aten._scaled_dot_product_efficient_attention.default,
    ],
)
"""What a checkpointed layer keeps: attention is costly to compute again, and its result is small."""

MODULES = ("q", "k", "v", "o", "gate", "up", "down")
"""The linear layers of a block, in the order in which adapters list them."""


class Adapter(Protocol):
    """Low-rank updates to add to the linear layers (see `lora`)."""

    def add(self, y: Tensor, x: Tensor, layer: int, modules: Sequence[str]) -> Tensor:
        """`y` [T, sum of outputs] plus the updates of `modules`, which all read `x` [T, input]."""
        ...

    def add_unembed(self, scores: Tensor, hidden: Tensor) -> Tensor:
        """`scores` [T, V] plus the update of the unembedding, which reads `hidden` [T, d]."""
        ...


@dataclass(frozen=True)
class Block:
    """The weights of one layer, fused where they read the same input; None is what the model's family lacks."""

    attention_norm: Tensor  # [d]
    qkv: Tensor  # [(H + 2K) * D, d]
    qkv_bias: Tensor | None  # [(H + 2K) * D]
    q_norm: Tensor | None  # [D]
    k_norm: Tensor | None  # [D]
    o: Tensor  # [d, H * D]
    mlp_norm: Tensor  # [d]
    gate_up: Tensor  # [2f, d]
    down: Tensor  # [d, f]


@dataclass(frozen=True)
class Llama:
    """A model in memory; nothing in it requires a gradient."""

    config: Config
    embedding: Tensor  # [V, d]
    head: Tensor  # [V, d], the embedding itself where they are tied
    norm: Tensor  # [d]
    blocks: tuple[Block, ...]
    cos: Tensor  # [context, D]
    sin: Tensor  # [context, D]

    @property
    def dtype(self) -> torch.dtype:
        """The type of weights and activations."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        """Where weights and activations are."""
        return self.embedding.device

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.float32, device: torch.device | None = None) -> "Llama":
        """Reads a Hugging Face folder (safetensors only, one file or several).

        Args:
            folder: of a model that `config.Config` can read.
            dtype: the type to compute in, whatever the files hold.
            device: None is a GPU when torch sees one, the CPU otherwise.

        Raises:
            UsageError: a config that is not supported, a tensor missing or of the wrong shape, NaN in the weights.
        """
        config = Config.read(folder)
        device = device or devices.choose()
        read = Weights(folder, dtype, device)
        embedding = read("model.embed_tokens.weight", config.vocabulary, config.width)
        head = embedding if config.tied else read("lm_head.weight", config.vocabulary, config.width)
        blocks = tuple(_block(read, config, i) for i in range(config.layers))
        cos, sin = (table.to(device, dtype) for table in config.rope.tables(config.context, config.head_size))
        return cls(config, embedding, head, read("model.norm.weight", config.width), blocks, cos, sin)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        attend: Attend,
        adapter: Adapter | None = None,
        *,
        checkpointed: bool = False,
    ) -> Tensor:
        """Hidden states [T, d] after the final norm, for `tokens` [T] at `positions` [T], both on any device.

        `checkpointed` keeps two activations a layer, and computes the others again on the way back.
        """
        positions = positions.to(self.device)
        cos, sin = self.cos[positions, None], self.sin[positions, None]  # [T, 1, D]
        x = F.embedding(tokens.to(self.device), self.embedding)
        for i in range(self.config.layers):
            if checkpointed:
                x = checkpoint(
                    self._block, x, i, cos, sin, attend, adapter, use_reentrant=False, context_fn=_KEEP_ATTENTION
                )
            else:
                x = self._block(x, i, cos, sin, attend, adapter)
        return self._normed(x, self.norm)

    def logits(self, hidden: Tensor, adapter: Adapter | None = None) -> Tensor:
        """Float32 scores [T, V] of the next token, for hidden states [T, d]."""
        scores = F.linear(hidden, self.head)
        return (scores if adapter is None else adapter.add_unembed(scores, hidden)).float()

    def _block(self, x: Tensor, i: int, cos: Tensor, sin: Tensor, attend: Attend, adapter: Adapter | None) -> Tensor:
        block, c = self.blocks[i], self.config
        h = self._normed(x, block.attention_norm)
        qkv = _linear(h, block.qkv, adapter, i, ("q", "k", "v"), block.qkv_bias)
        q, k, v = torch.split(qkv.view(len(x), -1, c.head_size), [c.heads, c.kv_heads, c.kv_heads], dim=1)
        if block.q_norm is not None and block.k_norm is not None:
            q, k = self._normed(q, block.q_norm), self._normed(k, block.k_norm)
        if c.roped[i]:
            q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        x = x + _linear(attend(i, q, k, v), block.o, adapter, i, ("o",))
        h = self._normed(x, block.mlp_norm)
        gate, up = _linear(h, block.gate_up, adapter, i, ("gate", "up")).chunk(2, dim=-1)
        return x + _linear(F.silu(gate) * up, block.down, adapter, i, ("down",))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.config.norm_eps)


def _linear(
    x: Tensor, weight: Tensor, adapter: Adapter | None, layer: int, modules: Sequence[str], bias: Tensor | None = None
) -> Tensor:
    y = F.linear(x, weight, bias)
    return y if adapter is None else adapter.add(y, x, layer, modules)


def _block(read: Weights, config: Config, i: int) -> Block:
    c, layer = config, f"model.layers.{i}"
    attention, mlp = f"{layer}.self_attn", f"{layer}.mlp"

    def linear(name: str, module: str) -> Tensor:
        inputs, outputs = c.sizes(module)
        return read(f"{name}.{module}_proj.weight", outputs, inputs)

    def bias(module: str) -> Tensor:
        return read(f"{attention}.{module}_proj.bias", c.sizes(module)[1])

    return Block(
        attention_norm=read(f"{layer}.input_layernorm.weight", c.width),
        qkv=torch.cat([linear(attention, module) for module in ("q", "k", "v")]),
        qkv_bias=torch.cat([bias(module) for module in ("q", "k", "v")]) if c.qkv_bias else None,
        q_norm=read(f"{attention}.q_norm.weight", c.head_size) if c.head_norms else None,
        k_norm=read(f"{attention}.k_norm.weight", c.head_size) if c.head_norms else None,
        o=linear(attention, "o"),
        mlp_norm=read(f"{layer}.post_attention_layernorm.weight", c.width),
        gate_up=torch.cat([linear(mlp, module) for module in ("gate", "up")]),
        down=linear(mlp, "down"),
    )
