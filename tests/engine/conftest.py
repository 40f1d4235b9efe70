"""A tiny Llama made by transformers, and the real default model, each loaded once."""

from pathlib import Path

import pytest
import torch

from machine.engine.convert import ensure_model
from machine.engine.model import Llama

torch.set_num_threads(2)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, intermediate_size=96,
        vocab_size=97, max_position_embeddings=128, eos_token_id=2, initializer_range=0.2, tie_word_embeddings=True,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("tiny")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Llama:
    return Llama.load(tiny_folder)


@pytest.fixture(scope="session")
def small_folder() -> Path:
    return ensure_model()


@pytest.fixture(scope="session")
def small(small_folder: Path) -> Llama:
    return Llama.load(small_folder)
