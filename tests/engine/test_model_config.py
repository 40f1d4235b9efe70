import json

import pytest

from machine.engine.models.config import Config
from machine.errors import UsageError


def changed(source, folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return folder


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "qwen3_moe"}, "model_type qwen3_moe"),
        ({"model_type": "mistral"}, "model_type mistral"),
        ({"attention_bias": True}, "attention_bias"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"hidden_act": "gelu"}, "hidden_act gelu"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_type yarn"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}}, "rope_type dynamic"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 1]}}, "rope_type mrope"),
        ({"rope_scaling": {"type": "linear"}, "rope_parameters": None}, "linear with factor None"),
        ({"rope_scaling": {"partial_rotary_factor": 0.5}, "rope_parameters": None}, "partial_rotary_factor"),
        ({"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 16}, "use_sliding_window"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
    ],
)
def test_what_the_engine_cannot_run_is_refused_by_name(tiny_folder, tmp_path, change, named):
    with pytest.raises(UsageError, match=named) as refused:
        Config.read(changed(tiny_folder, tmp_path, **change))
    assert refused.value.next_step


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"max_position_embeddings": 10**12}, "max_position_embeddings"),
        ({"vocab_size": "many"}, "vocab_size"),
        ({"num_key_value_heads": 4}, "key-value heads"),
    ],
)
def test_a_damaged_config_is_refused_by_field(tiny_folder, tmp_path, change, named):
    with pytest.raises(UsageError, match=named):
        Config.read(changed(tiny_folder, tmp_path, **change))


def test_a_config_nested_without_end_is_refused(tiny_folder, tmp_path):
    folder = changed(tiny_folder, tmp_path)
    (folder / "config.json").write_text('{"a": ' + "[" * 100_000)
    with pytest.raises(UsageError, match=r"config\.json"):
        Config.read(folder)


def test_a_config_of_the_older_form_says_the_same(tiny_folder, tmp_path):
    linear = {"rope_type": "linear", "factor": 2.0}
    new = changed(tiny_folder, tmp_path / "a" / "m", rope_parameters={**linear, "rope_theta": 5e5})
    old = {"rope_parameters": None, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert Config.read(changed(tiny_folder, tmp_path / "b" / "m", **old)) == Config.read(new)


def test_the_end_tokens_are_those_that_generate_would_use(tiny_folder, tmp_path):
    assert Config.read(changed(tiny_folder, tmp_path)).end_tokens == (2,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 5]}')
    assert Config.read(tmp_path).end_tokens == (2, 5)


@pytest.mark.parametrize(
    ("place", "declared", "name"),
    [
        ("tiny", None, "tiny"),
        ("tiny", "acme/tiny", "acme/tiny"),
        ("tiny", "/data/checkpoints/run-7", "tiny"),
        ("hub/models--acme--tiny/snapshots/0a1b2c", "/data/checkpoints/run-7", "acme/tiny"),
    ],
)
def test_the_name_is_the_hubs_or_the_folders(tiny_folder, tmp_path, place, declared, name):
    assert Config.read(changed(tiny_folder, tmp_path / place, _name_or_path=declared)).name == name
