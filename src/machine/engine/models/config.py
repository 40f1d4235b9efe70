"""The shape of a model, from its `config.json`: one record for every family that the engine runs.

Families differ in data only: which tensors a block has, and what `config.json` leaves unsaid. A model that needs more
than that (sliding window, yarn, experts, quantised weights ...) is refused by the name of what it needs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from machine.engine.models.rope import Rope
from machine.errors import UsageError

_Size = Annotated[int, msgspec.Meta(gt=0)]
_Layers = Annotated[int, msgspec.Meta(gt=0, le=1_000)]
_Context = Annotated[int, msgspec.Meta(gt=0, le=1 << 21)]
"""Beyond any model that there is: what is made for each layer and place is made before the weights are looked at."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Family:
    """What a model type has, and the values that its `config.json` may leave out."""

    qkv_bias: bool = False
    head_norms: bool = False  # an RMS norm over each head of q and k
    head_size: int | None = None
    rope_theta: float = 10_000.0
    rope_pause: int = 0  # every such layer has no rotary embedding
    tied: bool = False


FAMILIES = {
    "llama": Family(),  # SmolLM and SmolLM2 too
    "qwen2": Family(qkv_bias=True),  # Qwen2.5 too
    "qwen3": Family(head_norms=True, head_size=128),
    "smollm3": Family(rope_theta=2_000_000.0, rope_pause=4, tied=True),
}


class _File(msgspec.Struct):
    """The keys of `config.json` that matter."""

    model_type: str
    hidden_size: _Size
    num_hidden_layers: _Layers
    num_attention_heads: _Size
    intermediate_size: _Size
    vocab_size: _Size
    max_position_embeddings: _Context
    num_key_value_heads: _Size | None = None
    head_dim: _Size | None = None
    rms_norm_eps: float = 1e-6
    rope_theta: float | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    no_rope_layers: list[int] | None = None
    no_rope_layer_interval: _Size | None = None
    tie_word_embeddings: bool | None = None
    eos_token_id: int | list[int] | None = None
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    use_sliding_window: bool = False
    layer_types: list[str] | None = None
    quantization_config: dict[str, Any] | None = None
    name_or_path: str = msgspec.field(name="_name_or_path", default="")


@dataclass(frozen=True)
class Config:
    """The shape of a model. Letters as in `llama`."""

    name: str
    family: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    mlp_width: int
    vocabulary: int
    context: int
    norm_eps: float
    rope: Rope
    roped: tuple[bool, ...]  # [layers]: whether the layer turns its queries and keys
    qkv_bias: bool
    head_norms: bool
    tied: bool
    end_tokens: tuple[int, ...]

    @classmethod
    def read(cls, folder: Path) -> "Config":
        """Reads and checks `folder/config.json`, and the end tokens of `generation_config.json` where there is one.

        Raises:
            UsageError: not a model folder, or a model that the engine cannot run.
        """
        raw = _decoded(folder / "config.json", _File)
        family = FAMILIES.get(raw.model_type)
        if family is None:
            raise _refused(folder, [f"model_type {raw.model_type}"])
        settings = raw.rope_scaling or raw.rope_parameters or {}
        missing = _unsupported(raw, family)
        try:
            rope = Rope.read(settings, raw.rope_theta or family.rope_theta, raw.max_position_embeddings)
        except ValueError as error:
            missing.append(str(error))
        if missing:
            raise _refused(folder, missing)
        kv_heads = raw.num_key_value_heads or raw.num_attention_heads
        head_size = raw.head_dim or family.head_size or raw.hidden_size // raw.num_attention_heads
        if raw.num_attention_heads % kv_heads or head_size % 2:
            raise UsageError(
                f"{folder / 'config.json'}: {raw.num_attention_heads} heads, {kv_heads} key-value heads and head size "
                f"{head_size} do not fit together",
                next_step="fetch the model again",
            )
        return cls(
            name=_name(folder, raw.name_or_path),
            family=raw.model_type,
            width=raw.hidden_size,
            layers=raw.num_hidden_layers,
            heads=raw.num_attention_heads,
            kv_heads=kv_heads,
            head_size=head_size,
            mlp_width=raw.intermediate_size,
            vocabulary=raw.vocab_size,
            context=raw.max_position_embeddings,
            norm_eps=raw.rms_norm_eps,
            rope=rope,
            roped=_roped(raw, family),
            qkv_bias=family.qkv_bias,
            head_norms=family.head_norms,
            tied=family.tied if raw.tie_word_embeddings is None else raw.tie_word_embeddings,
            end_tokens=_end_tokens(folder, raw),
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
            "unembed": (self.width, self.vocabulary),
        }[module]


class _Generation(msgspec.Struct):
    eos_token_id: int | list[int] | None = None


def _decoded(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise UsageError(f"{path.parent} is not a Hugging Face model folder: {path.name}: {error.strerror}",
                         next_step="give --model a folder that holds config.json") from error  # fmt: skip
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not what a model's should be: {error}",
                         next_step="fetch the model again") from error  # fmt: skip


def _unsupported(raw: _File, family: Family) -> list[str]:
    slides = raw.layer_types is None or "sliding_attention" in raw.layer_types
    needs = {
        "attention_bias": raw.attention_bias and not family.qkv_bias,
        "mlp_bias": raw.mlp_bias,
        f"hidden_act {raw.hidden_act}": raw.hidden_act != "silu",
        "use_sliding_window": raw.use_sliding_window and slides,
        "quantization_config": raw.quantization_config is not None,
    }
    return [name for name, needed in needs.items() if needed]


def _refused(folder: Path, reasons: list[str]) -> UsageError:
    return UsageError(
        f"the engine cannot run {_name(folder, '')}: {', '.join(reasons)}",
        next_step=f"use an unquantised model of the type {', '.join(FAMILIES)}, such as SmolLM2 or Qwen3",
    )


def _roped(raw: _File, family: Family) -> tuple[bool, ...]:
    layers = range(raw.num_hidden_layers)
    if not family.rope_pause:
        return tuple(True for _ in layers)
    if raw.no_rope_layers is not None and len(raw.no_rope_layers) >= len(layers):
        return tuple(bool(raw.no_rope_layers[i]) for i in layers)
    pause = raw.no_rope_layer_interval or family.rope_pause
    return tuple((i + 1) % pause != 0 for i in layers)


def _end_tokens(folder: Path, raw: _File) -> tuple[int, ...]:
    """What ends a text: `generation_config.json` goes before `config.json`, as in transformers' own generate."""
    path = folder / "generation_config.json"
    ends = _decoded(path, _Generation).eos_token_id if path.is_file() else None
    ends = raw.eos_token_id if ends is None else ends
    return tuple(ends) if isinstance(ends, list) else () if ends is None else (ends,)


def _name(folder: Path, declared: str) -> str:
    """The model's name on the wire: the hub's for a snapshot of the hub's cache, else the folder's, with its owner
    where `config.json` tells it."""
    if folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--"):
        return folder.parent.parent.name.removeprefix("models--").replace("--", "/")
    return declared if declared.rpartition("/")[2] == folder.name and declared.count("/") == 1 else folder.name
