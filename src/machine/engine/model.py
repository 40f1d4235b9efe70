"""A Llama on torch: frozen base weights, tokens without padding, attention handed in by the caller.

`Llama.forward` takes T tokens with their positions and knows nothing of rows: which token sees which is the business
of an `Attend` function: `packing` has one for training, `sampling` one for prefill and one for decoding.
Letters in shapes: T tokens, d width, H query heads, K key-value heads, D head size, f MLP width, V vocabulary.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from machine.errors import UsageError

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [T, H, D], k [T, K, D], v [T, K, D]) -> [T, H * D]."""

MODULES = ("q", "k", "v", "o", "gate", "up", "down")
"""The linear layers of a block, in the order in which adapters list them."""


class Adapter(Protocol):
    """Low-rank updates to add to the linear layers (see `lora`)."""

    def add(self, y: Tensor, x: Tensor, layer: int, modules: Sequence[str]) -> Tensor:
        """`y` [T, sum of outputs] plus the updates of `modules`, which all read `x` [T, input]."""
        ...


@dataclass(frozen=True)
class Config:
    """The shape of a model, from its `config.json`."""

    name: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    mlp_width: int
    vocabulary: int
    context: int
    norm_eps: float
    rope_theta: float
    end_tokens: tuple[int, ...]

    @classmethod
    def read(cls, folder: Path) -> "Config":
        """Reads and checks `folder/config.json`.

        Raises:
            UsageError: not a model folder, or a model that is not of the plain Llama type.
        """
        try:
            raw: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{folder} is not a Hugging Face model folder: {error}",
                             next_step="give --model a folder that holds config.json") from error  # fmt: skip
        rope = raw.get("rope_parameters") or {}
        unsupported = [
            *(["model_type " + str(raw.get("model_type"))] if raw.get("model_type") != "llama" else []),
            *(["rope_scaling"] if raw.get("rope_scaling") or rope.get("rope_type", "default") != "default" else []),
            *[key for key in ("attention_bias", "mlp_bias") if raw.get(key)],
            *(["hidden_act " + str(raw.get("hidden_act"))] if raw.get("hidden_act", "silu") != "silu" else []),
        ]
        if unsupported:
            raise UsageError(f"the engine cannot run {folder.name}: {', '.join(unsupported)}",
                             next_step="use a plain Llama-type model such as SmolLM2")  # fmt: skip
        ends = raw["eos_token_id"] if isinstance(raw.get("eos_token_id"), list) else [raw.get("eos_token_id")]
        return cls(
            name=raw.get("_name_or_path") or folder.name,
            width=raw["hidden_size"],
            layers=raw["num_hidden_layers"],
            heads=raw["num_attention_heads"],
            kv_heads=raw.get("num_key_value_heads") or raw["num_attention_heads"],
            head_size=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
            mlp_width=raw["intermediate_size"],
            vocabulary=raw["vocab_size"],
            context=raw["max_position_embeddings"],
            norm_eps=raw["rms_norm_eps"],
            rope_theta=raw.get("rope_theta") or rope["rope_theta"],
            end_tokens=tuple(int(end) for end in ends if end is not None),
        )

    def sizes(self, module: str) -> tuple[int, int]:
        """(input, output) of a linear layer."""
        query, key = self.heads * self.head_size, self.kv_heads * self.head_size
        return {
            "q": (self.width, query),
            "k": (self.width, key),
            "v": (self.width, key),
            "o": (query, self.width),
            "gate": (self.width, self.mlp_width),
            "up": (self.width, self.mlp_width),
            "down": (self.mlp_width, self.width),
        }[module]


