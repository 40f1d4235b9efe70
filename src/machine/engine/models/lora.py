"""LoRA: y = W x + (alpha / rank) B A x, with A and B in float32 whatever the base model's type.

The unembedding may have a pair too: z = (W + (alpha / rank) B A) h. Where W is tied to the embedding, the embedding
stays as it is, as with PEFT. Also the adapter's other form: PEFT's file layout (for disk).
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
UNEMBED = "unembed"
"""The unembedding, which PEFT calls lm_head."""
ALL = (*MODULES, UNEMBED)
"""What an adapter can cover, in the order in which it is listed."""

_CPU = torch.device("cpu")
_HEAD = "lm_head"
_KEY = re.compile(
    r"base_model\.model\.(?:model\.layers\.(\d+)\.(?:self_attn|mlp)\.(\w+)_proj|lm_head)\.lora_([AB])\.weight"
)


@dataclass
class Lora:
    """An adapter: `parameters` maps "3.q.A" to [rank, input] and "3.q.B" to [output, rank] (layer, module, factor).

    The unembedding's are "unembed.A" [rank, d] and "unembed.B" [V, rank].
    """

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
        modules: Sequence[str] = ALL,
        device: torch.device = _CPU,
    ) -> "Lora":
        """A fresh adapter that changes nothing yet: A uniform in ±1/sqrt(input), as PEFT has it, and B zero.

        It is drawn on the CPU, so that a seed gives the same adapter on every device; the unembedding comes last, so
        that it gives the same layers with and without it.
        """
        generator = torch.Generator(_CPU).manual_seed(seed % 2**63) if seed is not None else None
        parameters: dict[str, Tensor] = {}
        in_blocks = [module for module in modules if module != UNEMBED]
        places = [f"{layer}.{module}" for layer in range(config.layers) for module in in_blocks]
        for place in [*places, UNEMBED] if UNEMBED in modules else places:
            inputs, outputs = config.sizes(place.rpartition(".")[2])
            bound = 1.0 / math.sqrt(inputs)
            a = torch.empty(rank, inputs, device=_CPU).uniform_(-bound, bound, generator=generator)
            parameters[f"{place}.A"] = a.to(device).requires_grad_()
            parameters[f"{place}.B"] = torch.zeros(outputs, rank, device=device).requires_grad_()
        return cls(rank, tuple(modules), parameters)

    def with_unembed(self, config: Config) -> "Lora":
        """The adapter with a fresh pair at the unembedding, which changes nothing yet."""
        device = next(iter(self.parameters.values())).device
        fresh = Lora.new(config, self.rank, 0, (UNEMBED,), device)
        return Lora(self.rank, (*self.modules, UNEMBED), self.parameters | fresh.parameters)

    def add(self, y: Tensor, x: Tensor, layer: int, modules: Sequence[str]) -> Tensor:
        """See `llama.Adapter`; `y` is changed in place."""
        return self._added(y, x, [f"{layer}.{module}" for module in modules])

    def add_unembed(self, scores: Tensor, hidden: Tensor) -> Tensor:
        """See `llama.Adapter`; `scores` are changed in place."""
        return self._added(scores, hidden, [UNEMBED])

    def _added(self, y: Tensor, x: Tensor, places: list[str]) -> Tensor:
        if f"{places[0]}.A" not in self.parameters:
            return y
        factors = [self.parameters[f"{place}.{factor}"] for factor in "AB" for place in places]
        updated: Tensor = _Update.apply(y, x, self.scale, *factors)  # type: ignore[no-untyped-call]
        return updated

    @torch.no_grad()
    def unembed_backward(self, dz: Tensor, hidden: Tensor) -> Tensor | None:
        """The backward pass of `add_unembed`: the gradient of `hidden` [n, d] for that of the scores, `dz` [n, V].

        The pair's own gradients are added to those it has. None where the adapter has no such pair.
        """
        if UNEMBED not in self.modules:
            return None
        pair = [self.parameters[f"{UNEMBED}.{factor}"] for factor in "AB"]
        a, b = (factor.to(hidden.dtype) for factor in pair)
        dhidden, *gradients = _gradients(dz, hidden, F.linear(hidden, a), a, [b], self.scale)
        for factor, gradient in zip(pair, gradients, strict=True):
            factor.grad = gradient if factor.grad is None else factor.grad.add_(gradient)
        return dhidden

    def weights_file(self) -> bytes:
        """`adapter_model.safetensors` as PEFT reads it."""
        named = {}
        for key, parameter in self.parameters.items():
            place, _, factor = key.rpartition(".")
            named[f"base_model.model.{_path(place)}.lora_{factor}.weight"] = parameter.detach().cpu().contiguous()
        return bytes(save(named, metadata={"format": "pt"}))

    def config_file(self, base_model: str) -> bytes:
        """`adapter_config.json` as PEFT reads it; an unembedding that was not trained is named as excluded."""
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
            "target_modules": [_target(module) for module in self.modules],
            "exclude_modules": None if UNEMBED in self.modules else [_HEAD],
        }
        return json.dumps(config, indent=1).encode()

    @classmethod
    def read(cls, config: Config, adapter_config: bytes, weights: bytes, device: torch.device = _CPU) -> "Lora":
        """The adapter of PEFT's two files, on `device`.

        Raises:
            Fault: not an adapter of this model (another architecture, size, or set of tensors).
        """
        settings: dict[str, Any] = json.loads(adapter_config)
        modules = tuple(module for module in ALL if _target(module) in settings["target_modules"])
        if not modules or any(0 < len({*part} & {*modules}) < len(part) for part in (ATTENTION, MLP)):
            raise Fault(f"the adapter's target_modules are {', '.join(settings['target_modules'])}; "
                        "this engine trains attention and MLP as a whole, and lm_head")  # fmt: skip
        if settings["lora_alpha"] != ALPHA:
            raise Fault(f"the adapter has lora_alpha {settings['lora_alpha']}; this engine trains with {ALPHA:g}")
        rank = settings["r"]
        if not isinstance(rank, int) or not 1 <= rank <= MAX_RANK:
            raise Fault(f"the adapter has rank {rank!r:.20}; this engine trains ranks from 1 to {MAX_RANK}")
        lora = cls.new(config, rank, 0, modules)
        found = dict(_parameters(load(weights)))
        if found.keys() != lora.parameters.keys():
            raise Fault("the adapter's tensors are not those of this model", next_step="use the base it was trained on")
        for key, parameter in found.items():
            if parameter.shape != lora.parameters[key].shape:
                raise Fault(f"the adapter's {key} has shape {list(parameter.shape)}, "
                            f"the model needs {list(lora.parameters[key].shape)}")  # fmt: skip
            if not parameter.is_floating_point():
                raise Fault(f"the adapter's {key} holds {parameter.dtype}, no floating-point numbers")
        parameters = {key: value.to(device, torch.float32).requires_grad_() for key, value in found.items()}
        return cls(lora.rank, modules, parameters)


def trained(modules: Sequence[str]) -> dict[str, bool]:
    """What an adapter with these modules trains, in the words of the API."""
    parts = {"train_attn": ATTENTION, "train_mlp": MLP, "train_unembed": (UNEMBED,)}
    return {field: {*part} <= {*modules} for field, part in parts.items()}


def tells_unembed(adapter_config: bytes) -> bool:
    """Whether PEFT's file says if the unembedding was trained; those written before it could be do not."""
    settings = json.loads(adapter_config)
    return _HEAD in (*settings["target_modules"], *(settings.get("exclude_modules") or ()))


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
        dx, *factors = _gradients(dy, x, m, a, b, ctx.scale)
        return dy, dx, None, *factors


