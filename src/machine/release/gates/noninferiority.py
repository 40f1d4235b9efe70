"""Non-inferiority: the candidate is shown not to be worse by more than a margin; than the base, or the prompted base.

"No difference was seen" is not it: a suite that is too small to rule the drop out fails the gate. So does one of which
the other arm passes so little that a candidate which passes nothing would be within the margin: it shows that the
candidate is not worse by showing nothing. There the candidate has to be better.
"""

from dataclasses import dataclass

from machine.evals.compare import compare
from machine.release.gates.arms import Measured, alike
from machine.release.gates.paired import cases_needed, false_pass, lower_bound
from machine.release.gates.power import cannot
from machine.release.gates.result import Result
from machine.release.gates.wording import names, percent, signed
from machine.release.preregistration import Control, NonInferiority

_ROUNDING = 1e-9
_NOTED = 0.005
"""How much more often than agreed a candidate at the margin may pass before it is said."""


@dataclass(frozen=True)
class _Paired:
    """Passes of two arms on the same cases. `bound` is the one-sided lower bound of the difference in pass rate."""

    cases: int
    other: int
    candidate: int
    wins: tuple[str, ...]
    losses: tuple[str, ...]
    bound: float

    @property
    def difference(self) -> float:
        return (self.candidate - self.other) / self.cases

    def is_vacuous(self, margin: float) -> bool:
        """Whether passing no case at all would not be a drop of more than `margin`, and the candidate is not better."""
        return self.other <= margin * self.cases + _ROUNDING and self.bound <= 0


def non_inferiority(name: str, gate: NonInferiority, base: Measured, candidate: Measured) -> Result:
    """Whether the lower bound of candidate less base in the share of cases passed lies above -margin (see `paired`).

    A case passes or fails, whatever its weight; several answers to one pass together where their mean score does.

    Raises:
        ValueError: the arms were not given the same cases.
    """
    found = _paired(gate, base, candidate)
    return _result(name, "non-inferiority", gate, found, _words(gate, found, base.arm, candidate), (base, candidate))


def control(name: str, gate: Control, control_arm: Measured, candidate: Measured) -> Result:
    """The same against the untrained base that was asked for the behaviour in its system prompt.

    Raises:
        ValueError: the arms were not given the same cases.
    """
    found = _paired(gate, control_arm, candidate)
    said = _prompt(found, compare(control_arm.scores, candidate.scores).p_better)
    return _result(
        name, "control", gate, found, (said, *_words(gate, found, "prompted base", candidate)), (control_arm, candidate)
    )


def _paired(gate: NonInferiority | Control, other: Measured, candidate: Measured) -> _Paired:
    ids = alike(other, candidate)
    wins = tuple(id for id in ids if candidate.passed[id] > other.passed[id])
    losses = tuple(id for id in ids if candidate.passed[id] < other.passed[id])
    return _Paired(
        cases=len(ids),
        other=sum(other.passed[id] for id in ids),
        candidate=sum(candidate.passed[id] for id in ids),
        wins=wins,
        losses=losses,
        bound=lower_bound(len(wins), len(losses), len(ids), gate.confidence),
    )


def _result(
    name: str,
    test: str,
    gate: NonInferiority | Control,
    found: _Paired,
    words: tuple[str, ...],
    arms: tuple[Measured, Measured],
) -> Result:
    return Result(
        gate=name,
        test=test,
        passed=found.bound > -gate.margin and not found.is_vacuous(gate.margin),
        figure=f"{found.other} → {found.candidate} of {found.cases} passed, {signed(found.difference)} "
        f"(at least {signed(found.bound)} with {percent(gate.confidence)} confidence)",
        threshold=f"above {signed(-gate.margin)} with {percent(gate.confidence)} confidence",
        words=words,
        numbers={
            "cases": found.cases,
            f"{arms[0].arm}_passed": found.other,
            "candidate_passed": found.candidate,
            "difference": found.difference,
            "difference_low": found.bound,
            "wins": len(found.wins),
            "losses": len(found.losses),
            "margin": gate.margin,
            "confidence": gate.confidence,
        },
        samples=tuple(arm.samples for arm in arms),
    )


def _words(gate: NonInferiority | Control, found: _Paired, arm: str, candidate: Measured) -> tuple[str, ...]:
    words = []
    if found.bound <= -gate.margin:
        words.append(_why(gate, found))
    if found.is_vacuous(gate.margin):
        words.append(
            f"the suite cannot show it: the {arm} passes {found.other} of {found.cases}, a candidate that passes none "
            f"would not be worse by more than {percent(gate.margin)}, and this one is not shown to be better"
        )
    words.append(f"{len(found.wins)} won, {len(found.losses)} lost")
    if found.losses:
        words.append(f"lost: {names(id + _reason(candidate, id) for id in found.losses)}")
    words.append(
        f"these answers leave a drop of up to {percent(-found.bound)} possible"
        if found.bound < 0
        else "these answers leave no drop possible, at the confidence that was asked for"
    )
    words.append(cannot(gate, found.cases))
    passing = false_pass(found.cases, gate.margin, gate.confidence)
    if passing is not None and passing > 1 - gate.confidence + _NOTED:
        words.append(
            f"with {found.cases} cases the test is approximate: a candidate that is worse by {percent(gate.margin)} "
            f"passes with a probability of up to {percent(passing)}, not {percent(1 - gate.confidence)}"
        )
    return tuple(words)


def _why(gate: NonInferiority | Control, found: _Paired) -> str:
    """Why it failed: the cases are too few, or the drop is there."""
    margin = percent(gate.margin)
    if found.difference <= -gate.margin:
        return f"the drop, {signed(found.difference)}, is itself as large as the {margin} allowed"
    needed = cases_needed(len(found.wins), len(found.losses), found.cases, gate.margin, gate.confidence)
    return (
        f"a drop of more than {margin} is not ruled out: {found.cases} cases are too few for it; with results of this "
        f"kind it would take about {needed}"
    )


def _prompt(found: _Paired, p_better: float) -> str:
    """What it means that a system prompt does as well, or does not."""
    prompted, trained = f"{found.other} of {found.cases}", f"{found.candidate} of {found.cases}"
    if found.candidate <= found.other:
        return (
            f"a system prompt reaches as much: the untrained base passes {prompted} when it is asked for the behaviour "
            f"in its system prompt, the candidate {trained} without being asked; training gains nothing but the prompt"
        )
    seen = "and that is shown" if p_better <= 0.05 else "but that may be chance"
    return (
        f"asked for the behaviour in its system prompt, the untrained base passes {prompted}; the candidate passes "
        f"{trained} without being asked: more than the prompt reaches, {seen} (one-sided paired test at 5 %)"
    )


def _reason(candidate: Measured, id: str) -> str:
    why = candidate.why.get(id, "")
    return f" ({why})" if why else ""
