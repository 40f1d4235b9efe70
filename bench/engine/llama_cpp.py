"""llama.cpp as a yardstick: a model folder written as a float16 GGUF, and answers from the `xllamacpp` wheel."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from machine.engine.models.llama import Llama


def write_f16(model: Llama, folder: Path, path: Path) -> None:
    """Writes a plain Llama, loaded from `folder`, with its BPE tokenizer: matrices in float16, norms in float32."""
    c = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(c.context)
    writer.add_embedding_length(c.width)
    writer.add_block_count(c.layers)
    writer.add_feed_forward_length(c.mlp_width)
    writer.add_head_count(c.heads)
    writer.add_head_count_kv(c.kv_heads)
    writer.add_layer_norm_rms_eps(c.norm_eps)
    writer.add_rope_freq_base(c.rope.theta)
    writer.add_rope_dimension_count(c.head_size)
    writer.add_vocab_size(c.vocabulary)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(c.end_tokens[0])

    def matrix(name: str, weight: torch.Tensor) -> None:
        writer.add_tensor(f"{name}.weight", weight.numpy().astype(np.float16))

    matrix("token_embd", model.embedding)
    writer.add_tensor("output_norm.weight", model.norm.numpy())
    for i, block in enumerate(model.blocks):
        q, k, v = block.qkv.split([n * c.head_size for n in (c.heads, c.kv_heads, c.kv_heads)])
        gate, up = block.gate_up.chunk(2)
        matrix(f"blk.{i}.attn_q", _interleaved(q, c.heads))
        matrix(f"blk.{i}.attn_k", _interleaved(k, c.kv_heads))
        others = {"attn_v": v, "attn_output": block.o, "ffn_gate": gate, "ffn_up": up, "ffn_down": block.down}
        for name, weight in others.items():
            matrix(f"blk.{i}.{name}", weight)
        writer.add_tensor(f"blk.{i}.attn_norm.weight", block.attention_norm.numpy())
        writer.add_tensor(f"blk.{i}.ffn_norm.weight", block.mlp_norm.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows in the order of llama.cpp's rotary embedding: the pairs that turn together side by side."""
    rows, width = weight.shape
    return weight.view(heads, 2, rows // heads // 2, width).transpose(1, 2).reshape(rows, width).contiguous()


class LlamaCpp:
    """A model in llama.cpp's server, on the processor."""

    def __init__(self, path: Path, threads: int) -> None:
        import xllamacpp

        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx = 4096
        parameters.n_parallel = 1
        parameters.n_gpu_layers = 0
        parameters.cpuparams.n_threads = threads
        parameters.cpuparams_batch.n_threads = threads
        parameters.verbosity = -1
        self._server = xllamacpp.Server(parameters)

    def answer(self, prompt: list[int], tokens: int) -> dict[str, Any]:
        """Greedy answer to a prompt of token ids; its `timings` hold `predicted_per_second`."""
        asked = {"prompt": prompt, "n_predict": tokens, "temperature": 0.0, "ignore_eos": True, "cache_prompt": False,
                 "return_tokens": True}  # fmt: skip
        result: dict[str, Any] = self._server.handle_completions(asked)
        return result
