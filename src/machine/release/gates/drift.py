"""Drift: answers that grew longer, or slower, than the behaviour is worth."""

import math
from collections.abc import Sequence
from statistics import median

from machine.evals.compare import CONFIDENCE, Interval
from machine.release.gates.arms import Measured, alike
from machine.release.gates.power import TIMED, cannot
from machine.release.gates.result import Result
from machine.release.gates.wording import times
from machine.release.preregistration import Drift

_ROUNDING = 1e-9


def drift(
    name: str, gate: Drift, base: Measured, candidate: Measured, latencies: Sequence[tuple[float, float]]
) -> Result:
    """Whether answers are at most `gate.length` times as long (mean tokens) and `gate.latency` times as slow (median).

    The mean is over cases, each counting one whatever its weight.

    Args:
        name: the gate's.
        gate: what is allowed.
        base: the base's answers.
        candidate: the candidate's to the same cases.
        latencies: (base, candidate) seconds of the same request, measured one after the other; none: the gate fails.

    Raises:
        ValueError: the arms were not given the same cases, or a time is not above 0.
    """
    ids = alike(base, candidate)
    if any(not 0 < seconds < math.inf for pair in latencies for seconds in pair):
        raise ValueError("a latency is not a time above 0")
    before, after = (sum(arm.tokens[id] for id in ids) / len(ids) for arm in (base, candidate))
    length = after / before if before else (math.inf if after else 1.0)
    ratios = [second / first for first, second in latencies]
    latency, ends = median(ratios) if ratios else math.nan, median_interval(ratios)
    long, slow = length > gate.length + _ROUNDING, not latency <= gate.latency + _ROUNDING
    numbers = {
        "base_tokens": before,
        "candidate_tokens": after,
        "most_length": gate.length,
        "timed": len(ratios),
        "most_latency": gate.latency,
    }
    numbers |= {"length": length} if math.isfinite(length) else {}
    numbers |= {"latency": latency} if ratios else {}
    numbers |= {"latency_low": ends[0], "latency_high": ends[1]} if ends else {}
    return Result(
        gate=name,
        test="drift",
        passed=not long and not slow,
        figure=f"{_length(length)} ({before:.1f} → {after:.1f} tokens an answer), {_latency(latency, ends)}",
        threshold=f"at most {times(gate.length)} as long and {times(gate.latency)} as slow",
        words=_words(gate, long, slow, ratios, ends),
        numbers=numbers,
        samples=(base.samples, candidate.samples),
    )


def median_interval(values: Sequence[float]) -> Interval | None:
    """The distribution-free 95 % interval of a median, from order statistics; None with fewer than `TIMED` values."""
    from scipy.stats import quantile_test

    if len(values) < TIMED:
        return None
    found = quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    return float(found.low), float(found.high)


def _length(length: float) -> str:
    return f"{times(length)} as long" if math.isfinite(length) else "the base says nothing at all"


def _latency(latency: float, ends: Interval | None) -> str:
    if math.isnan(latency):
        return "latency not measured"
    shown = f"95 % interval {ends[0]:.2f} to {ends[1]:.2f}" if ends else "too few pairs for an interval"
    return f"{times(latency)} as slow (median; {shown})"


def _words(gate: Drift, long: bool, slow: bool, ratios: Sequence[float], ends: Interval | None) -> tuple[str, ...]:
    words = []
    if long:
        words.append(f"the answers are more than {times(gate.length)} as long as the base's")
    if not ratios:
        words.append("the latency was not measured, so that nothing is shown of it")
    elif slow:
        words.append(f"the answers take more than {times(gate.latency)} as long as the base's")
    if ends and not slow and ends[1] > gate.latency:
        words.append(f"{len(ratios)} timed pairs do not rule out {times(ends[1])}: the interval ends above the limit")
    if ratios and (few := cannot(gate, len(ratios))):
        words.append(few)
    return tuple(words)
