"""Recipe: defaults that fit the data, with their reasons, and the steps that a recipe comes to.

The default figures were found on small sets of one-line answers with the engine's 135M model: rank 32, a peak rate of
1e-3 falling linearly and some nine steps of 8 examples teach a style; longer runs begin to repeat themselves.
"""

import math
import random
from dataclasses import dataclass

from machine.errors import Refused
from machine.renderers import CHATML
from machine.training.config import Config

BATCH = 8
ENOUGH_STEPS = 9
MOST_EPOCHS = 6
SMALL_MODEL_RATE = 1e-3
LARGE_MODEL_RATE = 3e-4


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


def defaults(model: str, renderer: str, datums: int, conversations: int, longest: int) -> tuple[Config, dict[str, str]]:
    """A recipe for so many datums of at most `longest` tokens, and the reason for each figure."""
    batch = min(BATCH, max(1, datums))
    per_epoch = math.ceil(max(1, datums) / batch)
    epochs = min(MOST_EPOCHS, max(1, math.ceil(ENOUGH_STEPS / per_epoch)))
    small = renderer == CHATML
    steps = per_epoch * epochs
    held = conversations // 10 if conversations >= 30 else 0
    config = Config(
        model=model,
        renderer=renderer,
        batch_size=batch,
        epochs=epochs,
        learning_rate=SMALL_MODEL_RATE if small else LARGE_MODEL_RATE,
        max_length=max(1024, 1 << (longest - 1).bit_length()),
        test_size=held,
        save_every=max(5, steps // 4),
    )
    reasons = {
        "data": "the project's good rows; or the path of a JSONL file of rows",
        "rank": "of the LoRA matrices; enough for a few thousand examples",
        "learning_rate": "the peak; LoRA on a small model learns fast"
        if small
        else "the peak; careful for a large model",
        "schedule": "falls linearly to 0; or constant",
        "batch_size": f"{datums} datums make {per_epoch} steps an epoch; those of a conversation are merged",
        "epochs": f"{steps} steps in all, at least {ENOUGH_STEPS} where {MOST_EPOCHS} epochs allow; or set steps",
        "max_length": f"in tokens; the longest example has {longest}",
        "test_size": f"of {conversations} conversations, held out for /train eval init",
        "save_every": "steps between states that an interrupted run continues from",
        "seed": "of the LoRA matrices, the order of examples and the held-out choice",
    }
    return config, reasons
