import json

import pytest
import torch

from machine.engine.model import Config, Llama
from machine.engine.packing import Packed, PackedAttention
from machine.errors import UsageError

ROWS = [[5, 6, 7, 8, 9, 10], [5, 6, 7, 11], [5, 6, 7]]


def hidden(model, rows, prefix, **options):
    packed = Packed.of(rows, prefix)
    out = model.forward(packed.tokens, packed.positions, PackedAttention(packed), **options)
    return [out[packed.places(i)] for i in range(len(rows))]


@pytest.mark.parametrize("which", ["tiny", "small"])
def test_logprobs_equal_transformers(which, request):
    from transformers import AutoModelForCausalLM

    model = request.getfixturevalue(which)
    reference = AutoModelForCausalLM.from_pretrained(request.getfixturevalue(f"{which}_folder"), dtype=torch.float32)
    row = torch.randint(3, model.config.vocabulary, (40,), generator=torch.Generator().manual_seed(0)).tolist()
    with torch.inference_mode():
        ours = model.logits(hidden(model, [row], 0)[0]).log_softmax(-1)
        theirs = reference(torch.tensor([row])).logits[0].log_softmax(-1)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_shared_prefix_changes_nothing(tiny):
    apart = [hidden(tiny, [row], 0)[0] for row in ROWS]
    for prefix in (0, 2, 3):
        for ours, expected in zip(hidden(tiny, ROWS, prefix), apart, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_rows_do_not_see_each_other(tiny):
    first = hidden(tiny, [ROWS[0], ROWS[1]], 3)[0]
    torch.testing.assert_close(hidden(tiny, [ROWS[0], [5, 6, 7, 50, 51]], 3)[0], first)


@pytest.mark.parametrize(
    "change", [{"model_type": "qwen2"}, {"attention_bias": True}, {"rope_scaling": {"rope_type": "yarn"}}]
)
def test_other_models_are_refused_by_name(tiny_folder, tmp_path, change):
    config = json.loads((tiny_folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UsageError, match=next(iter(change))):
        Config.read(tmp_path)


def test_a_folder_without_weights_is_refused(tiny_folder, tmp_path):
    (tmp_path / "config.json").write_text((tiny_folder / "config.json").read_text())
    with pytest.raises(UsageError, match="safetensors"):
        Llama.load(tmp_path)
