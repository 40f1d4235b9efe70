"""Pace: how long the candidate takes for a token of an answer, beside the base, one request at a time.

The two are asked in turn, each first as often as the other, so that whatever else the machine does falls on both.
"""

import time
from collections.abc import Callable, Sequence

from machine.evals.case import Case
from machine.evals.sample import Asker, Parameters, ask

CASES = 12
"""Cases that are timed, of those in the suite."""
_WARM = 1


def paces(
    base: Asker,
    candidate: Asker,
    cases: Sequence[Case],
    how: Parameters,
    progress: Callable[[str], None] = lambda line: None,
) -> list[tuple[float, float]]:
    """Seconds a sampled token of (base, candidate), for each of the first `CASES` cases.

    Raises:
        ServiceError: the service failed or went away.
    """
    for asker in (base, candidate):
        ask(asker, cases[:_WARM], how)
    found = []
    for number, case in enumerate(cases[:CASES], 1):
        progress(f"timing {number}/{min(CASES, len(cases))}")
        first, second = (base, candidate) if number % 2 else (candidate, base)
        one, other = _pace(first, case, how), _pace(second, case, how)
        found.append((one, other) if first is base else (other, one))
    return found


def _pace(asker: Asker, case: Case, how: Parameters) -> float:
    began = time.monotonic()
    samples = ask(asker, [case], how)
    return (time.monotonic() - began) / max(1, sum(sample.tokens for sample in samples))
