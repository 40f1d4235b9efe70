"""Stops: the rules that end a trial before its length is reached, by the outcomes of its turns.

They are a brake for the user's sake, looked at after each turn; what a trial shows is not theirs to say.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from machine.release.outcomes import Outcome, tallied

_Count = Annotated[int, msgspec.Meta(ge=0)]


class Stops(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a trial ends early; 0 switches a rule off.

    `failures`: so many turns of the candidate in a row failed or found it unavailable. `bad`: so many of its turns in
    all were not what the user wanted (`machine.release.outcomes.BAD`). `worse`: the one-sided p-value of Fisher's exact
    test, that the candidate's share of bad turns is above the work model's, at or below which it ends. Since that test
    is repeated after each turn, it stops a candidate that is no worse more often than `worse` says.
    """

    failures: _Count = 3
    bad: _Count = 5
    worse: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0


def stopped(stops: Stops, outcomes: Sequence[Outcome]) -> str:
    """The rule that ends the trial, in words with its figures; empty while none does.

    `outcomes` hold one for each turn, oldest first, as `machine.release.outcomes.latest` gives them.
    """
    failures = _longest_failure(outcomes)
    if stops.failures and failures >= stops.failures:
        return f"{failures} turns of the candidate in a row failed or found it unavailable (the rule: {stops.failures})"
    tally = tallied(outcomes)
    candidate, work = tally.candidate, tally.work
    if stops.bad and candidate.bad >= stops.bad:
        return f"{candidate.bad} of {candidate.judged} turns of the candidate were bad (the rule: {stops.bad} in all)"
    p = tally.worse if stops.worse else None
    if p is not None and p <= stops.worse:
        return (
            f"{candidate.bad} of {candidate.judged} turns of the candidate were bad, {work.bad} of {work.judged} "
            f"of the work model's: p = {p:.2g} (Fisher, one-sided; the rule: {stops.worse:g})"
        )
    return ""


def _longest_failure(outcomes: Sequence[Outcome]) -> int:
    longest = length = 0
    for each in outcomes:
        if each.arm == "candidate":
            length = length + 1 if each.what in ("failed", "unavailable") else 0
            longest = max(longest, length)
    return longest
