"""Compare: two records of one suite, case by case.

Wins are cases that only the candidate passes, losses those that only the baseline passes. The exact one-sided
McNemar test asks how likely so many wins among the discordant cases would be if both were equally good (a fair coin
for each).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ALPHA = 0.05

Verdict = Literal["better", "worse", "no difference shown", "too few cases"]


@dataclass(frozen=True)
class Comparison:
    """A paired comparison over `cases` cases. `p_better` and `p_worse` are one-sided exact p-values."""

    cases: int
    baseline: int
    candidate: int
    wins: tuple[str, ...]
    losses: tuple[str, ...]
    p_better: float
    p_worse: float
    baseline_interval: tuple[float, float]
    candidate_interval: tuple[float, float]

    @property
    def verdict(self) -> Verdict:
        """The one word for it. Too few: so few cases that not even a win in each could show a difference."""
        if 0.5**self.cases > ALPHA:
            return "too few cases"
        if self.p_better <= ALPHA:
            return "better"
        return "worse" if self.p_worse <= ALPHA else "no difference shown"


def compare(baseline: Mapping[str, bool], candidate: Mapping[str, bool]) -> Comparison:
    """Pairs the results of the same cases (id to passed) of two models.

    Raises:
        ValueError: they are not of the same cases.
    """
    from scipy.stats import binomtest

    if baseline.keys() != candidate.keys():
        raise ValueError("the two results are not of the same cases")
    wins = tuple(case for case in baseline if candidate[case] and not baseline[case])
    losses = tuple(case for case in baseline if baseline[case] and not candidate[case])
    discordant = len(wins) + len(losses)

    def p(successes: int) -> float:
        return float(binomtest(successes, discordant, 0.5, alternative="greater").pvalue) if discordant else 1.0

    return Comparison(
        cases=len(baseline),
        baseline=sum(baseline.values()),
        candidate=sum(candidate.values()),
        wins=wins,
        losses=losses,
        p_better=p(len(wins)),
        p_worse=p(len(losses)),
        baseline_interval=interval(sum(baseline.values()), len(baseline)),
        candidate_interval=interval(sum(candidate.values()), len(candidate)),
    )


def interval(passed: int, cases: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a pass rate."""
    from scipy.stats import binomtest

    if not cases:
        return 0.0, 1.0
    found = binomtest(passed, cases).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)
