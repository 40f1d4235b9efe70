"""Sanity: a candidate that refuses, says nothing, never ends, or writes the chat format's own marks."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from machine.release.gates.arms import Measured, alike
from machine.release.gates.power import cannot
from machine.release.gates.refusals import refuses
from machine.release.gates.result import Result
from machine.release.gates.wording import names, percent
from machine.release.preregistration import Sanity

_ROUNDING = 1e-9
_KINDS = {"refusals": "refuse", "empty": "are empty", "cut": "never end"}


@dataclass(frozen=True)
class _Tally:
    """Of all answers of an arm: the case of each that is of a kind."""

    answers: int
    refusals: tuple[str, ...]
    empty: tuple[str, ...]
    cut: tuple[str, ...]
    control: tuple[str, ...]
    spelt: tuple[str, ...]

    def share(self, kind: str) -> float:
        return len(getattr(self, kind)) / self.answers if self.answers else 0.0


def sanity(
    name: str,
    gate: Sanity,
    base: Sequence[Measured],
    candidate: Sequence[Measured],
    control_tokens: Collection[str],
) -> Result:
    """Whether refusals, empty answers and those cut off are at most the base's share and `gate.more`, of all answers.

    An answer that spells one of `control_tokens` fails the gate, whatever the base does (spellings of nothing but space
    are not looked for). An answer that only calls a tool is not empty. Every answer counts one, whatever its case's
    weight.

    Raises:
        ValueError: the arms were not given the same suites and cases.
    """
    for one, other in zip(base, candidate, strict=True):
        alike(one, other)
    tokens = [token for token in control_tokens if token.strip()]
    before, after = _tally(base, tokens), _tally(candidate, tokens)
    more = [kind for kind in _KINDS if after.share(kind) > before.share(kind) + gate.more + _ROUNDING]
    numbers = {"answers": after.answers, "more": gate.more}
    for kind in (*_KINDS, "control"):
        numbers |= {f"base_{kind}": len(getattr(before, kind)), f"candidate_{kind}": len(getattr(after, kind))}
    counts = ", ".join(f"{len(getattr(before, kind))} → {len(getattr(after, kind))} {_KINDS[kind]}" for kind in _KINDS)
    return Result(
        gate=name,
        test="sanity",
        passed=after.answers > 0 and not more and not after.control,
        figure=f"of {after.answers} answers {counts}, "
        f"{len(before.control)} → {len(after.control)} spell control tokens",
        threshold=f"each at most the base's share and {percent(gate.more)} of all answers; no control token",
        words=tuple(_words(gate, before, after, more)),
        numbers=numbers,
        samples=tuple(arm.samples for arms in (base, candidate) for arm in arms),
    )


def _tally(arms: Sequence[Measured], tokens: Sequence[str]) -> _Tally:
    answers = [
        (f"{arm.suite}/{case}" if len(arms) > 1 else case, text)
        for arm in arms
        for case, texts in arm.texts.items()
        for text in texts
    ]
    spelling = [(case, token) for case, text in answers for token in tokens if token in text]
    return _Tally(
        answers=len(answers),
        refusals=tuple(case for case, text in answers if refuses(text)),
        empty=tuple(case for case, text in answers if not text.strip()),
        cut=tuple(
            f"{arm.suite}/{case}" if len(arms) > 1 else case
            for arm in arms
            for case, count in arm.cut.items()
            for _ in range(count)
        ),
        control=tuple(case for case, text in answers if any(token in text for token in tokens)),
        spelt=tuple(dict.fromkeys(token for _, token in spelling)),
    )


def _words(gate: Sanity, before: _Tally, after: _Tally, more: Sequence[str]) -> Iterator[str]:
    if not after.answers:
        yield "there is no answer to look at: no suite of cases was asked"
        return
    for kind in more:
        yield (
            f"more answers {_KINDS[kind]}: {percent(after.share(kind))}, the base's {percent(before.share(kind))} and "
            f"{percent(gate.more)} more are allowed"
        )
    if after.control:
        yield f"control tokens ({', '.join(after.spelt[:5])}) are spelt in {names(after.control)}"
    for kind, what in _KINDS.items():
        if found := getattr(after, kind):
            yield f"{what}: {names(found)}"
    yield cannot(gate, after.answers)
