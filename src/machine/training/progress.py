"""Progress: how a run goes, in a line that fits the terminal, and a curve of its losses.

The line is what the page prints after each step: `step 4/9 ████░░░░ loss 1.234  212 tok/s  12 s left`. Whoever runs the
page in a child process sets `COLUMNS` for it and shows the line as it is.
"""

import itertools
import shutil
from collections.abc import Sequence
from typing import Any

_FULL, _EMPTY = "█", "░"
_LEVELS = "▁▂▃▄▅▆▇█"
_NARROWEST, _WIDEST = 8, 40
_TEXT = 60
"""Columns that the words of a line may take beside the bar."""
RECENT = 6
"""Lines of metrics that speed and time left are taken from: those of the last five steps, and where they began."""


def line(metrics: Sequence[dict[str, Any]], steps: int, columns: int | None = None) -> str:
    """Where a run of so many steps stands, by its metrics so far (at least one line), in at most `columns`."""
    last = metrics[-1]
    width = shutil.get_terminal_size().columns if columns is None else columns
    size = min(max(width - _TEXT, _NARROWEST), _WIDEST)
    done = size * last["step"] // steps
    recent = list(metrics)[-RECENT:]
    per_step = _per_step(recent)
    parts = [f"step {last['step']}/{steps} {_FULL * done}{_EMPTY * (size - done)} loss {last['loss']:.3f}"]
    if per_step:
        tokens = sum(each["tokens"] for each in recent[1:]) / (len(recent) - 1) if len(recent) > 1 else last["tokens"]
        parts += [f"{tokens / per_step:.0f} tok/s", f"{duration(per_step * (steps - last['step']))} left"]
    return "  ".join(parts)


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The values as a curve of at most `width` characters, the highest a full block; neighbours are averaged to fit."""
    if not values:
        return ""
    size = min(width, len(values))
    edges = [len(values) * i // size for i in range(size + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, span = min(means), (max(means) - min(means)) or 1.0
    return "".join(_LEVELS[round((mean - low) / span * (len(_LEVELS) - 1))] for mean in means)


def duration(seconds: float) -> str:
    """A time in words: `12 s`, `3 min`, `1 h 05 min`."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _per_step(recent: Sequence[dict[str, Any]]) -> float:
    """Seconds a step over the recent ones; of a run's first step, all that went before it."""
    if len(recent) == 1:
        return float(recent[0]["seconds"])
    return float(recent[-1]["seconds"] - recent[0]["seconds"]) / (len(recent) - 1)
