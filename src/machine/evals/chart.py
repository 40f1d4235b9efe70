"""Chart: where the points of a loss curve lie, for a template to draw as SVG.

Coordinates are in the drawing's own pixels, x to the right and y down.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_POINTS = 240
"""More steps than this are drawn as means of so many neighbours each."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 14, 40


@dataclass(frozen=True)
class Point:
    """A value `y` (nats) at step `x`, drawn at (`left`, `top`)."""

    x: float
    y: float
    left: float
    top: float


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A drawing of `width` by `height`; the axes meet at (`left`, `bottom`). `mean_of` steps make a training point."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    steps: list[Tick]
    nats: list[Tick]
    train: list[Point]
    held_out: list[Point]
    mean_of: int


def chart(
    train: Sequence[tuple[float, float]], held_out: Sequence[tuple[float, float]], width: int, height: int
) -> Chart | None:
    """The drawing of two curves of (step, nats); None where neither has a finite point. The nats begin at 0."""
    mean_of = max(1, math.ceil(len(train) / MOST_POINTS))
    curve, held = _means(_finite(train), mean_of), _finite(held_out)
    every = [*curve, *held]
    if not every:
        return None
    left, right, top, bottom = _LEFT, width - _RIGHT, _TOP, height - _BOTTOM
    first, last = min(x for x, _ in every), max(x for x, _ in every)
    heights = nice(0.0, max(y for _, y in every) or 1.0, 5)
    span, highest = (last - first) or 1.0, heights[-1]

    def across(x: float) -> float:
        return round(left + (x - first) / span * (right - left), 1) if last > first else (left + right) / 2

    def down(y: float) -> float:
        return round(bottom - y / highest * (bottom - top), 1)

    def placed(points: Sequence[tuple[float, float]]) -> list[Point]:
        return [Point(x, y, across(x), down(y)) for x, y in points]

    steps = [x for x in nice(first, last, max(2, width // 110)) if x == int(x) and first <= x <= last] or [first]
    digits = max(0, -math.floor(math.log10(heights[1] - heights[0])))
    return Chart(
        width, height, left, right, top, bottom,
        steps=[Tick(across(x), f"{x:.0f}") for x in steps],
        nats=[Tick(down(y), f"{y:.{digits}f}") for y in heights],
        train=placed(curve), held_out=placed(held), mean_of=mean_of,
    )  # fmt: skip


def nice(low: float, high: float, most: int) -> list[float]:
    """At most about `most` round numbers (1, 2 or 5 times a power of ten apart) that enclose `low` to `high`."""
    apart = (high - low) / max(1, most) or 1.0
    power = 10.0 ** math.floor(math.log10(apart))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= apart * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 10) for index in range(first, max(last, first + 1) + 1)]


def _finite(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def _means(points: Sequence[tuple[float, float]], of: int) -> list[tuple[float, float]]:
    groups = [points[at : at + of] for at in range(0, len(points), of)]
    return [(sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for g in groups]
