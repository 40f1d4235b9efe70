"""Compare: what two models scored on the same cases, case by case.

A win is a case on which the candidate scores higher, a loss one on which it scores lower. The test asks how likely so
much would be if both models were equally good, so that each difference could as well have had the other sign. Where
every case passes or fails and all weigh the same, that is the exact McNemar test; else it is the sign-flip permutation
test of the weighted difference in score, of which McNemar's is the special case.

The verdict is `better` or `worse` where the one-sided p-value is at most `ALPHA`: each is said by chance at most one
time in twenty, one or the other at most one time in ten. `too few cases` is said where no outcome could have led to
either; everything else is `no difference shown`, which is not the same as none.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from machine.evals.score import PASS

if TYPE_CHECKING:
    from machine.evals.case import Case
    from machine.evals.record import Record

ALPHA = 0.05
CONFIDENCE = 0.95
LEAST = math.ceil(math.log(ALPHA, 0.5))
"""Wins without a loss that it takes to show a difference: 5."""
FIRST_TAG = "regression"
"""The tag whose cases are named first: what worked before and must go on to."""
_DRAWS = 2**16

Verdict = Literal["better", "worse", "no difference shown", "too few cases"]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Tagged:
    """The cases of one tag: how many there are, how many each model passes, and which were won and lost."""

    tag: str
    cases: int
    baseline: int
    candidate: int
    wins: tuple[str, ...]
    losses: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """A paired comparison over `cases` cases. `p_better` and `p_worse` are one-sided p-values of `test`.

    `baseline` and `candidate` count the cases passed, the rates are mean scores by weight, with 95 % intervals (see
    `interval` and `difference_interval`). `wins` and `losses` name the cases, those tagged `regression` first.
    `could_win` cases left room above the baseline's score, `could_lose` cases below it. `regression_bound` is the 95 %
    upper bound of the share of such `could_lose` cases that get worse (1 where there is none). `identical` is true
    where both gave the same answers.
    """

    cases: int
    baseline: int
    candidate: int
    wins: tuple[str, ...]
    losses: tuple[str, ...]
    p_better: float
    p_worse: float
    baseline_interval: Interval
    candidate_interval: Interval
    baseline_rate: float
    candidate_rate: float
    difference_interval: Interval
    test: str
    could_win: int
    could_lose: int
    regression_bound: float
    tags: tuple[Tagged, ...] = ()
    weighted: bool = False
    identical: bool = False

    @property
    def difference(self) -> float:
        """The candidate's rate less the baseline's."""
        return self.candidate_rate - self.baseline_rate

    @property
    def verdict(self) -> Verdict:
        """The one word for it."""
        if max(self.could_win, self.could_lose) < LEAST:
            return "too few cases"
        if self.p_better <= ALPHA:
            return "better"
        return "worse" if self.p_worse <= ALPHA else "no difference shown"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What it comes to, as (label, words)."""
        weights, (low, high) = " (by weight)" if self.weighted else "", self.difference_interval
        lost, won = len(self.losses), len(self.wins)
        p = f"p = {self.p_better:.2g} (better), {self.p_worse:.2g} (worse){weights}"
        return [
            ("Baseline", self._rate(self.baseline, self.baseline_rate, self.baseline_interval) + weights),
            ("Checkpoint", self._rate(self.candidate, self.candidate_rate, self.candidate_interval) + weights),
            (
                "Difference",
                f"{self.difference:+.0%} (95 % interval {low:+.0%} to {high:+.0%}; Newcombe, paired){weights}",
            ),
            ("Wins and losses", f"{won} and {lost} of {self.cases} cases"),
            (f"{self.test[:1].upper()}{self.test[1:]}, one-sided", p),
            ("Regressions", self.regressions),
        ]

    def _rate(self, passed: int, rate: float, ends: Interval) -> str:
        low, high = ends
        return f"{passed} of {self.cases} passed, rate {rate:.0%} (95 % interval {low:.0%} to {high:.0%})"

    @property
    def regressions(self) -> str:
        """What the losses say of the share of cases that get worse, and what they do not, in words."""
        if not self.could_lose:
            return "the base passes none of these cases, so none could get worse: they rule no regression out"
        bound, n = f"{self.regression_bound:.1%}".replace("%", " %"), self.could_lose
        if not self.losses:
            return (
                f"0 regressions in the {n} cases that could get worse rule out a rate of regressions above {bound} "
                "(95 %), not a lower one"
            )
        return f"{len(self.losses)} of the {n} cases that could get worse did; the rate may be up to {bound} (95 %)"

    @property
    def limits(self) -> list[str]:
        """What these cases cannot show, whatever is answered, in words."""
        found = []
        if self.could_win < LEAST:
            found.append(
                f"better cannot be shown: it takes {LEAST} wins without a loss, and the base left room on "
                f"{self.could_win} of {self.cases} cases"
            )
        if self.could_lose < LEAST:
            found.append(
                f"worse cannot be shown: it takes {LEAST} losses without a win, and the base scores on "
                f"{self.could_lose} of {self.cases} cases"
            )
        return found