@dataclass(frozen=True)
class Block:
    """The weights of one layer, fused where they read the same input."""

    attention_norm: Tensor  # [d]
    qkv: Tensor  # [(H + 2K) * D, d]
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

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.float32) -> "Llama":
        """Reads a Hugging Face folder (safetensors only, one file or several).

        Raises:
            UsageError: no safetensors, a tensor missing, or a config that is not supported.
        """
        config = Config.read(folder)
        read = _Reader(folder, dtype)

        def block(i: int) -> Block:
            attention, mlp = f"model.layers.{i}.self_attn", f"model.layers.{i}.mlp"
            return Block(
                attention_norm=read(f"model.layers.{i}.input_layernorm.weight"),
                qkv=torch.cat([read(f"{attention}.{n}_proj.weight") for n in "qkv"]),
                o=read(f"{attention}.o_proj.weight"),
                mlp_norm=read(f"model.layers.{i}.post_attention_layernorm.weight"),
                gate_up=torch.cat([read(f"{mlp}.{n}_proj.weight") for n in ("gate", "up")]),
                down=read(f"{mlp}.down_proj.weight"),
            )

        embedding = read("model.embed_tokens.weight")
        head = read("lm_head.weight") if "lm_head.weight" in read.files else embedding
        cos, sin = _rotary(config, dtype)
        blocks = tuple(block(i) for i in range(config.layers))
        return cls(config, embedding, head, read("model.norm.weight"), blocks, cos, sin)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        attend: Attend,
        adapter: Adapter | None = None,
        *,
        checkpointed: bool = False,
    ) -> Tensor:
        """Hidden states [T, d] after the final norm, for `tokens` [T] at `positions` [T].

        `checkpointed` keeps one activation a layer and computes the others again on the way back.
        """
        cos, sin = self.cos[positions, None], self.sin[positions, None]  # [T, 1, D]
        x = F.embedding(tokens, self.embedding)
        for i in range(self.config.layers):
            if checkpointed:
                x = checkpoint(self._block, x, i, cos, sin, attend, adapter, use_reentrant=False)
            else:
                x = self._block(x, i, cos, sin, attend, adapter)
        return self._normed(x, self.norm)

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 scores [T, V] of the next token."""
        return F.linear(hidden, self.head).float()

    def with_blocks(self, blocks: Sequence[Block]) -> "Llama":
        """The same model with other block weights; everything else is shared."""
        return replace(self, blocks=tuple(blocks))

    def _block(self, x: Tensor, i: int, cos: Tensor, sin: Tensor, attend: Attend, adapter: Adapter | None) -> Tensor:
        block, c = self.blocks[i], self.config
        h = self._normed(x, block.attention_norm)
        qkv = _linear(h, block.qkv, adapter, i, ("q", "k", "v"))
        q, k, v = torch.split(qkv.view(len(x), -1, c.head_size), [c.heads, c.kv_heads, c.kv_heads], dim=1)
        mixed = attend(i, _rotated(q, cos, sin), _rotated(k, cos, sin), v)
        x = x + _linear(mixed, block.o, adapter, i, ("o",))
        h = self._normed(x, block.mlp_norm)
        gate, up = _linear(h, block.gate_up, adapter, i, ("gate", "up")).chunk(2, dim=-1)
        return x + _linear(F.silu(gate) * up, block.down, adapter, i, ("down",))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (self.config.width,), weight, self.config.norm_eps)


def _linear(x: Tensor, weight: Tensor, adapter: Adapter | None, layer: int, modules: Sequence[str]) -> Tensor:
    y = F.linear(x, weight)
    return y if adapter is None else adapter.add(y, x, layer, modules)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def _rotary(config: Config, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    exponents = torch.arange(0, config.head_size, 2).float() / config.head_size
    angles = torch.outer(torch.arange(config.context).float(), 1.0 / config.rope_theta**exponents)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


class _Reader:
    """Tensors of a folder by name, converted one at a time."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.folder, self.dtype = folder, dtype
        self.files: dict[str, Any] = {}
        for path in sorted(folder.glob("*.safetensors")):
            file = safe_open(str(path), framework="pt")
            self.files |= dict.fromkeys(file.keys(), file)  # type: ignore[no-untyped-call]
        if not self.files:
            raise UsageError(f"{folder} holds no safetensors", next_step="use a model folder with *.safetensors")

    def __call__(self, name: str) -> Tensor:
        if name not in self.files:
            raise UsageError(f"{self.folder} lacks the tensor {name}", next_step="fetch the model again")
        tensor: Tensor = self.files[name].get_tensor(name)
        return tensor.to(self.dtype)
