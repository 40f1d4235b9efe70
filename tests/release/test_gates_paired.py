"""Tango's score, against published intervals, the likelihood itself, closed forms, and what it lets pass."""

import math
import random
from statistics import NormalDist

import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, multinomial

from machine.release.gates.paired import (
    _passes,
    cases_needed,
    false_pass,
    likeliest_loss,
    lower_bound,
    unchanged_needed,
)


@pytest.mark.parametrize(
    ("only_first", "only_second", "cases", "low", "high"),
    [
        # Cavo et al. 2012, in Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables (2017), ch. 8
        (6, 16, 161, -0.1240, -0.0054),
        # Bentur et al. 2009, in Fagerland, Lydersen and Laake, Statistics in Medicine 33 (2014), 2850-2875
        (1, 7, 21, -0.517, -0.026),
    ],
)
def test_published_intervals(only_first, only_second, cases, low, high):
    digits = 5e-5 if cases == 161 else 5e-4
    assert lower_bound(only_first, only_second, cases, 0.975) == pytest.approx(low, abs=digits)
    assert -lower_bound(only_second, only_first, cases, 0.975) == pytest.approx(high, abs=digits)


def likelihood(wins, losses, cases, difference, q):
    parts = ((wins, q + difference), (losses, q), (cases - wins - losses, 1 - 2 * q - difference))
    return sum(count * math.log(max(p, 1e-300)) for count, p in parts if count)


def test_the_constrained_estimate_is_the_likeliest():
    draw = random.Random(1)
    for _ in range(60):
        cases = draw.randint(2, 60)
        wins = draw.randint(0, cases)
        losses = draw.randint(0, cases - wins)
        difference = draw.uniform(-0.9, 0.9)
        low, high = max(0.0, -difference), (1 - difference) / 2
        best = minimize_scalar(
            lambda q, w=wins, c=losses, n=cases, d=difference: -likelihood(w, c, n, d, q),
            bounds=(low, high), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        found = float(likeliest_loss(wins, losses, cases, difference))
        assert low - 1e-9 <= found <= high + 1e-9
        assert likelihood(wins, losses, cases, difference, found) >= -best.fun - 1e-6


def statistic(wins, losses, cases, difference):
    """The score statistic with a likeliest loss that is searched for, not solved."""
    low, high = max(0.0, -difference), (1 - difference) / 2
    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if likelihood(wins, losses, cases, difference, a) < likelihood(wins, losses, cases, difference, b):
            low = a
        else:
            high = b
    variance = cases * (2 * low + difference - difference**2)
    return (wins - losses - cases * difference) / math.sqrt(variance)


@pytest.mark.parametrize(("wins", "losses", "cases"), [(3, 5, 24), (0, 1, 24), (0, 24, 25), (9, 2, 12), (1, 0, 3)])
def test_the_bound_is_where_the_statistic_is_the_quantile(wins, losses, cases):
    bound = lower_bound(wins, losses, cases, 0.95)
    assert statistic(wins, losses, cases, bound) == pytest.approx(NormalDist().inv_cdf(0.95), abs=1e-4)


@pytest.mark.parametrize("cases", [1, 5, 24, 400])
def test_where_all_is_one_way(cases):
    z2 = NormalDist().inv_cdf(0.95) ** 2
    assert lower_bound(0, 0, cases, 0.95) == pytest.approx(-z2 / (cases + z2))
    assert lower_bound(cases, 0, cases, 0.95) == pytest.approx((cases - z2) / (cases + z2))
    assert lower_bound(0, cases, cases, 0.95) == -1


def test_the_bound_falls_with_losses_and_confidence_and_rises_with_wins():
    by_losses = [lower_bound(3, losses, 30, 0.95) for losses in range(28)]
    assert by_losses == sorted(by_losses, reverse=True)
    by_wins = [lower_bound(wins, 3, 30, 0.95) for wins in range(28)]
    assert by_wins == sorted(by_wins)
    assert lower_bound(1, 2, 30, 0.99) < lower_bound(1, 2, 30, 0.95) < lower_bound(1, 2, 30, 0.8)


@pytest.mark.parametrize(("wins", "losses", "cases"), [(0, 0, 0), (3, 3, 5)])
def test_what_no_outcome_is(wins, losses, cases):
    with pytest.raises(ValueError, match="in"):
        lower_bound(wins, losses, cases, 0.95)


@pytest.mark.parametrize(("margin", "confidence", "cases"), [(0.1, 0.95, 25), (0.05, 0.95, 52), (0.2, 0.9, 7)])
def test_the_fewest_cases_without_a_change(margin, confidence, cases):
    assert unchanged_needed(margin, confidence) == cases
    assert lower_bound(0, 0, cases, confidence) > -margin
    assert lower_bound(0, 0, cases - 1, confidence) <= -margin


def test_the_cases_that_the_same_shares_would_take():
    needed = cases_needed(2, 3, 50, 0.1, 0.95)
    assert needed is not None
    assert needed > 50
    scaled = [lower_bound(2 * n / 50, 3 * n / 50, n, 0.95) for n in (needed - 1, needed)]
    assert scaled[0] <= -0.1 < scaled[1]
    assert cases_needed(0, 5, 50, 0.1, 0.95) is None
    assert cases_needed(0, 9, 50, 0.1, 0.95) is None


def test_what_passes_is_what_lies_above():
    import numpy as np

    pairs = [(wins, losses) for wins in range(31) for losses in range(31 - wins)]
    wins, losses = (np.array(each) for each in zip(*pairs, strict=True))
    above = [lower_bound(w, c, 30, 0.95) > -0.1 for w, c in pairs]
    assert _passes(wins, losses, 30, 0.1, 0.95).tolist() == above
    assert 0 < sum(above) < len(above)


def test_the_error_at_the_margin_is_counted_exactly():
    passing = [(w, c) for w in range(13) for c in range(13 - w) if lower_bound(w, c, 12, 0.95) > -0.2]
    worst = max(
        multinomial.pmf([(w, c, 12 - w - c) for w, c in passing], 12, (q, q + 0.2, 1 - 2 * q - 0.2)).sum()
        for q in [i * 0.4 / 100 for i in range(101)]
    )
    assert false_pass(12, 0.2, 0.95) == pytest.approx(worst, rel=1e-9)
    # 25 cases pass without a win only where none is lost: 0.9^25
    assert false_pass(25, 0.1, 0.95) == pytest.approx(binom.pmf(0, 25, 0.1), rel=1e-6)
    assert false_pass(100_000, 0.1, 0.95) is None


@pytest.mark.parametrize("margin", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("cases", [24, 60, 120])
def test_candidates_at_the_margin_seldom_pass(cases, margin):
    error = false_pass(cases, margin, 0.95)
    assert error is not None
    assert 0.005 < error < 0.085


def test_drawn_candidates_at_the_margin_seldom_pass():
    import numpy as np

    draws = np.random.default_rng(7).multinomial(80, (0.1, 0.2, 0.7), 20_000)
    rate = _passes(draws[:, 0], draws[:, 1], 80, 0.1, 0.95).mean()
    assert 0.03 < rate < 0.06
    better = np.random.default_rng(7).multinomial(80, (0.2, 0.05, 0.75), 2_000)
    assert _passes(better[:, 0], better[:, 1], 80, 0.1, 0.95).mean() > 0.99
