"""`train eval compare`: a checkpoint against the baseline, case by case."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from machine.commands.evaluate import SUITE, record_of
from machine.errors import Refused
from machine.host import Host
from machine.report import Report, Table, one_line
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.evals.compare import Comparison
    from machine.evals.record import Record
    from machine.evals.suite import Case

_ASK_AGAIN = "machine train eval baseline --yes, then machine train eval checkpoint --yes"
_SHOWN = 5
_WIDTH = 70


@click.command("compare")
@click.argument("ref", required=False)
@click.pass_obj
def compare(host: Host, ref: str | None) -> Report:
    """Compare a checkpoint (default: the one evaluated last) with the baseline, case by case."""
    from machine.evals.compare import compare as paired
    from machine.evals.proof import same_base
    from machine.evals.record import BASELINE, latest_checkpoint, read_record
    from machine.evals.suite import read_suite, suite_hash

    project = Project.at(host.cwd)
    before = read_record(project.evals, BASELINE)
    after = read_record(project.evals, record_of(project, ref) if ref else latest_checkpoint(project.evals))
    cases = read_suite(project.evals / SUITE)
    if suite_hash(cases) != before.suite:
        raise Refused("the suite was edited since the baseline was asked", next_step=_ASK_AGAIN)
    for what, one, other in (
        ("cases", before.suite, after.suite),
        ("sampling parameters", before.parameters, after.parameters),
        ("renderer", before.renderer, after.renderer),
    ):
        if one != other:
            raise Refused(
                f"baseline and checkpoint were asked with different {what}",
                next_step=_ASK_AGAIN,
            )
    if after.base:
        same_base(before.proof, after.base, after.proof)
    found = paired(before.passed, after.passed)
    return _compared(found, before, after, cases)


def _compared(found: "Comparison", before: "Record", after: "Record", cases: "Sequence[Case]") -> Report:
    old = {s.case: s for s in before.samples}
    new = {s.case: s for s in after.samples}
    questions = {case.id: case.question for case in cases}
    order = [*found.losses, *found.wins][:_SHOWN]
    rest = [id for id in new if id not in order][: _SHOWN - len(order)]
    shown = [
        tuple(one_line(text, _WIDTH) for text in (questions.get(id, id), old[id].text, new[id].text))
        for id in [*order, *rest]
    ]
    rates = {
        "baseline": (found.baseline, found.baseline_interval),
        "checkpoint": (found.candidate, found.candidate_interval),
    }
    return Report(
        f"Verdict: {found.verdict}",
        rows=[
            *((name.capitalize(), _rate(n, found.cases, ends)) for name, (n, ends) in rates.items()),
            ("Wins and losses", f"{len(found.wins)} and {len(found.losses)} of {found.cases} cases"),
            ("McNemar, one-sided exact", f"p = {found.p_better:.2g} (better), {found.p_worse:.2g} (worse)"),
            ("Checkpoint", str(after.proof.path)),
        ],
        tables=[Table("Side by side, losses first", ("question", "base", "checkpoint"), shown)],
        notes=[f"lost: {id}" for id in found.losses[:_SHOWN]],
        next_step="machine tinker use latest",
        data={
            "verdict": found.verdict,
            "cases": found.cases,
            "baseline": found.baseline,
            "checkpoint": found.candidate,
            "baseline_interval": found.baseline_interval,
            "checkpoint_interval": found.candidate_interval,
            "wins": list(found.wins),
            "losses": list(found.losses),
            "p_better": found.p_better,
            "p_worse": found.p_worse,
            "path": after.proof.path,
            "answers": [
                {"case": id, "question": questions.get(id), "base": old[id].text, "checkpoint": answer.text}
                for id, answer in new.items()
            ],
        },
    )


def _rate(passed: int, cases: int, ends: tuple[float, float]) -> str:
    return f"{passed} of {cases} = {passed / cases:.0%} (95 % interval {ends[0]:.0%} to {ends[1]:.0%})"
