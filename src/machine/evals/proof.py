"""Proof: which weights answered an evaluation.

Three things must agree: what the service says the sampler was made from, the sampler's probe (log-probabilities of
a fixed text, see `tinker.probe`), and, for a checkpoint, the probe that was taken from the trainer when it was
saved. A checkpoint that answers like the base is an error, not a result.
"""

import math
from typing import TYPE_CHECKING

import msgspec

from machine.errors import TrainingError
from machine.tinker import probe
from machine.tinker.probe import distance

if TYPE_CHECKING:
    from machine.evals.sample import Asker

SAME = 1e-5
"""Nats: probes of different weights that are nearer than this cannot be told apart."""


class Proof(msgspec.Struct, frozen=True):
    """Who answered. `path` None is the base model; `probe` is in nats, `distance` is to the base (None for it)."""

    base_model: str
    path: str | None
    probe: tuple[float, ...]
    distance: float | None = None


def prove(
    asker: "Asker", path: str | None, base: Proof | None = None, trained: tuple[float, ...] | None = None
) -> Proof:
    """The proof for what `asker` asks, which ought to be the weights at `path`.

    Args:
        asker: the model that was or will be asked.
        path: the checkpoint that was asked for, None for the base model.
        base: the base model's proof, when `path` is a checkpoint.
        trained: the probe taken from the trainer when the checkpoint was saved, where it is known.

    Raises:
        TrainingError: other weights answer, or what they answer is not finite.
    """
    kept = asker.service.wait(asker.client._get_sampler_submit(), "asking which weights answer")
    if (kept.model_path or None) != path:
        raise _mixed(
            f"{path or 'the base model'} was asked for, the service's sampler is {kept.model_path or 'the base'}"
        )
    if kept.base_model != asker.student.model:
        raise _mixed(f"{asker.student.model} was asked for, the service's sampler is of {kept.base_model}")
    given = probe.of_sampler(asker.service, asker.client, asker.student)
    taken = tuple(finite(each, "the probe text") for each in given)
    if base is None:
        return Proof(kept.base_model, path, taken)
    apart = distance(taken, base.probe)
    if apart < SAME:
        raise _mixed(f"{path} gives the probe text the same log-probabilities as the base model")
    if trained is not None and distance(taken, trained) >= distance(base.probe, trained):
        raise _mixed(f"the sampler of {path} is nearer to the base model than to the weights that were saved")
    return Proof(kept.base_model, path, taken, round(apart, 6))


def same_base(one: Proof, other: Proof, checkpoint: Proof) -> None:
    """Checks that two probes of the base are of the same weights: nearer to each other than to the checkpoint.

    Raises:
        TrainingError: they are not, or the models differ.
    """
    if one.base_model != other.base_model:
        raise _mixed(f"the baseline is of {one.base_model}, the checkpoint of {other.base_model}")
    if distance(one.probe, other.probe) >= distance(one.probe, checkpoint.probe):
        raise _mixed("the baseline was not answered by the base model that the checkpoint was trained from")


def finite(value: float, of: str) -> float:
    """A log-probability that the weights gave `of` something.

    Raises:
        TrainingError: it is not a finite number.
    """
    if math.isfinite(value):
        return value
    raise TrainingError(
        f"the weights that answer give {of} the log-probability {value}: training ran away, or the service is broken",
        next_step="machine train run --learning-rate VALUE, lower than before",
    )


def _mixed(what: str) -> TrainingError:
    return TrainingError(f"the weights are mixed up: {what}", next_step="machine tinker status")
