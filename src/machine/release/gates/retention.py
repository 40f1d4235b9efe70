"""Retention: everything else that the base does is kept: the language of unseen texts, the answers to other things."""

from machine.evals.record import Retention
from machine.evals.retention import Change, judge
from machine.release.gates.result import Result
from machine.release.gates.wording import names, probability
from machine.release.preregistration import Kept


def retention(name: str, gate: Kept, before: Retention, after: Retention, *, samples: tuple[str, ...] = ()) -> Result:
    """Whether the NLL rose by at most `gate.rise` (upper end of the 95 % interval) and answers are not worse.

    Too few texts for an interval, or too few cases to show anything, fail.

    Raises:
        Refused: the two were not asked the same suite.
    """
    found = judge(before, after)
    interval, answers = found.language.interval, found.answers
    low, high = interval or (0.0, 0.0)
    within = f"95 % interval {low:+.3f} to {high:+.3f}" if interval else "too few texts for an interval"
    numbers = {
        "nll_rise": found.language.rise,
        "rise": gate.rise,
        "cases": answers.cases,
        "base_passed": answers.baseline,
        "candidate_passed": answers.candidate,
        "wins": len(answers.wins),
        "losses": len(answers.losses),
        "p_worse": answers.p_worse,
        "changed": found.changed,
    }
    return Result(
        gate=name,
        test="retention",
        passed=interval is not None and high <= gate.rise and answers.verdict in ("better", "no difference shown"),
        figure=f"NLL {found.language.rise:+.3f} nats a token ({within}); {answers.baseline} → {answers.candidate} of "
        f"{answers.cases} answers pass ({answers.verdict})",
        threshold=f"95 % interval up to {gate.rise:+g} nats a token, and answers not worse (p ≤ 0.05)",
        words=_words(gate, found),
        numbers=numbers | ({"nll_rise_low": low, "nll_rise_high": high} if interval else {}),
        samples=samples,
    )


def _words(gate: Kept, found: Change) -> tuple[str, ...]:
    words, interval, answers = [], found.language.interval, found.answers
    if interval is None:
        words.append("with fewer than two texts there is no interval, so that nothing is shown to be kept")
    elif interval[1] > gate.rise:
        seen = "the texts became harder to read" if interval[0] > 0 else "a rise is not ruled out"
        words.append(f"{seen}: it may be {interval[1]:+.3f} nats a token, more than {gate.rise:+g}")
    if answers.verdict == "worse":
        words.append(f"answers to unrelated questions are worse, {probability(answers.p_worse)}")
    if answers.losses:
        words.append(f"lost: {names(answers.losses)}")
    if interval is not None and interval[1] <= gate.rise:
        words.append(f"a rise of up to {max(0.0, interval[1]):.3f} nats a token is still possible")
    return (*words, *answers.limits, answers.regressions, *found.notes)
