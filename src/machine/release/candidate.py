"""Candidate: a training run held against the bounds that were preregistered, by the run's own records.

What a run says of itself is in several records, and they have to agree: the recipe, a line of metrics for each step,
the checkpoints, and the seal that was taken when the run was done.
"""

import datetime
from collections.abc import Iterator
from typing import Any

import msgspec

from machine.errors import Refused, StoreError
from machine.release.preregistration import Preregistration
from machine.tinker import prices
from machine.training.run import Run


class Candidate(msgspec.Struct, frozen=True):
    """A run that kept to its bounds. `weights` is its sampler path, `probe` was taken of them by the trainer.

    `records` has the SHA-256 (hex) of each of the run's records as they were when it became the candidate. `cost` is in
    USD, None where the model's price is not known.
    """

    run: str
    weights: str
    probe: tuple[float, ...]
    renderer: str
    rows: int
    steps: int
    rank: int
    learning_rate: float
    tokens: int
    cost: float | None
    records: dict[str, str]


def candidate_of(run: Run, found: Preregistration, frozen_at: str) -> Candidate:
    """The run as a candidate.

    Raises:
        Refused: it is not done, was begun before the preregistration was frozen, its records were edited or do not
            agree, or it is out of bounds (the message names every bound that it broke, with both figures).
    """
    try:
        return _candidate(run, found, frozen_at)
    except Refused:
        raise
    except StoreError as error:
        raise _edited(run, error.message) from error
    except KeyError as error:
        raise _edited(run, f"an entry {error} is missing") from error
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise _edited(run, f"they do not have their form: {error}") from error


def edited(run: Run, candidate: Candidate) -> list[str]:
    """The records of the run that are not as they were when it became the candidate."""
    try:
        now = run.digests()
    except StoreError as error:
        return [error.message]
    return [name for name in {**candidate.records, **now} if now.get(name) != candidate.records.get(name)]


def _candidate(run: Run, found: Preregistration, frozen_at: str) -> Candidate:
    state = run.state
    if state.status != "done":
        raise Refused(f"run {run.id} is {state.status}, not done", next_step=f"machine train run --resume {run.id}")
    if touched := run.unsealed():
        raise _edited(run, f"{', '.join(touched)} is not as it was when the run was done")
    if _began(run) < datetime.datetime.fromisoformat(frozen_at):
        raise Refused(
            f"run {run.id} began before {found.id} was frozen ({frozen_at}): what counts has to be written down first",
            next_step="machine train run --yes (a new run)",
        )
    config, metrics, last = run.config, run.metrics(), run.sampler()
    recipe, data = config["recipe"], config["data"]
    if last is None or last.sampler is None or last.probe is None:
        raise Refused(f"run {run.id} has no checkpoint that can be asked", next_step="machine train runs")
    tokens = sum(int(line["tokens"]) for line in metrics)
    candidate = Candidate(
        run.id,
        last.sampler,
        last.probe,
        str(recipe["renderer"]),
        int(data["rows"]),
        len(metrics),
        int(recipe["rank"]),
        float(recipe["learning_rate"]),
        tokens,
        _cost(config, tokens),
        run.digests(),
    )
    if apart := list(_disagreements(config, metrics, last.step, state.steps)):
        raise _edited(run, "; ".join(apart))
    if broken := list(_broken(candidate, config, found)):
        raise Refused(
            f"run {run.id} is out of the bounds of {found.id}: {'; '.join(broken)}",
            next_step="train within them (machine train run --help), or amend the preregistration with a reason",
        )
    return candidate


def _disagreements(config: dict[str, Any], metrics: list[dict[str, Any]], last: int, steps: int) -> Iterator[str]:
    """Where the records of one run contradict each other, in words."""
    numbers = [line["step"] for line in metrics]
    if numbers != list(range(1, len(metrics) + 1)) or not len(metrics) == last == steps == config["steps"]:
        yield (
            f"metrics.jsonl has {len(metrics)} steps, the checkpoint is of step {last}, the run was of {steps}, "
            f"config.json says {config['steps']}"
        )
    peak, rate = max((float(line["learning_rate"]) for line in metrics), default=0.0), config["recipe"]["learning_rate"]
    if peak > rate * (1 + 1e-9):
        yield f"metrics.jsonl has a learning rate of {peak:g}, config.json says {rate:g}"


def _broken(candidate: Candidate, config: dict[str, Any], found: Preregistration) -> Iterator[str]:
    """The bounds that are not kept, each with what the run did and what was allowed."""
    bounds = found.training
    for name in ("rows", "steps", "rank", "learning_rate"):
        value, (least, most) = getattr(candidate, name), getattr(bounds, name)
        if not least <= value <= most:
            figures = f"{_figure(least)} to {_figure(most)}"
            yield f"{name.replace('_', ' ')} {_figure(value)}, and {figures} was preregistered"
    if candidate.tokens > bounds.tokens:
        yield f"{candidate.tokens:,} tokens, and at most {bounds.tokens:,} was preregistered"
    if candidate.cost is None:
        yield f"its cost is not known (no price of {found.model}; machine tinker doctor says where one can be given)"
    elif candidate.cost > bounds.cost:
        yield f"it cost about {candidate.cost:.2f} USD, and at most {bounds.cost:.2f} was preregistered"
    if config["recipe"]["model"] != found.model:
        yield f"it trained {config['recipe']['model']}, and {found.model} was preregistered"
    if config["data"]["rows_sha256"] != found.data.sha256:
        yield f"it trained on other rows than the {found.data.rows} that were preregistered (their digest differs)"


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _cost(config: dict[str, Any], tokens: int) -> float | None:
    """USD: what was estimated before, or what the tokens cost by the prices of now, whichever is more."""
    estimate = config["estimate"]["usd"]
    if not estimate:
        return None if estimate is None else 0.0
    return max(float(estimate), prices.dollars(config["recipe"]["model"], train_tokens=tokens) or 0.0)


def _began(run: Run) -> datetime.datetime:
    """When the run was first begun, to the second, UTC: its name says so, whenever it was last resumed."""
    try:
        named = datetime.datetime.strptime(run.id[:15], "%Y%m%d-%H%M%S").replace(tzinfo=datetime.UTC)
    except ValueError as error:
        raise _edited(run, "its name is not that of a run") from error
    return min(named, datetime.datetime.fromisoformat(run.state.started_at))


def _edited(run: Run, what: str) -> Refused:
    return Refused(
        f"the records of run {run.id} cannot be relied on: {what}", next_step="machine train run --yes (a new run)"
    )
