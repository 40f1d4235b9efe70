"""Tried: what is said of a trial in real use: each arm's turns by what came of them, and how near it is to a stop."""

from typing import TYPE_CHECKING

from machine.release.gates.wording import percent, signed
from machine.release.preregistration import Trial

if TYPE_CHECKING:
    from machine.release.outcomes import Side, Tally, What

_CALLED: dict["What", str] = {
    "good": "said to be good (/good)",
    "answered": "answered, nothing said",
    "corrected": "corrected (/correction)",
    "retried": "asked again",
    "aborted": "aborted",
    "failed": "failed",
    "switched_back": "switched back to the work model",
    "unavailable": "release was unavailable",
}
NOT_BEGUN = "; none was begun"
"""What is said of a trial that did not happen."""


def arms(tally: "Tally") -> list[list[str]]:
    """A table of what came of the turns: a line of heads, then a line each; outcomes that no turn had are left out."""
    sides = (tally.candidate, tally.work)
    rows = [["", "release", "work model"], ["turns", *(f"{side.turns:,}" for side in sides)]]
    for what, called in _CALLED.items():
        if any(what in side.counts for side in sides):
            rows.append([f"  {called}", *(f"{side.counts.get(what, 0):,}" for side in sides)])
    rows.append(["bad turns", *(f"{side.bad} of {side.judged}" for side in sides)])
    rows.append(["share (95 % interval)", *map(_rate, sides)])
    if any(side.seconds is not None for side in sides):
        rows.append(["median time", *(_or_none(side.seconds, "{:.1f} s") for side in sides)])
    if any(side.tokens is not None for side in sides):
        rows.append(["median tokens", *(_or_none(side.tokens, "{:,.0f}") for side in sides)])
    return rows


def compared(tally: "Tally") -> str:
    """How the share of bad turns differs, and what that does not say, in words."""
    if tally.difference is None:
        return f"Nothing can be compared yet: {_without(tally)} had no turn that counts."
    low, high = tally.difference_interval
    within = f"95 % interval {signed(low)} to {signed(high)}"
    found = f"Share of bad turns, release less work model: {signed(tally.difference)} ({within})"
    if low > 0:
        return f"{found}: the release does worse."
    if high < 0:
        return f"{found}: the release does better."
    return f"{found}: no difference is shown, and {signed(high)} is not ruled out."


def explained(tally: "Tally") -> str:
    """What counts as bad, where there is anything to count."""
    return _BAD if tally.candidate.turns or tally.work.turns else ""


def stops(trial: Trial, tally: "Tally | None") -> list[str]:
    """The rules that end the trial early, each with how near it is."""
    rules, side = trial.stops, tally.candidate if tally else None
    found = []
    if rules.failures:
        now = sum(side.counts.get(what, 0) for what in _FAILURES) if side else 0
        found.append(f"{rules.failures} failures in a row" + (f" ({now} in all)" if side else ""))
    if rules.bad:
        found.append(f"{rules.bad} bad turns" + (f" ({side.bad} now)" if side else ""))
    if rules.worse:
        near = tally.worse if tally else None
        shown = "" if near is None else f" ({near:.2g} now)"
        found.append(f"worse at p ≤ {rules.worse:g}{shown}")
    return found


def length(trial: Trial, tally: "Tally | None") -> str:
    """How long the trial is and how far it came."""
    if not trial.turns:
        return "none in real use was written down"
    wanted = f"{percent(trial.share)} of the user's {trial.unit}s"
    if tally is None:
        return f"{trial.turns} turns, out of {wanted}{NOT_BEGUN}"
    return f"{tally.candidate.turns} of {trial.turns} turns, out of {wanted}"


_FAILURES: tuple["What", ...] = ("failed", "unavailable")
_BAD = "Bad turns are those corrected, asked again, aborted, failed or switched back."


def _rate(side: "Side") -> str:
    if side.rate is None:
        return "none that counts"
    low, high = side.interval
    return f"{percent(side.rate)} ({percent(low)} to {percent(high)})"


def _or_none(value: float | None, form: str) -> str:
    return "not known" if value is None else form.format(value)


def _without(tally: "Tally") -> str:
    sides = (("the release", tally.candidate), ("the work model", tally.work))
    return " and ".join(name for name, side in sides if not side.judged)
