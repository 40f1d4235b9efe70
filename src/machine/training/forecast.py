"""Forecast: what a run will take, before it begins: tokens, US dollars, time.

Tokens are exact, out of the plan's own batches. Dollars are an estimate from published prices (`tinker/prices.py`),
with held-out measurements at the price of reading. Time is known where the model was trained on the same service
before.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine.dataset.merge import Pack
from machine.errors import StoreError
from machine.tinker import prices
from machine.tinker.service import Endpoint
from machine.training.config import Config
from machine.training.recipe import Plan
from machine.training.run import runs


@dataclass(frozen=True)
class Forecast:
    """Tokens of every step together (`tokens`), and of every look at the held-out side (`held_out`).

    `dollars` is None where the model's price is not known, `seconds` where nothing like it was run before; `cost` says
    the dollars in words.
    """

    tokens: int
    held_out: int
    dollars: float | None
    cost: str
    seconds: float | None


def forecast(
    config: Config, plan: Plan, datums: Sequence[Pack], held_out: Sequence[Pack], where: Endpoint, folder: Path
) -> Forecast:
    """What the run will take; `folder` holds the runs of before."""
    tokens = sum(trained(datums[i]) for step in range(plan.steps) for i in plan.batch(step))
    looks = 2 + (plan.steps - 1) // config.save_every
    read = looks * sum(trained(datum) for datum in held_out)
    dollars = 0.0 if where.local else prices.dollars(config.model, train_tokens=tokens, prefill=read)
    cost = prices.cost(config.model, train_tokens=tokens, prefill=read, local=where.local)
    rate = _rate(folder, config.model, where.destination)
    return Forecast(tokens, read, dollars, cost, tokens / rate if rate else None)


def trained(datum: Pack) -> int:
    """Tokens that a step of the datum computes: each but the last is read, each but the first predicted."""
    return len(datum.tokens) - 1


def _rate(folder: Path, model: str, service: str) -> float | None:
    """Tokens a second of the last whole run of this model on this service, all its waiting included."""
    for run in runs(folder):
        with contextlib.suppress(StoreError, KeyError):
            config, state = run.config, run.state
            if (config["recipe"]["model"], config["service"]) == (model, service) and state.status == "done":
                return sum(line["tokens"] for line in run.metrics()) / max(state.seconds, 1e-3) or None
    return None
