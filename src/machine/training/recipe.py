"""Recipe: defaults that fit the data, with their reasons, and the steps that a recipe comes to.

Batch and steps were found on small sets of one-line answers with the engine's 135M model: some nine steps of 8
examples at a peak rate of 1e-3, falling linearly, teach a style; longer runs begin to repeat themselves. The rate of
other models comes from the cookbook, which has calibrated LoRA on Llama and Qwen by their hidden size
(`tinker_cookbook.hyperparam_utils.get_lr`).
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from machine.errors import Refused
from machine.tinker.students import local_shape
from machine.training.config import Config

BATCH = 8
ENOUGH_STEPS = 9
MOST_EPOCHS = 6
RANK = 32
HIGHEST_RATE = 1e-3
"""What the engine's 135M model learns well with; smaller models are not pushed further."""
CAREFUL_RATE = 3e-4
"""For a model that nobody has calibrated."""
ENOUGH_TO_SPLIT = 30
"""Conversations from which on a tenth of them is held out."""

_BASE_RATE, _BASE_HIDDEN = 5e-4, 2000
_EXPONENTS = {"llama": 0.781, "qwen": 0.0775}
"""The cookbook's LoRA rate for a family is 5e-4 * (2000 / hidden size) ** exponent (0.5.8, `hyperparam_utils`)."""


@dataclass(frozen=True)
class Plan:
    """What a recipe comes to on so many `datums`. A step trains `batch_size` of them, fewer at an epoch's end."""

    datums: int
    batch_size: int
    steps: int
    learning_rate: float
    schedule: str
    seed: int

    def batch(self, step: int) -> list[int]:
        """The datums of a step (from 0): each epoch is a shuffle of its own, the same for the same seed."""
        epoch, at = divmod(step, self.steps_per_epoch)
        order = list(range(self.datums))
        random.Random(f"{self.seed}/{epoch}").shuffle(order)
        return order[at * self.batch_size : (at + 1) * self.batch_size]

    def rate(self, step: int) -> float:
        """The learning rate of a step (from 0): constant, or falling linearly from its peak towards 0."""
        return self.learning_rate * (1 - step / self.steps) if self.schedule == "linear" else self.learning_rate

    @property
    def steps_per_epoch(self) -> int:
        """Steps that see every datum once."""
        return math.ceil(self.datums / self.batch_size)


def plan(config: Config, datums: int, steps: int | None = None) -> Plan:
    """The steps of a run over so many datums, to which examples are merged (`dataset/merge.py`).

    `steps`, from the command line, goes before the recipe's. The batch shrinks to the data.

    Raises:
        Refused: there is nothing to train on, or it comes to 0 steps.
    """
    if datums < 1:
        raise Refused("there is no example to train on", next_step="machine train validate")
    batch = min(config.batch_size, datums)
    asked = steps if steps is not None else config.steps
    total = asked if asked is not None else math.ceil(datums / batch) * config.epochs
    if total < 1:
        raise Refused("this comes to 0 steps: nothing would be trained", next_step="ask for at least 1 step")
    return Plan(datums, batch, total, config.learning_rate, config.schedule, config.seed)


def defaults(
    model: str, renderer: str, datums: int, conversations: int, longest: int, chosen: Mapping[str, Any] | None = None
) -> tuple[Config, dict[str, str]]:
    """A recipe for so many datums of at most `longest` tokens, and the reason for each figure.

    `chosen` figures are the user's: they are kept, and the others fit them.
    """
    mine = dict(chosen or {})
    batch = min(mine.get("batch_size", BATCH), max(1, datums))
    per_epoch = math.ceil(max(1, datums) / batch)
    epochs = mine.get("epochs", min(MOST_EPOCHS, max(1, math.ceil(ENOUGH_STEPS / per_epoch))))
    steps = mine.get("steps") or per_epoch * epochs
    rate, why_rate = learning_rate(model)
    figures = {
        "rank": RANK,
        "learning_rate": rate,
        "batch_size": batch,
        "epochs": epochs,
        "max_length": max(1024, 1 << (longest - 1).bit_length()),
        "test_size": held_out(conversations),
        "save_every": max(5, steps // 4),
    }
    config = Config(**{"model": model, "renderer": renderer} | figures | mine)
    reasons = {
        "data": "the project's good rows; or the path of a JSONL file of rows",
        "rank": _why_rank(model, config.rank),
        "learning_rate": why_rate,
        "schedule": "falls linearly to 0; or constant",
        "batch_size": f"{datums} datums make {per_epoch} steps an epoch; those of a conversation are merged",
        "epochs": f"{steps} steps in all, at least {ENOUGH_STEPS} where {MOST_EPOCHS} epochs allow; or set steps",
        "max_length": f"in tokens; the longest example has {longest}",
        "test_size": f"of {conversations} conversations, held out: measured in training, cases for /train eval init",
        "save_every": "steps between states that an interrupted run continues from",
        "seed": "of the LoRA matrices, the order of examples and the held-out choice",
    }
    return config, reasons | dict.fromkeys(mine, "you chose it")


def held_out(conversations: int) -> int:
    """How many of so many conversations are held out unless the user says: a tenth, none where they are few."""
    return conversations // 10 if conversations >= ENOUGH_TO_SPLIT else 0


def learning_rate(model: str) -> tuple[float, str]:
    """The peak rate for LoRA on a model, and where it comes from."""
    shape = local_shape(model)
    if shape is not None:
        family = next((name for name in _EXPONENTS if shape.family.startswith(name)), "llama")
        formula = _BASE_RATE * (_BASE_HIDDEN / shape.hidden) ** _EXPONENTS[family]
        taken = "" if shape.family.startswith(family) else f", taken for {shape.family}"
        source = f"the peak; the cookbook's for {family} models of hidden size {shape.hidden} (config.json){taken}"
        if formula < HIGHEST_RATE:
            return _rounded(formula), source
        return HIGHEST_RATE, f"{source} would be {formula:.1e}; {HIGHEST_RATE:g} teaches the engine's 135M model"
    if _parameters(model, 1) is not None:  # else the cookbook would ask the model hub for its size
        from tinker_cookbook.exceptions import ConfigurationError
        from tinker_cookbook.hyperparam_utils import get_lr

        try:
            return _rounded(get_lr(model)), "the peak; the cookbook's for LoRA on this model (hyperparam_utils.get_lr)"
        except (NotImplementedError, ConfigurationError):
            return CAREFUL_RATE, "the peak; careful: the cookbook has not calibrated this model yet"
    return CAREFUL_RATE, "the peak; careful: nothing is known of this model's size"


def _why_rank(model: str, rank: int) -> str:
    parameters = _parameters(model, rank)
    if parameters is None:
        return "of the LoRA matrices; enough for a few thousand examples"
    return f"of the LoRA matrices, {parameters / 1e6:.0f}M parameters here; enough for many thousand examples"


def _parameters(model: str, rank: int) -> int | None:
    """Trained parameters of a hosted model, where the cookbook knows them."""
    from tinker_cookbook.exceptions import ConfigurationError
    from tinker_cookbook.hyperparam_utils import get_lora_param_count

    try:
        return int(get_lora_param_count(model, rank))
    except ConfigurationError:
        return None


def _rounded(rate: float) -> float:
    return float(f"{rate:.2g}")
