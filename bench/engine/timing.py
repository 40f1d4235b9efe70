"""The clock of the benches: the fastest of some runs, since what else runs on the machine only makes one slower.

Where two sides are compared whose runs take many seconds, their medians: what else runs falls on all of them.
"""

import statistics
import time
from collections.abc import Callable, Sequence

import torch


def fastest(runs: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The fewest seconds of each of the runs, which take turns for so many rounds."""
    return [min(taken) for taken in _times(runs, repeats)]


def medians(runs: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The median of the seconds of each of the runs, which take turns for so many rounds."""
    return [statistics.median(taken) for taken in _times(runs, repeats)]


def _times(runs: Sequence[Callable[[], object]], repeats: int) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, taken in zip(runs, times, strict=True):
            began = time.perf_counter()
            run()
            taken.append(time.perf_counter() - began)
    return times


def seconds(run: Callable[[], object], repeats: int) -> float:
    """The fewest seconds of a run."""
    return fastest([run], repeats)[0]


def matrix_peak() -> float:
    """Float32 operations a second of a large matrix product here."""
    square = torch.randn(2048, 2048)
    return 2 * len(square) ** 3 / seconds(lambda: square @ square, 6)