def compare(
    baseline: Mapping[str, float],
    candidate: Mapping[str, float],
    weights: Mapping[str, float] | None = None,
    tags: Mapping[str, Sequence[str]] | None = None,
    *,
    identical: bool = False,
) -> Comparison:
    """Pairs the scores (0 to 1, or passed or not) that two models have on the same cases.

    Args:
        baseline: the score of each case, by its id.
        candidate: the same of the other model.
        weights: what a case counts in the rates, the difference and the test; 1 where it is not named.
        tags: the tags of each case, for the breakdown.
        identical: whether both gave the same answers.

    Raises:
        ValueError: they are not of the same cases, or there is none.
    """
    if baseline.keys() != candidate.keys() or not baseline:
        raise ValueError("the two results are not of the same cases")
    ids, tags = list(baseline), tags or {}
    before, after = [float(baseline[id]) for id in ids], [float(candidate[id]) for id in ids]
    heavy = [float((weights or {}).get(id, 1.0)) for id in ids]
    order = sorted(ids, key=lambda id: FIRST_TAG not in tags.get(id, ()))
    wins = tuple(id for id in order if candidate[id] > baseline[id])
    losses = tuple(id for id in order if candidate[id] < baseline[id])
    test, p_better, p_worse = paired_test([w * (y - x) for w, x, y in zip(heavy, before, after, strict=True)])
    effective = sum(heavy) ** 2 / sum(w * w for w in heavy)
    rates = [_mean(scores, heavy) for scores in (before, after)]
    could_lose = sum(score > 0 for score in before)
    return Comparison(
        cases=len(ids),
        baseline=sum(score >= PASS for score in before),
        candidate=sum(score >= PASS for score in after),
        wins=wins,
        losses=losses,
        p_better=p_better,
        p_worse=p_worse,
        baseline_interval=interval(rates[0] * effective, effective),
        candidate_interval=interval(rates[1] * effective, effective),
        baseline_rate=rates[0],
        candidate_rate=rates[1],
        difference_interval=difference_interval(before, after, heavy),
        test=test,
        could_win=sum(score < 1 for score in before),
        could_lose=could_lose,
        regression_bound=upper_bound(len(losses), could_lose),
        tags=_by_tag(baseline, candidate, tags),
        weighted=len(set(heavy)) > 1,
        identical=identical,
    )


def of_records(before: "Record", after: "Record", cases: "Sequence[Case]" = ()) -> Comparison:
    """The comparison of two records of one suite; without its `cases` every case weighs the same and has no tag.

    Raises:
        ValueError: they are not of the same cases.
    """
    return compare(
        before.scores,
        after.scores,
        {case.id: case.weight for case in cases},
        {case.id: case.tags for case in cases},
        identical=before.answers() == after.answers(),
    )


def paired_test(differences: Sequence[float]) -> tuple[str, float, float]:
    """The name of the test of paired differences, and its one-sided p-values: that they are above, and below, 0.

    Under the null hypothesis each difference could as well have the other sign. Differences of one size make it the
    exact McNemar test (a binomial one); else all signs are tried where there are at most 16 differences, and as many
    drawn at random, from a fixed seed, where there are more.
    """
    from scipy.stats import binomtest, permutation_test

    found = [each for each in differences if each]
    if not found:
        return "exact McNemar", 1.0, 1.0
    if math.isclose(min(map(abs, found)), max(map(abs, found))):
        wins, of = sum(each > 0 for each in found), len(found)
        better, worse = (binomtest(count, of, 0.5, alternative="greater") for count in (wins, of - wins))
        return "exact McNemar", float(better.pvalue), float(worse.pvalue)

    def p(alternative: str) -> float:
        tested = permutation_test(
            (found,), _sums, permutation_type="samples", vectorized=True, n_resamples=_DRAWS, alternative=alternative,
            rng=0,
        )  # fmt: skip
        return float(tested.pvalue)

    name = "exact sign-flip" if 2 ** len(found) <= _DRAWS else f"sign-flip, {_DRAWS:,} draws"
    return name, p("greater"), p("less")


