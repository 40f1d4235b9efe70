"""Paired: how much worse the candidate may be after so many wins and losses on the same cases (Tango's score).

With b wins and c losses in n cases, the score statistic of the hypothesis that the candidate's pass rate differs from
the other's by d is

    T(d) = (b - c - n d) / sqrt(n (2 q + d (1 - d)))

where q is the likeliest probability of a loss under that hypothesis: the larger root of

    2 n q^2 + (2 n d - (b + c) - (b - c) d) q - c d (1 - d) = 0

The lower bound is the d below the observed difference at which T(d) is the normal quantile of the confidence. It has
width where nothing differs (z^2 / (n + z^2) after no win and no loss), which Wald's has not. Tango, "Equivalence test
and confidence interval for the difference in proportions for the paired-sample design", Statistics in Medicine 17
(1998), 891-908. Neither scipy nor numpy has it.

It is an approximation: with few cases it lets a candidate at the margin pass a little more often than 1 less the
confidence. `false_pass` says exactly how often.
"""

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

COUNTED = 400
"""Cases up to which `false_pass` counts every outcome; with more the approximation is good."""
_GRID = 101
_BELOW = 1e-9


def likeliest_loss(wins: Any, losses: Any, cases: int, difference: float) -> Any:
    """The constrained maximum likelihood estimate of a loss's probability; numbers or numpy arrays of counts."""
    linear = 2 * cases * difference - (wins + losses) - (wins - losses) * difference
    constant = -losses * difference * (1 - difference)
    inside = linear * linear - 8 * cases * constant
    return (abs(inside) ** 0.5 - linear) / (4 * cases)


def lower_bound(wins: float, losses: float, cases: int, confidence: float) -> float:
    """The one-sided lower bound of the difference in pass rate, candidate less the other, from -1 to 1.

    Raises:
        ValueError: there is no case, or there are more wins and losses than cases.
    """
    from scipy.optimize import brentq

    if cases < 1 or wins + losses > cases:
        raise ValueError(f"{wins} wins and {losses} losses in {cases} cases")
    z = _quantile(confidence)
    if not wins and not losses:
        return -z * z / (cases + z * z)
    observed = (wins - losses) / cases
    if observed == -1:
        return -1.0

    def beyond(difference: float) -> float:
        variance = 2 * likeliest_loss(wins, losses, cases, difference) + difference * (1 - difference)
        return float(wins - losses - cases * difference - z * math.sqrt(cases * max(0.0, variance)))

    return float(brentq(beyond, -1.0, observed - _BELOW, xtol=1e-12))


def cases_needed(wins: float, losses: float, cases: int, margin: float, confidence: float) -> int | None:
    """With how many cases the same shares of wins and losses would lie above -margin; None where never."""
    observed = (wins - losses) / cases
    if observed <= -margin:
        return None
    variance = 2 * likeliest_loss(wins, losses, cases, -margin) - margin * (1 + margin)
    return math.floor(float(_quantile(confidence) ** 2 * variance / (observed + margin) ** 2)) + 1


def unchanged_needed(margin: float, confidence: float) -> int:
    """The fewest cases on which no win and no loss rule out a drop of `margin`."""
    return math.floor(_quantile(confidence) ** 2 * (1 - margin) / margin) + 1


def false_pass(cases: int, margin: float, confidence: float) -> float | None:
    """How often, at most, a candidate that is worse by the margin itself passes: exact, over all outcomes.

    The largest value over a grid of the probabilities of a win; None with more than `COUNTED` cases.
    """
    import numpy as np
    from scipy.special import gammaln, xlogy

    if cases > COUNTED:
        return None
    wins, losses = (each.ravel() for each in np.meshgrid(np.arange(cases + 1), np.arange(cases + 1)))
    possible = wins + losses <= cases
    wins, losses = wins[possible], losses[possible]
    passing = _passes(wins, losses, cases, margin, confidence)
    wins, losses = wins[passing], losses[passing]
    same = cases - wins - losses
    ways = gammaln(cases + 1) - gammaln(wins + 1) - gammaln(losses + 1) - gammaln(same + 1)
    worst = 0.0
    for won in np.linspace(0, (1 - margin) / 2, _GRID):
        kept = max(0.0, 1 - margin - 2 * won)
        logs = ways + xlogy(wins, won) + xlogy(losses, won + margin) + xlogy(same, kept)
        worst = max(worst, float(np.exp(logs).sum()))
    return worst


def _passes(
    wins: "np.ndarray[Any, Any]", losses: "np.ndarray[Any, Any]", cases: int, margin: float, confidence: float
) -> "np.ndarray[Any, Any]":
    """Which outcomes have a lower bound above -margin."""
    variance = 2 * likeliest_loss(wins, losses, cases, -margin) - margin * (1 + margin)
    excess = wins - losses + cases * margin
    found: np.ndarray[Any, Any] = (excess > 0) & (excess**2 > _quantile(confidence) ** 2 * cases * variance)
    return found


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf(confidence)
