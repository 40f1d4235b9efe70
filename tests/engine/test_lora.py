import json
from dataclasses import replace

import pytest
import torch

from machine.engine.faults import Fault
from machine.engine.models.lora import ALL, ATTENTION, MLP, MODULES, UNEMBED, Lora
from machine.engine.training.losses import Loss
from machine.engine.training.trainer import Datum, forward_backward


def filled(config, rank=4, modules=None):
    """An adapter whose B is not zero, so that every factor has a gradient."""
    lora = Lora.new(config, rank, 0, *([modules] if modules else []))
    generator = torch.Generator().manual_seed(1)
    for key, parameter in lora.parameters.items():
        if key.endswith("B"):
            parameter.data.normal_(0, 0.02, generator=generator)
    return lora


def on_disk(lora, base, folder):
    (folder / "adapter_config.json").write_bytes(lora.config_file(str(base)))
    (folder / "adapter_model.safetensors").write_bytes(lora.weights_file())
    return folder


def peft_name(key):
    """What PEFT calls a parameter that is in training."""
    place, _, factor = key.rpartition(".")
    layer, _, module = place.rpartition(".")
    part = "self_attn" if module in ATTENTION else "mlp"
    path = "lm_head" if module == UNEMBED else f"model.layers.{layer}.{part}.{module}_proj"
    return f"base_model.model.{path}.lora_{factor}.default.weight"


def test_loss_logprobs_and_gradient_equal_peft(each, each_folder, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model, base = each, each_folder
    lora = filled(model.config)
    reference = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        str(on_disk(lora, base, tmp_path)),
        is_trainable=True,
    )
    generator = torch.Generator().manual_seed(2)
    prefix = torch.randint(3, model.config.vocabulary, (12,), generator=generator).tolist()
    rows = [prefix + torch.randint(3, model.config.vocabulary, (9,), generator=generator).tolist() for _ in range(3)]
    weights = torch.rand(20, generator=generator) * (torch.arange(20) >= 10)
    data = [Datum(row[:-1], torch.tensor(row[1:]), {"weights": weights}) for row in rows]
    outcome = forward_backward(model, lora, data, Loss("cross_entropy", {}), backward=True)

    logp = reference(torch.tensor(rows)[:, :-1]).logits.log_softmax(-1)
    logp = logp.gather(2, torch.tensor(rows)[:, 1:, None])[..., 0]
    loss = -(logp * weights).sum()
    loss.backward()
    assert outcome.loss == pytest.approx(loss.item(), rel=1e-4)
    torch.testing.assert_close(torch.stack(outcome.logprobs), logp.detach(), rtol=1e-4, atol=1e-5)
    theirs = {name: p.grad for name, p in reference.named_parameters() if p.grad is not None}
    assert {peft_name(key) for key in lora.parameters} == theirs.keys()
    for key, parameter in lora.parameters.items():
        expected = theirs[peft_name(key)]
        assert float((parameter.grad - expected).norm() / expected.norm()) < 1e-4, key


def merged(lora, model):
    """The model with W + s B A in place of each W that the adapter covers; the embedding is never one."""

    def plus(layer, weight, *modules):
        return added(weight, *(f"{layer}.{module}" for module in modules))

    def added(weight, *places):
        if places[0].rpartition(".")[2] not in lora.modules:
            return weight
        factors = [[lora.parameters[f"{place}.{factor}"] for factor in "BA"] for place in places]
        return weight + lora.scale * torch.cat([b @ a for b, a in factors])

    blocks = [
        replace(
            block,
            qkv=plus(layer, block.qkv, "q", "k", "v"),
            o=plus(layer, block.o, "o"),
            gate_up=plus(layer, block.gate_up, "gate", "up"),
            down=plus(layer, block.down, "down"),
        )
        for layer, block in enumerate(model.blocks)
    ]
    return replace(model, blocks=tuple(blocks), head=added(model.head, UNEMBED))


@pytest.mark.parametrize("modules", [None, ATTENTION, MLP, (UNEMBED,)])
def test_merged_equals_adapted(each, modules):
    from test_model import hidden, logprobs

    lora = filled(each.config, modules=modules)
    row = list(range(3, 30))
    with torch.no_grad():
        plain = logprobs(each, hidden(each, row))
        adapted = logprobs(each, hidden(each, row, adapter=lora), lora)
        target = merged(lora, each)
        whole = logprobs(target, hidden(target, row))
    assert float((adapted - whole).norm() / adapted.norm()) < 1e-4
    assert float((adapted - plain).norm() / adapted.norm()) > 1e-3


def test_same_seed_same_adapter(tiny):
    one, two, other = (Lora.new(tiny.config, 4, seed) for seed in (7, 7, 8))
    assert all(torch.equal(one.parameters[key], two.parameters[key]) for key in one.parameters)
    assert not torch.equal(one.parameters["0.q.A"], other.parameters["0.q.A"])


def test_the_unembedding_leaves_the_other_factors_as_they_are(tiny):
    alone, beside = (Lora.new(tiny.config, 4, 7, modules).parameters for modules in (MODULES, ALL))
    assert beside.keys() - alone.keys() == {"unembed.A", "unembed.B"}
    assert all(torch.equal(alone[key], beside[key]) for key in alone)


@pytest.mark.parametrize("modules", [ALL, MODULES, (*ATTENTION, UNEMBED), MLP, (UNEMBED,)])
def test_files_round_trip(tiny, modules):
    lora = filled(tiny.config, modules=modules)
    again = Lora.read(tiny.config, lora.config_file("x"), lora.weights_file())
    assert again.modules == modules
    assert lora.parameters.keys() == again.parameters.keys()
    assert all(torch.equal(lora.parameters[key], again.parameters[key]) for key in lora.parameters)


def test_a_head_that_is_not_trained_is_in_no_file(tiny, tiny_folder, tmp_path):
    from peft import PeftModel
    from safetensors.torch import load
    from transformers import AutoModelForCausalLM

    lora = filled(tiny.config, modules=MODULES)
    assert not [name for name in load(lora.weights_file()) if "lm_head" in name]
    base = AutoModelForCausalLM.from_pretrained(tiny_folder)
    reference = PeftModel.from_pretrained(base, str(on_disk(lora, tiny_folder, tmp_path)))
    assert not [name for name, _ in reference.named_parameters() if "lm_head.lora" in name]


@pytest.mark.parametrize("targets", [["q_proj", "k_proj", "lm_head"], ["embed_tokens"]])
def test_an_adapter_of_other_targets_is_refused(tiny, targets):
    lora = filled(tiny.config)
    other = json.dumps(json.loads(lora.config_file("x")) | {"target_modules": targets}).encode()
    with pytest.raises(Fault, match=f"target_modules are {', '.join(targets)}"):
        Lora.read(tiny.config, other, lora.weights_file())


def test_an_adapter_of_another_model_is_refused(tiny, small):
    lora = Lora.new(tiny.config, 4, 0)
    with pytest.raises(Fault, match="tensors"):
        Lora.read(small.config, lora.config_file("x"), lora.weights_file())
    wrong_rank = json.dumps(json.loads(lora.config_file("x")) | {"r": 8}).encode()
    with pytest.raises(Fault, match="shape"):
        Lora.read(tiny.config, wrong_rank, lora.weights_file())
