"""Students: what a model needs to be trained and asked, and which models the service has."""

import contextlib
import json
from dataclasses import dataclass
from typing import Any

from machine.errors import Refused
from machine.renderers import get_renderer, load_tokenizer, local_model, renderer_name
from machine.renderers.remembered import RememberedTokenizer
from machine.tinker.service import Service

DEFAULT_MODEL = "thinkingmachines/Inkling-Small"
"""The student where the service has it; else the first model that it can train."""


@dataclass(frozen=True)
class Student:
    """A base model with the renderer (cookbook `Renderer`) and tokenizer that its prompts are written with."""

    model: str
    renderer_name: str
    renderer: Any
    tokenizer: Any

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text, without special tokens."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))


@dataclass(frozen=True)
class Shape:
    """What is known of a model's size: `family` is `llama`, `qwen2` ..., `hidden` the width of its residual stream."""

    family: str
    hidden: int


@dataclass(frozen=True)
class Model:
    """A model as the service lists it. `context` is in tokens, None where the service does not say."""

    name: str
    context: int | None
    trainable: bool
    sampleable: bool


def load_student(model: str, renderer: str | None = None) -> Student:
    """The student `model`, rendered by `renderer` (default: the one made for it).

    Raises:
        MachineError: the model has no known renderer or its tokenizer cannot be had.
    """
    name = renderer or renderer_name(model)
    tokenizer = RememberedTokenizer(load_tokenizer(model))
    return Student(model, name, get_renderer(name, tokenizer), tokenizer)


def local_shape(model: str) -> Shape | None:
    """The shape of a model whose files are on this machine, by its `config.json`; else None."""
    folder = local_model(model)
    if folder is None:
        return None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        config = json.loads((folder / "config.json").read_bytes())
        inner = config.get("text_config") or config  # models that also see images keep the size of the text part inside
        return Shape(str(config["model_type"]), int(inner["hidden_size"]))
    return None


def models(service: Service) -> list[Model]:
    """What the service can train or sample; where it does not say what a model is for, it is for both."""
    listed = service.look_up(service.rest().get_server_capabilities(), "asking for the list of models")
    return [
        Model(m.model_name, m.max_context_length, m.trainable is not False, m.sampleable is not False)
        for m in listed.supported_models
        if m.model_name
    ]


def default_model(available: list[Model]) -> str:
    """The model to train when the user names none.

    Raises:
        Refused: the service trains nothing.
    """
    trainable = [m.name for m in available if m.trainable]
    if not trainable:
        raise Refused("the Tinker service lists no model that it can train", next_step="machine tinker models")
    return DEFAULT_MODEL if DEFAULT_MODEL in trainable else trainable[0]