def _sums(values: "object", axis: int) -> "object":
    import numpy

    return numpy.sum(values, axis=axis)  # type: ignore[call-overload]


def interval(passed: float, cases: float) -> Interval:
    """The 95 % Wilson (1927) interval of a rate.

    Fractions are taken as they are: for scores between 0 and 1, whose variance is at most that of passes of the same
    mean, the interval is then on the wide side.
    """
    if not cases:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    centre, spread = passed + z * z / 2, z * math.sqrt(max(0.0, passed * (cases - passed)) / cases + z * z / 4)
    return max(0.0, (centre - spread) / (cases + z * z)), min(1.0, (centre + spread) / (cases + z * z))


def difference_interval(before: Sequence[float], after: Sequence[float], weights: Sequence[float]) -> Interval:
    """The 95 % interval of the mean of `after` less that of `before`, which are paired: Newcombe's square-and-add.

    Method 10 of Newcombe, "Improved confidence intervals for the difference between binomial proportions based on
    paired data", Statistics in Medicine 17 (1998), 2635-2650; recommended for small samples by Fagerland, Lydersen
    and Laake, Statistics in Medicine 33 (2014), 2850-2875. It joins the two Wilson intervals with the correlation of
    the pairs, and has width where nothing differs. It is two-sided and asymptotic, so that it may touch 0 where the
    exact one-sided test shows a difference, and the other way round: the verdict is the test's.

    With scores between 0 and 1 or unequal weights the same formula runs on mean scores and on Kish's effective number
    of cases, (sum w)^2 / sum w^2; that is an approximation.
    """
    n = sum(weights) ** 2 / sum(w * w for w in weights)
    p, q = _mean(after, weights), _mean(before, weights)
    (p_low, p_high), (q_low, q_high) = interval(p * n, n), interval(q * n, n)
    phi = _phi(p, q, _mean([x * y for x, y in zip(before, after, strict=True)], weights) - p * q, n)

    def side(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))

    low, high = p - q - side(p - p_low, q_high - q), p - q + side(p_high - p, q - q_low)
    return max(-1.0, low), min(1.0, high)


def upper_bound(count: int, cases: int) -> float:
    """The one-sided 95 % upper bound of a rate after `count` of `cases` (Clopper and Pearson 1934).

    After none of n it is 1 - 0.05^(1/n), about 3/n: the rule of three.
    """
    from scipy.stats import binomtest

    if not cases:
        return 1.0
    return float(binomtest(count, cases, alternative="less").proportion_ci(CONFIDENCE, method="exact").high)


def _phi(p: float, q: float, covariance: float, n: float) -> float:
    """The correlation of the pairs, a positive one corrected for continuity as Newcombe does."""
    scale = math.sqrt(p * (1 - p) * q * (1 - q))
    if covariance > 0:
        covariance = max(0.0, covariance - 1 / (2 * n))
    return covariance / scale if scale else 0.0


def _mean(scores: Sequence[float], weights: Sequence[float]) -> float:
    return sum(w * s for w, s in zip(weights, scores, strict=True)) / sum(weights)


def _by_tag(
    baseline: Mapping[str, float], candidate: Mapping[str, float], tags: Mapping[str, Sequence[str]]
) -> tuple[Tagged, ...]:
    """The breakdown by tag: `regression` first, then as the cases have them."""
    of_tag: dict[str, list[str]] = {}
    for id in baseline:
        for tag in dict.fromkeys(tags.get(id, ())):
            of_tag.setdefault(tag, []).append(id)
    return tuple(
        Tagged(
            tag,
            len(ids),
            sum(baseline[id] >= PASS for id in ids),
            sum(candidate[id] >= PASS for id in ids),
            tuple(id for id in ids if candidate[id] > baseline[id]),
            tuple(id for id in ids if candidate[id] < baseline[id]),
        )
        for tag, ids in sorted(of_tag.items(), key=lambda each: each[0] != FIRST_TAG)
    )
