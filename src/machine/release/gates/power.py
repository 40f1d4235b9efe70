"""Power: what a suite of so many cases can show at all, and what it cannot, whatever a checkpoint does."""

from machine.evals.compare import upper_bound
from machine.release.gates.paired import lower_bound, unchanged_needed
from machine.release.gates.wording import percent
from machine.release.preregistration import Control, Drift, Gate, Improvement, NonInferiority, Sanity

TIMED = 6
"""Timed pairs from which on a median has a 95 % interval: 2 / 2^6 is less than 0.05."""


def wins_needed(alpha: float) -> int:
    """Wins without a loss that it takes for a one-sided exact p-value of at most `alpha`: 5 for 0.05."""
    wins = 1
    while 0.5**wins > alpha:
        wins += 1
    return wins


def least_cases(gate: Gate) -> int:
    """The fewest cases with which the gate can pass.

    Of an improvement: all of them won. Of non-inferiority and the control: all of them answered as the other arm does,
    which is the best that a candidate does on cases that the other arm passes. Of everything else: one.
    """
    match gate:
        case Improvement():
            return wins_needed(gate.alpha)
        case NonInferiority() | Control():
            return unchanged_needed(gate.margin, gate.confidence)
        case _:
            return 1


def cannot(gate: Gate, cases: int) -> str:
    """What a suite of `cases` cases (of a drift: timed pairs; of sanity: answers) cannot show, in words; "" if nothing.

    Raises:
        ValueError: there is no case.
    """
    match gate:
        case Improvement():
            return _improvement(gate, cases)
        case NonInferiority() | Control():
            return _drop(gate, cases)
        case Drift():
            few = f"{cases} timed pairs give no 95 % interval of the median: it takes {TIMED}"
            return few if cases < TIMED else ""
        case Sanity():
            return (
                f"{cases} answers without such a one leave a share of up to {percent(upper_bound(0, cases))} possible"
            )
        case _:
            return ""


def _improvement(gate: Improvement, cases: int) -> str:
    wins = wins_needed(gate.alpha)
    takes = f"(at p ≤ {gate.alpha:g} it takes {wins} wins without a loss)"
    if cases < wins:
        return f"{cases} cases cannot show an improvement {takes}"
    return f"{cases} cases cannot show an improvement on fewer than {wins} of them, {percent(wins / cases)} {takes}"


def _drop(gate: NonInferiority | Control, cases: int) -> str:
    possible = percent(-lower_bound(0, 0, cases, gate.confidence))
    sure = f"({percent(gate.confidence)} confidence)"
    least = least_cases(gate)
    if cases >= least:
        return f"{cases} cases without a loss leave a drop of up to {possible} possible {sure}"
    return (
        f"{cases} cases cannot rule out a drop of {percent(gate.margin)}: not one change leaves a drop of up to "
        f"{possible} possible {sure}; it takes {least} cases"
    )
