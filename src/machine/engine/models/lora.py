"""LoRA: y = W x + (alpha / rank) B A x, with A and B in float32 whatever the base model's type.

Also the adapter's other form: PEFT's file layout (for disk).
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
from machine.engine.models.config import Config
from machine.engine.models.llama import MODULES

ALPHA = 32.0
MAX_RANK = 512
ATTENTION = ("q", "k", "v", "o")
MLP = ("gate", "up", "down")
_CPU = torch.device("cpu")
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
    def new(
        cls,
        config: Config,
        rank: int,
        seed: int | None,
        modules: Sequence[str] = MODULES,
        device: torch.device = _CPU,
    ) -> "Lora":
        """A fresh adapter that changes nothing yet: A uniform in ±1/sqrt(input), as PEFT has it, and B zero.

        It is drawn on the CPU, so that a seed gives the same adapter on every device.
        """
        generator = torch.Generator(_CPU).manual_seed(seed % 2**63) if seed is not None else None
        parameters: dict[str, Tensor] = {}
        for layer in range(config.layers):
            for module in modules:
                inputs, outputs = config.sizes(module)
                bound = 1.0 / math.sqrt(inputs)
                a = torch.empty(rank, inputs, device=_CPU).uniform_(-bound, bound, generator=generator)
                parameters[f"{layer}.{module}.A"] = a.to(device).requires_grad_()
                parameters[f"{layer}.{module}.B"] = torch.zeros(outputs, rank, device=device).requires_grad_()
        return cls(rank, tuple(modules), parameters)

    def add(self, y: Tensor, x: Tensor, layer: int, modules: Sequence[str]) -> Tensor:
        """See `llama.Adapter`; `y` is changed in place."""
        if modules[0] not in self.modules:
            return y
        factors = [self.parameters[f"{layer}.{module}.{factor}"] for factor in "AB" for module in modules]
        updated: Tensor = _Update.apply(y, x, self.scale, *factors)  # type: ignore[no-untyped-call]
        return updated

    def weights_file(self) -> bytes:
        """`adapter_model.safetensors` as PEFT reads it."""
        named = {}
        for key, parameter in self.parameters.items():
            layer, module, factor = key.split(".")
            part = "self_attn" if module in ATTENTION else "mlp"
            name = f"base_model.model.model.layers.{layer}.{part}.{module}_proj.lora_{factor}.weight"
            named[name] = parameter.detach().cpu().contiguous()
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
    def read(cls, config: Config, adapter_config: bytes, weights: bytes, device: torch.device = _CPU) -> "Lora":
        """The adapter of PEFT's two files, on `device`.

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
        parameters = {key: value.to(device, torch.float32).requires_grad_() for key, value in found.items()}
        return cls(lora.rank, modules, parameters)


class _Update(torch.autograd.Function):
    """y + s B A x for n modules that read the same x: one product for all A, one for each B.

    With m = A x:   dB = s dy m^T,   dm = s B^T dy,   dA = dm x^T,   dx = A^T dm   (the transposes of what stands below,
    where tokens are rows).
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, scale: float, *factors: Tensor) -> Tensor:
        """y [T, outputs], x [T, input], then n A [r, input] and n B [output, r]."""
        n = len(factors) // 2
        a, b = torch.cat(factors[:n]).to(x.dtype), [factor.to(x.dtype) for factor in factors[n:]]
        m = F.linear(x, a)  # [T, n * r]
        for part, middle, factor in zip(_parts(y, b), m.chunk(n, dim=1), b, strict=True):
            part.addmm_(middle, factor.t(), alpha=scale)
        ctx.scale = scale
        ctx.save_for_backward(x, m, a, *b)
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of what `forward` took."""
        (dy,) = gradients
        x, m, a, *b = ctx.saved_tensors
        n, parts = len(b), _parts(dy, b)
        dm = ctx.scale * torch.cat([part @ factor for part, factor in zip(parts, b, strict=True)], dim=1)
        db = [ctx.scale * (part.t() @ middle).float() for part, middle in zip(parts, m.chunk(n, dim=1), strict=True)]
        da = (dm.t() @ x).float().chunk(n)
        return dy, dm @ a, None, *da, *db


def _parts(y: Tensor, b: Sequence[Tensor]) -> list[Tensor]:
    """The columns of y [T, outputs] that each module has."""
    return list(torch.split(y, [len(factor) for factor in b], dim=1))


def _parameters(tensors: dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    matches = [(_KEY.fullmatch(name), tensor) for name, tensor in tensors.items()]
    if any(match is None for match, _ in matches):
        raise Fault("the adapter holds tensors that are not LoRA factors of a Llama-type model")
    return [(f"{match[1]}.{match[2]}.{match[3]}", tensor) for match, tensor in matches if match]
