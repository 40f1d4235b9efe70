import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from machine.engine.models.llama import Llama
from machine.errors import UsageError

NORM = "model.layers.1.input_layernorm.weight"


@pytest.fixture
def folder(tiny_folder, tmp_path):
    return shutil.copytree(tiny_folder, tmp_path / "copy")


def rewrite(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def refused(folder, *named):
    with pytest.raises(UsageError) as error:
        Llama.load(folder)
    assert all(text in error.value.message for text in named), error.value.message
    assert error.value.next_step


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_a_tensor_that_is_not_finite_is_named(folder, poison):
    def change(tensors):
        tensors[NORM][3] = poison

    rewrite(folder, change)
    refused(folder, NORM, "NaN or infinity")


def test_a_wrong_shape_is_told_with_both_shapes(folder):
    rewrite(folder, lambda tensors: tensors.update({NORM: torch.ones(47)}))
    refused(folder, NORM, "[47]", "[48]")


def test_integers_are_refused(folder):
    rewrite(folder, lambda tensors: tensors.update({NORM: torch.ones(48, dtype=torch.int8)}))
    refused(folder, NORM, "int8")


def test_a_missing_tensor_is_named(folder):
    rewrite(folder, lambda tensors: tensors.pop(NORM))
    refused(folder, NORM)


def test_an_untied_model_needs_its_head(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    refused(folder, "lm_head.weight")


@pytest.mark.parametrize("bytes_kept", [0, 4, 100, -1])
def test_a_file_cut_short_is_told(folder, bytes_kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:bytes_kept])
    refused(folder, "model.safetensors", "cut short")


def test_a_folder_without_safetensors_is_told_and_a_pickle_is_not_read(folder):
    (folder / "model.safetensors").unlink()
    refused(folder, "no safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"anything")
    refused(folder, "pytorch_model.bin", "pickle")


def test_no_code_that_a_folder_names_or_holds_is_run(folder, tmp_path):
    ran = tmp_path / "ran"
    config = json.loads((folder / "config.json").read_text())
    code = {"auto_map": {"AutoConfig": "modeling.C", "AutoModelForCausalLM": "modeling.M"}, "trust_remote_code": True}
    (folder / "config.json").write_text(json.dumps(config | code | {"_name_or_path": "../elsewhere"}))
    (folder / "modeling.py").write_text(f"open({str(ran)!r}, 'w')\n")
    for name in ("pytorch_model.bin", "model.pt", "training_args.bin", "model.pkl"):
        (folder / name).write_bytes(pickle.dumps(Trap(ran)))
    assert Llama.load(folder).config.name == folder.name
    (folder / "model.safetensors").unlink()
    refused(folder, "no safetensors", "pickle")
    assert not ran.exists()


class Trap:
    """What touches `path` when its pickle is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path(self.path).touch, ())


@pytest.mark.parametrize(
    "name",
    ["../copy/model.safetensors", "/etc/passwd", "..", "", "a.bin", "a\0.safetensors", "x" * 999, 5, None, "\ud800"],
)
def test_an_index_names_files_of_its_own_folder_alone(folder, name):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {NORM: name}}))
    refused(folder, "no safetensors file beside it")


def test_an_index_nested_without_end_is_refused(folder):
    (folder / "model.safetensors.index.json").write_text('{"weight_map": ' + "[" * 100_000)
    refused(folder, "index.json is damaged")


def test_a_pipe_in_the_place_of_weights_is_not_waited_for(folder):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {NORM: "pipe.safetensors"}}))
    os.mkfifo(folder / "pipe.safetensors")
    refused(folder, "pipe.safetensors is no file")


@pytest.mark.parametrize("dtype", ["F4", "F8_E4M3", "C64", "BOOL", "U64"])
def test_numbers_of_an_odd_format_are_refused(folder, dtype):
    path = folder / "model.safetensors"
    size = int.from_bytes(path.read_bytes()[:8], "little")
    head = json.loads(path.read_bytes()[8 : 8 + size])
    bits = {"F4": 4, "F8_E4M3": 8, "C64": 64, "BOOL": 8, "U64": 64}[dtype]
    tensor = {"dtype": dtype, "shape": [97, 48], "data_offsets": [0, 97 * 48 * bits // 8]}
    text = json.dumps({"model.embed_tokens.weight": tensor, "__metadata__": head["__metadata__"]}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(97 * 48 * bits // 8))
    refused(folder, "model.embed_tokens.weight")


def test_sharded_weights_are_the_same_weights(tiny, tiny_folder, folder, tmp_path):
    from transformers import AutoModelForCausalLM

    sharded = tmp_path / "sharded"
    AutoModelForCausalLM.from_pretrained(folder).save_pretrained(sharded, max_shard_size="20KB")
    shards = sorted(sharded.glob("model-*.safetensors"))
    assert len(shards) > 2
    for ours, single in zip(Llama.load(sharded).blocks, tiny.blocks, strict=True):
        assert torch.equal(ours.qkv, single.qkv)
        assert torch.equal(ours.down, single.down)
    shards[1].unlink()
    refused(sharded, shards[1].name, "missing")
