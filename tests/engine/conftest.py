"""Tiny models made by transformers, one of each family, and the real default model; each is loaded once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient
from transformers import PreTrainedTokenizerFast

from fixtures_engine import RunningEngine
from machine.engine.core import Engine
from machine.engine.models.convert import ensure_model
from machine.engine.models.llama import Llama
from machine.engine.server import build_app
from machine.renderers import load_tokenizer
from tinker import RestClient, ServiceClient

torch.set_num_threads(2)


SIZES = {
    "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 97, "max_position_embeddings": 128, "eos_token_id": 2, "pad_token_id": 0,
    "initializer_range": 0.2, "tie_word_embeddings": True,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
FAMILIES = {
    "llama": ("Llama", {}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": False}),
    "linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": False}),
    "smollm3": ("SmolLM3", {"num_hidden_layers": 3, "no_rope_layers": [1, 0, 1]}),
}


def save_tiny(family: str, folder: Path) -> Path:
    """A random model of the family, every vector of it (biases, norms) drawn too, as transformers saves it."""
    import transformers

    name, changes = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES | changes)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data.normal_(0.5, 0.3)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny("llama", tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Llama:
    return Llama.load(tiny_folder)


@pytest.fixture(scope="session", params=[*FAMILIES, "default"])
def each_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of every family, then the default model."""
    if request.param == "default":
        return ensure_model()
    return save_tiny(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session")
def each(each_folder: Path) -> Llama:
    return Llama.load(each_folder)


@pytest.fixture(scope="session")
def small_folder() -> Path:
    return ensure_model()


@pytest.fixture(scope="session")
def small(small_folder: Path) -> Llama:
    return Llama.load(small_folder)


@pytest.fixture(scope="session")
def tiny_smollm(tiny_folder: Path, small_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with the default one's tokenizer: an engine with it starts at once."""
    folder = tmp_path_factory.mktemp("tiny-smollm")
    for source in (*small_folder.glob("tokenizer*"), *tiny_folder.glob("*.safetensors"), tiny_folder / "config.json"):
        (folder / source.name).symlink_to(source)
    return folder


@pytest.fixture(scope="session")
def tiny_chat(small_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with the default one's tokenizer and a row for each of its tokens."""
    import transformers

    folder = tmp_path_factory.mktemp("tiny-chat")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES | {"vocab_size": 49152, "max_position_embeddings": 512})
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    for source in small_folder.glob("tokenizer*"):
        (folder / source.name).symlink_to(source)
    return folder


@pytest.fixture(scope="module")
def api(tiny_chat: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The whole application on a tiny model, in this process; what the engine does not foresee is raised here."""
    key = "tml-test"
    app = build_app(Engine(tiny_chat, tmp_path_factory.mktemp("state")), key)
    with TestClient(app, "http://localhost", headers={"X-API-Key": key}, follow_redirects=False) as client:
        yield client


@pytest.fixture(scope="module")
def service(engine: RunningEngine) -> Iterator[ServiceClient]:
    """The SDK's client of the running engine, with a session."""
    client = ServiceClient(base_url=engine.url, api_key=engine.key)
    yield client
    client.close("success").result()


@pytest.fixture(scope="module")
def rest(engine: RunningEngine) -> RestClient:
    """The SDK's client of the running engine, without a session."""
    return RestClient(base_url=engine.url, api_key=engine.key)


@pytest.fixture(scope="module")
def tokenizer(engine: RunningEngine) -> PreTrainedTokenizerFast:
    """The running engine's tokenizer."""
    return load_tokenizer(str(engine.model_path))