def _gradients(dy: Tensor, x: Tensor, m: Tensor, a: Tensor, b: Sequence[Tensor], scale: float) -> list[Tensor]:
    """Those of x, of each A and of each B, by the formulas of `_Update`."""
    n, parts = len(b), _parts(dy, b)
    dm = scale * torch.cat([part @ factor for part, factor in zip(parts, b, strict=True)], dim=1)
    db = [scale * (part.t() @ middle).float() for part, middle in zip(parts, m.chunk(n, dim=1), strict=True)]
    return [dm @ a, *(dm.t() @ x).float().chunk(n), *db]


def _target(module: str) -> str:
    """PEFT's name of a module."""
    return _HEAD if module == UNEMBED else f"{module}_proj"


def _path(place: str) -> str:
    """Where PEFT finds "3.q" or "unembed" in the model."""
    layer, _, module = place.rpartition(".")
    part = "self_attn" if module in ATTENTION else "mlp"
    return f"model.layers.{layer}.{part}.{_target(module)}" if layer else _target(module)


def _parts(y: Tensor, b: Sequence[Tensor]) -> list[Tensor]:
    """The columns of y [T, outputs] that each module has."""
    return list(torch.split(y, [len(factor) for factor in b], dim=1))


def _parameters(tensors: dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    matches = [(_KEY.fullmatch(name), tensor) for name, tensor in tensors.items()]
    if any(match is None for match, _ in matches):
        raise Fault("the adapter holds tensors that are not LoRA factors of a Llama-type model")
    places = [(f"{match[1]}.{match[2]}" if match[1] else UNEMBED, match[3], x) for match, x in matches if match]
    return [(f"{place}.{factor}", tensor) for place, factor, tensor in places]
