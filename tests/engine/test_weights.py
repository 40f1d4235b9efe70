import json
import shutil

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
