"""Split: whole conversations to one side or the other, so that no target of a training conversation is ever a test."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from machine.errors import Refused
from machine.trace import Row


@dataclass(frozen=True)
class Split:
    """Rows to train on, and rows held out for evaluation."""

    train: list[Row]
    held_out: list[Row]


def split(rows: Sequence[Row], test_size: int, seed: int) -> Split:
    """Holds out `test_size` conversations (`source.session`), the same ones for the same rows and seed.

    Raises:
        Refused: nothing would be left to train on.
    """
    sessions = sorted({row.source.session for row in rows})
    if test_size and test_size >= len(sessions):
        raise Refused(
            f"{test_size} of {len(sessions)} conversations are to be held out: none is left to train on",
            next_step="set a smaller test_size in tinker.yaml",
        )
    held = set(random.Random(seed).sample(sessions, test_size))
    return Split([r for r in rows if r.source.session not in held], [r for r in rows if r.source.session in held])
