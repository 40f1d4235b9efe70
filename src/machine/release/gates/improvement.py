"""Improvement: the candidate is better than the base, by the exact paired test and by as much as was asked for."""

from machine.evals.compare import Comparison, compare
from machine.release.gates.arms import Measured, alike
from machine.release.gates.power import cannot, wins_needed
from machine.release.gates.result import Result
from machine.release.gates.wording import names, percent, probability, signed
from machine.release.preregistration import Improvement

_ROUNDING = 1e-9


def improvement(name: str, gate: Improvement, base: Measured, candidate: Measured) -> Result:
    """Whether p ≤ `gate.alpha` (one-sided, see `evals.compare.paired_test`) and the mean score rose by `gate.gain`.

    Every case counts one, whatever its weight; several answers to a case are one score, their mean.

    Raises:
        ValueError: the arms were not given the same cases.
    """
    alike(base, candidate)
    found = compare(base.scores, candidate.scores, identical=_same(base, candidate))
    shown = found.p_better <= gate.alpha * (1 + _ROUNDING)
    enough = found.difference >= gate.gain - _ROUNDING
    low, high = found.difference_interval
    return Result(
        gate=name,
        test="improvement",
        passed=shown and enough,
        figure=f"{_rates(found, base, candidate)}, {signed(found.difference)} (95 % interval {signed(low)} to "
        f"{signed(high)}), {probability(found.p_better)}",
        threshold=f"p ≤ {gate.alpha:g}" + (f" and a gain of ≥ {percent(gate.gain)}" if gate.gain else ""),
        words=_words(gate, found, shown, enough),
        numbers={
            "cases": found.cases,
            "base_passed": found.baseline,
            "candidate_passed": found.candidate,
            "base_rate": found.baseline_rate,
            "candidate_rate": found.candidate_rate,
            "difference": found.difference,
            "difference_low": low,
            "difference_high": high,
            "p": found.p_better,
            "wins": len(found.wins),
            "losses": len(found.losses),
            "alpha": gate.alpha,
            "gain": gate.gain,
        },
        samples=(base.samples, candidate.samples),
    )


def _rates(found: Comparison, *arms: Measured) -> str:
    passed = f"{found.baseline} → {found.candidate} of {found.cases} passed"
    if all(score in (0, 1) for arm in arms for score in arm.scores.values()):
        return passed
    return f"{passed}, mean score {percent(found.baseline_rate)} → {percent(found.candidate_rate)}"


def _words(gate: Improvement, found: Comparison, shown: bool, enough: bool) -> tuple[str, ...]:
    wins, words = wins_needed(gate.alpha), []
    if found.identical:
        words.append(
            "WARNING: the candidate gave the very answers of the base: it has learnt nothing that this suite shows, or "
            "other weights answered"
        )
    if not shown:
        words.append(
            f"no improvement is shown: so much by chance has {probability(found.p_better)}, above {gate.alpha:g}"
        )
    if not enough:
        words.append(f"the gain, {signed(found.difference)}, is less than {percent(gate.gain)}")
    if found.could_win < wins:
        words.append(
            f"the base left room on {found.could_win} of {found.cases} cases, and it takes {wins} wins without a loss: "
            "no candidate could pass"
        )
    words.append(f"{len(found.wins)} won, {len(found.losses)} lost ({found.test} test)")
    if found.losses:
        words.append(f"lost: {names(found.losses)}")
    return (*words, found.regressions, cannot(gate, found.cases))


def _same(base: Measured, candidate: Measured) -> bool:
    """Whether both gave the same answers; of repositories, where no text is kept, nobody knows."""
    return base.texts == candidate.texts and any(base.texts.values())
