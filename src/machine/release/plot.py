"""Plot: where the interval of a gate's figure lies beside its limit, for a template to draw as SVG.

Coordinates are in the drawing's own pixels, x to the right and y down.
"""

from collections.abc import Callable
from dataclasses import dataclass

from machine.evals.chart import Tick, nice
from machine.release.gates.result import Result
from machine.release.gates.wording import signed

_SIDE = 26
"""Pixels that are kept free on either side, for labels."""


@dataclass(frozen=True)
class Plot:
    """A drawing of `width`: the interval from `low` to `high` round `point`, the `limit`, and what is allowed.

    `allowed` is where that begins, and how wide it is. `open` is true where the interval has no upper end. `none` is
    where nothing would have changed. `words` say it all.
    """

    width: int
    ticks: list[Tick]
    low: float
    high: float
    point: float
    limit: float
    none: float
    allowed: tuple[float, float]
    open: bool
    words: str


@dataclass(frozen=True)
class _Kind:
    """How a gate's numbers are read: the figure's name, its limit, whether more is better, and what no change is."""

    figure: str
    limit: Callable[[dict[str, float]], float]
    more: bool
    none: float
    shown: Callable[[float], str]


_KINDS = {
    "improvement": _Kind("difference", lambda n: n["gain"], True, 0.0, signed),
    "non-inferiority": _Kind("difference", lambda n: -n["margin"], True, 0.0, signed),
    "control": _Kind("difference", lambda n: -n["margin"], True, 0.0, signed),
    "retention": _Kind("nll_rise", lambda n: n["rise"], False, 0.0, lambda value: f"{value:+.3g}" if value else "0"),
    "drift": _Kind("latency", lambda n: n["most_latency"], False, 1.0, lambda value: f"{value:.3g}×"),
}


def plot(result: Result, width: int) -> Plot | None:
    """The drawing of a gate's figure; None where its numbers give no interval, or are not finite."""
    kind, numbers = _KINDS.get(result.test), result.numbers
    if kind is None:
        return None
    try:
        point, limit = numbers[kind.figure], kind.limit(numbers)
        low, high = numbers[f"{kind.figure}_low"], numbers.get(f"{kind.figure}_high")
    except KeyError:
        return None
    values = [point, limit, low, kind.none] + ([high] if high is not None else [])
    if not all(abs(value) < 1e9 for value in values):  # nor is what is not a number
        return None
    marks = nice(min(values), max(values), max(2, width // 110))
    first, last = marks[0], marks[-1]

    def across(value: float) -> float:
        return round(_SIDE + (value - first) / (last - first) * (width - 2 * _SIDE), 1)

    beyond = across(limit)
    ends = f"{kind.shown(low)} to {kind.shown(high)}" if high is not None else f"{kind.shown(low)} or more"
    return Plot(
        width,
        [Tick(across(mark), kind.shown(mark)) for mark in marks],
        across(low),
        across(high) if high is not None else width,
        across(point),
        beyond,
        across(kind.none),
        (beyond, round(width - beyond, 1)) if kind.more else (0.0, beyond),
        high is None,
        f"{kind.shown(point)}, interval {ends}, limit {kind.shown(limit)}",
    )


def plots(result: Result | None) -> list[Plot]:
    """The drawing for a wide page and for a narrow one; none where there is nothing to draw."""
    return [drawn for width in (920, 340) if result and (drawn := plot(result, width))]
