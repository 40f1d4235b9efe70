"""Render: a target in, tokens with loss weights out, by the student's own renderer.

The weights of an example sum to 1 over its target's tokens: every target counts the same, however long its answer. The
prompt that is trained on is, token for token, the prompt that the student is later asked with; where a renderer breaks
this, the target is refused instead of trained.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from machine.dataset.targets import Target
from machine.errors import MachineError, Refused
from machine.renderers import to_conversation
from machine.tinker.students import Student

if TYPE_CHECKING:
    from tinker import Datum


@dataclass(frozen=True)
class Example:
    """A rendered target: `tokens` [T] and `weights` [T], 0 over the first `prompt` tokens, summing to 1 (or all 0)."""

    id: str
    session: str
    tokens: list[int]
    weights: list[float]
    prompt: int

    @property
    def trained(self) -> int:
        """How many tokens have weight."""
        return sum(weight != 0 for weight in self.weights)


def render(student: Student, target: Target) -> Example:
    """The target's tokens and weights.

    Raises:
        Refused: the renderer cannot write the conversation, or writes another prompt at training than at sampling.
    """
    from tinker_cookbook.renderers import TrainOnWhat

    try:
        conversation = to_conversation(student.renderer, target.messages, target.tools)
        model_input, mask = student.renderer.build_supervised_example(
            conversation, train_on_what=TrainOnWhat.LAST_ASSISTANT_MESSAGE
        )
        prompt = student.renderer.build_generation_prompt(conversation[:-1]).to_ints()
    except MachineError as error:
        raise Refused(f"{target.id}: {error.message}", next_step=error.next_step) from error
    except (ValueError, KeyError, TypeError, AttributeError, NotImplementedError, AssertionError) as error:
        raise Refused(
            f"{target.id}: {student.renderer_name} cannot render it ({_brief(error)})", next_step=_OTHER
        ) from error
    tokens = list(model_input.to_ints())
    total = float(mask.sum())
    weights = [weight / total if weight else 0.0 for weight in mask.tolist()] if total else [0.0] * len(tokens)
    if tokens[: len(prompt)] != list(prompt) or any(weights[: len(prompt)]):
        raise Refused(
            f"{target.id}: {student.renderer_name} writes another prompt at training than at sampling", next_step=_OTHER
        )
    return Example(target.id, target.session, tokens, weights, len(prompt))


class Weighted(Protocol):
    """Tokens [T], and the weight [T] of each as what is to be predicted."""

    @property
    def tokens(self) -> list[int]:
        """Token ids [T]."""
        ...

    @property
    def weights(self) -> list[float]:
        """Loss weights [T]."""
        ...


def datum(example: Weighted) -> "Datum":
    """The example as Tinker trains it: tokens [T-1] predict tokens [1:T], weighted by weights [1:T]."""
    from tinker import Datum, ModelInput, TensorData

    return Datum(
        model_input=ModelInput.from_ints(example.tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": TensorData(data=example.tokens[1:], dtype="int64"),
            "weights": TensorData(data=example.weights[1:], dtype="float32"),
        },
    )


def fingerprint(examples: Sequence[Example]) -> str:
    """SHA-256 (hex) over ids, tokens and weights: two runs with the same one trained on the same data."""
    hashed = hashlib.sha256()
    for example in examples:
        hashed.update(msgspec.json.encode([example.id, example.tokens, example.weights]) + b"\n")
    return hashed.hexdigest()


def _brief(error: Exception) -> str:
    """The first sentence of what a renderer says."""
    return re.split(r"(?<=[.:]) |\n", str(error) or type(error).__name__)[0].rstrip(".:")


_OTHER = "name another renderer in tinker.yaml, or leave the row out"
