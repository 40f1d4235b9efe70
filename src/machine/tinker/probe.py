"""Probe: a fingerprint of the weights that answer, from the log-probabilities that they give a fixed text.

Two sets of weights that differ give different probes; the same weights give the same one up to the service's
rounding. A probe is taken from a trainer and from a sampler in the same way, so that a sampler can be held against
the run it claims to come from.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from machine.tinker.service import Service
from machine.tinker.students import Student

if TYPE_CHECKING:
    from tinker import SamplingClient, TrainingClient

MESSAGES = (
    {"role": "user", "content": "Name a colour, a number between one and nine, and a city."},
    {"role": "assistant", "content": "Green, seven, and Lisbon."},
)


def tokens(student: Student) -> list[int]:
    """The probe's text as the student's tokens."""
    from machine.renderers import to_conversation

    conversation = to_conversation(student.renderer, MESSAGES[:1], ())
    prompt = student.renderer.build_generation_prompt(conversation).to_ints()
    return list(prompt) + student.encode(str(MESSAGES[1]["content"]))


def of_trainer(service: Service, client: "TrainingClient", student: Student) -> list[float]:
    """Log-probability of each probe token but the first, under the weights being trained."""
    from tinker import Datum, ModelInput, TensorData

    ids = tokens(student)
    inputs = {
        "target_tokens": TensorData(data=ids[1:], dtype="int64"),
        "weights": TensorData(data=[1.0] * (len(ids) - 1), dtype="float32"),
    }
    datum = Datum(model_input=ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)
    result = service.wait(client.forward([datum], "cross_entropy"), "taking the trainer's probe")
    return [float(x) for x in result.loss_fn_outputs[0]["logprobs"].data]


def of_sampler(service: Service, client: "SamplingClient", student: Student) -> list[float]:
    """Log-probability of each probe token but the first, under the weights that a sampler answers with."""
    from tinker import ModelInput

    pending = client.compute_logprobs(ModelInput.from_ints(tokens(student)))
    result = service.wait(pending, "taking the sampler's probe")
    return [float(x) for x in result[1:] if x is not None]


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Mean absolute difference of two probes, in nats; infinite where they are not of the same tokens."""
    if len(one) != len(other) or not one:
        return float("inf")
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)
