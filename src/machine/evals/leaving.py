"""Leaving: what an evaluation sends to a service that is not this machine's engine: a last look, and its parcel."""

from collections.abc import Iterable, Iterator, Sequence

from machine.dataset.scan import refuse_secret_texts, refuse_secrets
from machine.evals.case import Case
from machine.evals.judge import Rubric
from machine.evals.sample import prompt_of
from machine.privacy.parcel import Parcel
from machine.privacy.sources import Sources
from machine.tinker.students import Student
from machine.trace import canonical


def look(student: Student, cases: Sequence[Case], next_step: str, sources: Sources) -> None:
    """Scans cases, what judges are told of them, and what the tokens of their prompts spell.

    Raises:
        Refused: there is a secret, and the message names the case, the rule and the place, never the secret; or a case
            cannot be rendered.
    """
    refuse_secrets([*cases, *map(Rubric, cases)], next_step, sources)
    refuse_secret_texts(_spelt(student, cases), next_step, sources)


def parcel(
    cases: Iterable[Case], project: str, destination: str, what: str = "cases", others: Sequence[bytes] = ()
) -> Parcel:
    """What is sent of cases: messages, tools, and what a judge is told.

    `others` is what goes with them, a row each, and each a line.
    """
    lines = [canonical([case.messages, case.tools, Rubric(case).messages]) + b"\n" for case in cases]
    return Parcel.of(
        [*lines, *others], what=what, rows=len(lines) + len(others), projects=[project], destination=destination
    )


def _spelt(student: Student, cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    for case in cases:
        yield case.id, student.tokenizer.decode(prompt_of(student, case).to_ints())
