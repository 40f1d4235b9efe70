"""Card: what Pi is told of one model: price, context, length of an answer, thinking, images.

What is known, and from where:

- Price: `prices.yaml`, in Pi's own unit, US dollars per million tokens. Tinker publishes no discount for a cached
  prompt, so that cached tokens count as any other; of a price that is not known Pi counts nothing. This machine
  is free.
- Context: what the service says of the model.
- Thinking: Inkling's effort is a number from 0.0 to below 1.0. Tinker's OpenAI-compatible endpoint takes it by name, as
  `reasoning_effort`: none 0.0, minimal 0.1, low 0.2, medium 0.7, high 0.9 (when nothing is said), xhigh 0.99
  (https://tinker-docs.thinkingmachines.ai/cookbook/inkling/thinking-effort/). Pi's levels have these names,
  `off` is none. Of the other models that think, it is not documented how the endpoint is told how much: Pi is given no
  level for them, nothing is sent, and they think as the service has it. What they thought is shown all the same.
- Images: of the models that tinker-cookbook knows to see them. The engine on this machine reads text only.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from machine.tinker import prices
from machine.tinker.service import Endpoint

NAME = "tinker"
"""The provider's name in Pi."""

_CONTEXT = 8192  # where the service does not say
_LONGEST = 16_384  # of an answer: tinker-cookbook's own limit where Inkling thinks hard
_INKLING = "thinkingmachines/Inkling"
_EFFORTS = {
    "off": "none",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": None,
}


@dataclass(frozen=True)
class Entry:
    """A model in Pi: its name there, and what the service knows it as (a base model or a `tinker://` path).

    `base` is the base model of a path where it is known; `context` and `max_tokens` are in tokens, None: the default.
    """

    alias: str
    model: str
    base: str | None = None
    context: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None

    @property
    def ref(self) -> str:
        """What to give Pi as `--model`."""
        return f"{NAME}/{self.alias}"


COMPAT = {
    "supportsDeveloperRole": False,
    "supportsStore": False,
    "supportsReasoningEffort": False,
    "maxTokensField": "max_tokens",
}


def card(where: Endpoint, entry: Entry) -> dict[str, Any]:
    """The model as Pi's `registerProvider` takes it.

    Raises:
        Refused: the user's own `prices.yaml` cannot be read.
    """
    base = entry.base or (entry.model if "://" not in entry.model else None)
    context = entry.context or _CONTEXT
    thinks = base is not None and base.startswith(_INKLING)
    made: dict[str, Any] = {
        "id": entry.alias,
        "name": entry.alias if entry.alias == entry.model else f"{entry.alias} ({entry.model})",
        "reasoning": thinks,
        "input": ["text", "image"] if base and not where.local and _sees(base) else ["text"],
        "cost": _cost(where, base),
        "contextWindow": context,
        "maxTokens": entry.max_tokens or max(1, min(_LONGEST, context // 4)),
        "compat": COMPAT | {"supportsReasoningEffort": thinks},
    }
    if thinks:
        made["thinkingLevelMap"] = _EFFORTS
    # Pi sends `id` as the request's model; sampling parameters are merged over the request, so this one renames it.
    sampling: dict[str, Any] = {} if entry.alias == entry.model else {"model": entry.model}
    if entry.temperature is not None:
        sampling["temperature"] = entry.temperature
    return made | ({"samplingParams": sampling} if sampling else {})


def stored(entry: Entry) -> dict[str, Any]:
    """The entry as the providers file keeps it."""
    return {name: value for name, value in dataclasses.asdict(entry).items() if value is not None}


def read_back(model: dict[str, Any]) -> Entry:
    """The entry that a card was made of, as far as it says."""
    sampling = model.get("samplingParams", {})
    return Entry(
        model["id"],
        sampling.get("model", model["id"]),
        context=model.get("contextWindow"),
        temperature=sampling.get("temperature"),
        max_tokens=model.get("maxTokens"),
    )


def _cost(where: Endpoint, base: str | None) -> dict[str, float]:
    price = prices.of(base) if base and not where.local else None
    read = (price.prefill if price else None) or 0
    return {"input": read, "output": (price.sample if price else None) or 0, "cacheRead": read, "cacheWrite": 0}


def _sees(base: str) -> bool:
    try:
        from tinker_cookbook.model_info import get_model_attributes

        return bool(get_model_attributes(base).is_vl)
    except (ImportError, ValueError, KeyError):  # no cookbook, or a model that it does not know
        return False
