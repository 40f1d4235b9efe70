"""LoRA: y = W x + (alpha / rank) B A x, with A and B in float32 whatever the base model's type.

Also the adapter's other two forms: merged into the base weights (for sampling), and PEFT's file layout (for disk).
Source: Hu et al. 2021; alpha is 32 for every rank, as on Tinker.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load, save
from torch import Tensor

from machine.engine.faults import Fault
from machine.engine.model import MODULES, Block, Config, Llama

ALPHA = 32.0
MAX_RANK = 512
ATTENTION = ("q", "k", "v", "o")
MLP = ("gate", "up", "down")
_KEY = re.compile(r"base_model\.model\.model\.layers\.(\d+)\.(?:self_attn|mlp)\.(\w+)_proj\.lora_([AB])\.weight")


@dataclass
class Lora:
    """An adapter: `parameters` maps "3.q.A" to [rank, input] and "3.q.B" to [output, rank] (layer, module, factor)."""

    rank: int
    modules: tuple[str, ...]
    parameters: dict[str, Tensor]

    @property
    def scale(self) -> float:
        """What the update is multiplied by."""
        return ALPHA / self.rank

    @classmethod
    def new(cls, config: Config, rank: int, seed: int | None, modules: Sequence[str] = MODULES) -> "Lora":
        """A fresh adapter that changes nothing yet: A uniform in ±1/sqrt(input), as PEFT has it, and B zero."""
        generator = torch.Generator().manual_seed(seed % 2**63) if seed is not None else None
        parameters: dict[str, Tensor] = {}
        for layer in range(config.layers):
            for module in modules:
                inputs, outputs = config.sizes(module)
                bound = 1.0 / math.sqrt(inputs)
                a = torch.empty(rank, inputs).uniform_(-bound, bound, generator=generator)
                parameters[f"{layer}.{module}.A"] = a.requires_grad_()
                parameters[f"{layer}.{module}.B"] = torch.zeros(outputs, rank).requires_grad_()
        return cls(rank, tuple(modules), parameters)

    def add(self, y: Tensor, x: Tensor, layer: int, modules: Sequence[str]) -> Tensor:
        """See `model.Adapter`: one product for all of `modules`, whose B factors form a block diagonal."""
        if modules[0] not in self.modules:
            return y
        a = torch.cat([self.parameters[f"{layer}.{module}.A"] for module in modules])  # [r * n, input]
        factors = [self.parameters[f"{layer}.{module}.B"] for module in modules]
        b = torch.block_diag(*factors)  # type: ignore[no-untyped-call]  # [outputs, r * n]
        return torch.addmm(y, F.linear(x, a.to(x.dtype)), b.t().to(x.dtype), alpha=self.scale)

    @torch.no_grad()
    def merged(self, model: Llama) -> Llama:
        """The model with W + scale B A in place of W; embedding, head and norms are shared with `model`."""
        return model.with_blocks([self._merged_block(block, i) for i, block in enumerate(model.blocks)])

    def _merged_block(self, block: Block, i: int) -> Block:
        def plus(weight: Tensor, *modules: str) -> Tensor:
            if modules[0] not in self.modules:
                return weight
            updates = [self.parameters[f"{i}.{m}.B"] @ self.parameters[f"{i}.{m}.A"] for m in modules]
            return (weight.float() + self.scale * torch.cat(updates)).to(weight.dtype)

        return Block(
            attention_norm=block.attention_norm,
            qkv=plus(block.qkv, "q", "k", "v"),
            o=plus(block.o, "o"),
            mlp_norm=block.mlp_norm,
            gate_up=plus(block.gate_up, "gate", "up"),
            down=plus(block.down, "down"),
        )

    def weights_file(self) -> bytes:
        """`adapter_model.safetensors` as PEFT reads it."""
        named = {}
        for key, parameter in self.parameters.items():
            layer, module, factor = key.split(".")
            part = "self_attn" if module in ATTENTION else "mlp"
            name = f"base_model.model.model.layers.{layer}.{part}.{module}_proj.lora_{factor}.weight"
            named[name] = parameter.detach().contiguous()
        return bytes(save(named, metadata={"format": "pt"}))

    def config_file(self, base_model: str) -> bytes:
        """`adapter_config.json` as PEFT reads it."""
        config = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base_model,
            "r": self.rank,
            "lora_alpha": ALPHA,
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": False,
            "inference_mode": True,
            "target_modules": [f"{module}_proj" for module in self.modules],
        }
        return json.dumps(config, indent=1).encode()

    @classmethod
    def read(cls, config: Config, adapter_config: bytes, weights: bytes) -> "Lora":
        """The adapter of PEFT's two files.

        Raises:
            Fault: not an adapter of this model (another architecture, size, or set of tensors).
        """
        settings: dict[str, Any] = json.loads(adapter_config)
        modules = tuple(m for m in MODULES if f"{m}_proj" in settings["target_modules"])
        if modules not in (ATTENTION, MLP, MODULES):
            raise Fault(f"the adapter's target_modules are {', '.join(settings['target_modules'])}; "
                        "this engine trains attention, MLP, or both as a whole")  # fmt: skip
        if settings["lora_alpha"] != ALPHA:
            raise Fault(f"the adapter has lora_alpha {settings['lora_alpha']}; this engine trains with {ALPHA:g}")
        lora = cls.new(config, settings["r"], 0, modules)
        found = dict(_parameters(load(weights)))
        if found.keys() != lora.parameters.keys():
            raise Fault("the adapter's tensors are not those of this model", next_step="use the base it was trained on")
        for key, parameter in found.items():
            if parameter.shape != lora.parameters[key].shape:
                raise Fault(f"the adapter's {key} has shape {list(parameter.shape)}, "
                            f"the model needs {list(lora.parameters[key].shape)}")  # fmt: skip
        return cls(lora.rank, modules, {key: value.float().requires_grad_() for key, value in found.items()})


def _parameters(tensors: dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    matches = [(_KEY.fullmatch(name), tensor) for name, tensor in tensors.items()]
    if any(match is None for match, _ in matches):
        raise Fault("the adapter holds tensors that are not LoRA factors of a Llama-type model")
    return [(f"{match[1]}.{match[2]}.{match[3]}", tensor) for match, tensor in matches if match]
