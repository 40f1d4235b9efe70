"""`train eval compare`: a checkpoint against the baseline, case by case, and what it kept of everything else."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from machine.commands.common import with_page
from machine.commands.evaluate import SUITE, record_of
from machine.errors import Refused
from machine.host import Host
from machine.report import Report, Table, one_line
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.evals.case import Case
    from machine.evals.compare import Comparison
    from machine.evals.record import Record
    from machine.evals.retention import Change

_BASELINE, _CHECKPOINT = "machine train eval baseline --yes", "machine train eval checkpoint --yes"
_ASK_AGAIN = f"{_BASELINE}, then {_CHECKPOINT}"
_IDENTICAL = (
    "answers are identical on every case: the checkpoint may not have been used, or training changed nothing that "
    "these cases show"
)
_HARMED = (
    "mend it by training less (epochs) or more gently (learning_rate), or by rows that show where the new style does "
    "not belong"
)
_SHOWN = 5
_WIDTH = 70


@click.command("compare")
@click.argument("ref", required=False)
@click.pass_obj
def compare(host: Host, ref: str | None) -> Report:
    """Compare a checkpoint (default: the one evaluated last) with the baseline, case by case."""
    from machine.evals.compare import of_records
    from machine.evals.proof import same_base
    from machine.evals.record import BASELINE, differences, latest_checkpoint, read_record
    from machine.evals.retention import judge
    from machine.evals.suite import read_suite, suite_hash

    project = Project.at(host.cwd)
    before = read_record(project.evals, BASELINE)
    after = read_record(project.evals, record_of(project, ref) if ref else latest_checkpoint(project.evals))
    cases = read_suite(project.evals / SUITE)
    if suite_hash(cases) != before.suite:
        raise Refused("the suite was edited since the baseline was asked", next_step=_ASK_AGAIN)
    if differ := differences(before, after):
        raise Refused(
            f"baseline and checkpoint were asked differently, with {' and '.join(differ)}", next_step=_ASK_AGAIN
        )
    if after.base:
        same_base(before.proof, after.base, after.proof)
    change = judge(before.retention, after.retention) if before.retention and after.retention else None
    report = compared(of_records(before, after, cases), change, before, after, cases)
    return with_page(report, project, after.run)


def compared(
    found: "Comparison", change: "Change | None", before: "Record", after: "Record", cases: "Sequence[Case]"
) -> Report:
    """The report on a comparison; `change` is None where retention was not measured of both."""
    harmed = found.verdict == "worse" or (change is not None and change.verdict == "lost")
    kept = f"; of everything else: {change.verdict}" if change else ""
    tables = [_side_by_side(found, before, after, cases)]
    if found.tags:
        tables.insert(0, _by_tag(found))
    if change:
        tables.append(_passages(change))
    return Report(
        f"Verdict: {found.verdict}{kept}",
        rows=[
            *([("Identical", _IDENTICAL)] if found.identical else []),
            *found.facts,
            ("Answered by", str(after.proof.path)),
            *(change.rows if change else [("Retention", "not measured")]),
        ],
        tables=tables,
        notes=_notes(found, change, harmed, before, after),
        next_step=_next_step(found, harmed, after),
        data=_data(found, change, before, after, cases),
    )


def _by_tag(found: "Comparison") -> Table:
    rows = [
        (t.tag, f"{t.baseline} → {t.candidate} of {t.cases}", str(len(t.wins)), one_line(", ".join(t.losses), _WIDTH))
        for t in found.tags
    ]
    return Table("By tag", ("tag", "passed", "won", "lost"), rows)


def _side_by_side(found: "Comparison", before: "Record", after: "Record", cases: "Sequence[Case]") -> Table:
    old, new = _said(before), _said(after)
    questions = {case.id: case.question for case in cases}
    order = list(dict.fromkeys([*found.losses, *found.wins, *new]))[:_SHOWN]
    shown = [tuple(one_line(text, _WIDTH) for text in (questions.get(id, id), old[id], new[id])) for id in order]
    return Table("Side by side, losses first", ("question", "base", "checkpoint"), shown)


def _said(record: "Record") -> dict[str, str]:
    """The first answer to each case, its tool calls as text."""
    from machine.evals.page import said

    return {sample.case: said(sample) for sample in reversed(record.samples)}


def _passages(change: "Change") -> Table:
    rows = [
        (name, f"{old:.3f}", f"{new:.3f}", f"{new - old:+.3f}")
        for name, old, new in sorted(change.language.passages, key=lambda each: each[1] - each[2])
    ]
    return Table("Texts that nobody trained on, nats a token", ("text", "base", "checkpoint", "change"), rows)


def _notes(found: "Comparison", change: "Change | None", harmed: bool, before: "Record", after: "Record") -> list[str]:
    notes = [f"lost: {id}" for id in found.losses[:_SHOWN]]
    if len(found.losses) > _SHOWN:
        notes.append(f"lost: {len(found.losses) - _SHOWN} more (--json shows all)")
    notes += found.limits
    if change is None:
        lacks = [step for record, step in ((before, _BASELINE), (after, _CHECKPOINT)) if record.retention is None]
        notes.append(f"what else changed was not measured; to know it: {', then '.join(lacks)}")
    else:
        notes += change.notes
    if harmed:
        notes.append(_HARMED)
    return notes


def _next_step(found: "Comparison", harmed: bool, after: "Record") -> str:
    if harmed:
        return "lower epochs or learning_rate in tinker.yaml, then machine train run"
    if found.verdict == "better":
        return f"machine tinker use {after.run or after.proof.path}"
    if found.verdict == "too few cases":
        return f"machine train eval init --from FILE --force (more cases), then {_ASK_AGAIN}"
    return "machine train run, with more rows (/good) or more steps"


def _data(
    found: "Comparison", change: "Change | None", before: "Record", after: "Record", cases: "Sequence[Case]"
) -> dict[str, Any]:
    import msgspec

    old, new = _said(before), _said(after)
    questions = {case.id: case.question for case in cases}
    return {
        **msgspec.to_builtins(found),
        "verdict": found.verdict,
        "wins": list(found.wins),
        "losses": list(found.losses),
        "checkpoint": found.candidate,
        "checkpoint_rate": found.candidate_rate,
        "checkpoint_interval": found.candidate_interval,
        "difference": found.difference,
        "regressions": found.regressions,
        "limits": found.limits,
        "path": after.proof.path,
        "run": after.run,
        "answers": [
            {
                "case": id,
                "question": questions.get(id),
                "base": old[id],
                "checkpoint": answer,
                "base_score": before.scores[id],
                "checkpoint_score": after.scores[id],
            }
            for id, answer in new.items()
        ],
        "retention": None if change is None else _change(change, before, after),
    }


def _change(change: "Change", before: "Record", after: "Record") -> dict[str, Any]:
    import msgspec

    old, new = ({s.case: s for s in r.retention.samples} if r.retention else {} for r in (before, after))
    return {
        **msgspec.to_builtins(change),
        "verdict": change.verdict,
        "language_verdict": change.language.verdict,
        "answers_verdict": change.answers.verdict,
        "spread": change.opening.spread,
        "samples": [
            {"case": id, "base": old[id].text, "checkpoint": new[id].text, "base_passed": old[id].passed,
             "checkpoint_passed": new[id].passed}
            for id in old if id in new
        ],
    }  # fmt: skip
