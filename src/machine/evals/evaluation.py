"""Evaluation: every case asked of one set of weights, judged, and kept as a record; goes on where it was left.

An answer is on disk (`part`) as soon as it is there. Ctrl-C, a dead service or a scorer that fails loses none: the same
command goes on with what is missing.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.errors import Refused, ServiceError, TrainingError
from machine.evals.case import Case, named, used_functions
from machine.evals.claim import claimed
from machine.evals.judge import MAX_TOKENS, Judgement, Verdict, judge, judges
from machine.evals.part import Header, Part, question_hash
from machine.evals.process import Process, TooSlow
from machine.evals.proof import Proof, prove
from machine.evals.record import BASELINE, VERSION, Asking, Record, Retention, differences, read_record, write_record
from machine.evals.retention import built_in_cases, measure
from machine.evals.sample import Asker, Parameters, Sample, ask
from machine.evals.score import PASS, score
from machine.evals.suite import suite_hash
from machine.store.files import explained
from machine.tinker.checkpoints import sampler
from machine.tinker.service import Service
from machine.tinker.students import Student, default_model, load_student, models
from machine.training.run import now


@dataclass(frozen=True)
class Subject:
    """Which weights are asked: `path` None is the base model. `name` is the record's, `command` asks them again.

    `run` is the training run that they come from, `trained` the probe that it took of them.
    """

    name: str
    student: Student
    path: str | None
    command: str
    run: str | None = None
    trained: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: its record, and what its reader should know.

    `kept` cases were asked before. `stale` says in what the baseline differs: the two cannot be compared. `slow` and
    `unclear` name the answers whose scorer took too long and whose judge gave no verdict; they have not passed.
    """

    record: Record
    kept: int = 0
    anew: bool = False
    stale: str = ""
    slow: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()

    def notes(self, cases: Sequence[Case]) -> list[str]:
        """What its reader should know, in words, the gravest first."""
        record, found = self.record, []
        if record.identical:
            found.append(
                "WARNING: the checkpoint gave the very answer of the base model to every case: it has learnt nothing "
                "that this suite shows, or other weights answered"
            )
        if self.stale:
            found.append(f"the baseline was asked with {self.stale}: ask it again before you compare")
        if self.unclear:
            found.append(f"the judge gave no verdict on {_answers(self.unclear)}; they count as not passed")
        if self.slow:
            found.append(
                f"the pattern or schema was not through in time with {_answers(self.slow)}; they have not passed"
            )
        if record.model in {verdict.model for verdict in record.verdicts}:
            found.append(f"{record.model} judged answers of its own kind, and is a poor judge of them: name another")
        if self.anew:
            found.append("answers of an earlier, unfinished evaluation were of something else, and were dropped")
        if self.kept:
            found.append(f"{self.kept} of {len(cases)} cases were already asked")
        return found


def evaluate(
    service: Service,
    subject: Subject,
    cases: Sequence[Case],
    how: Parameters,
    evals: Path,
    progress: Callable[[str], None] = lambda line: None,
    others: Callable[..., Retention] | None = measure,
) -> Evaluation:
    """Asks, proves who answered, judges, and writes the record into `evals`.

    `others` measures what the weights still do of everything else, as `measure` does; None leaves that out.

    Raises:
        TrainingError: other weights answer than `subject`, or Ctrl-C was pressed.
        ServiceError: the service failed or went away.
        Refused: it is being evaluated already, a case cannot be rendered, or a function of the user's does not score.
    """
    with claimed(evals, subject.name):
        return _evaluated(service, subject, cases, how, evals, progress, others)


def _evaluated(
    service: Service,
    subject: Subject,
    cases: Sequence[Case],
    how: Parameters,
    evals: Path,
    progress: Callable[[str], None],
    others: Callable[..., Retention] | None,
) -> Evaluation:
    began = time.monotonic()
    base = None
    if subject.path:
        base = prove(_asker(service, subject.student, None), None)
    asker = _asker(service, subject.student, subject.path)
    proof = prove(asker, subject.path, base, subject.trained)
    askers = _judges(service, cases)
    part = Part(evals, subject.name, _header(subject, cases, how, proof))
    kept = len(part.samples)
    try:
        ask(asker, [c for c in cases if c.id not in part.samples], how, progress, part.add_samples)
        samples = [sample for case in cases for sample in part.samples[case.id]]
        retention = others(asker, progress, before=part.retention, came=part.add_retention) if others else None
        verdicts = _judged(askers, samples, part, progress)
        scored, slow = _scored(cases, samples, verdicts, evals)
        places = {case.id: place for place, case in enumerate(cases)}
        given = sorted(verdicts.values(), key=lambda verdict: (places[verdict.case], verdict.number))
    except KeyboardInterrupt as error:
        raise TrainingError(f"interrupted; {_so_far(part, cases)}", next_step=subject.command) from error
    except ServiceError as error:
        step = f"{error.next_step}, then {subject.command}"
        raise ServiceError(f"{error.message}; {_so_far(part, cases)}", next_step=step) from error
    record = Record(
        name=subject.name,
        created_at=now(),
        suite=suite_hash(cases),
        model=subject.student.model,
        renderer=subject.student.renderer_name,
        parameters=how,
        proof=proof,
        samples=tuple(scored),
        seconds=round(time.monotonic() - began, 3),
        base=base,
        run=subject.run,
        retention=retention,
        verdicts=tuple(given),
        scorers=function_hashes(cases, evals),
        version=VERSION,
    )
    baseline = baseline_of(evals)
    record = msgspec.structs.replace(record, identical=_identical(record, baseline))
    write_record(evals, record)
    part.finish()
    unclear = tuple(f"{v.case}#{v.number}" for v in given if v.passed is None)
    return Evaluation(record, kept, part.anew, _stale(record, baseline), tuple(slow), unclear)


def spend(cases: Sequence[Case], how: Parameters) -> str:
    """How much is asked at most, in words: requests and tokens, those to judges too."""
    answers = len(cases) * how.samples
    words = f"{answers} answers to {len(cases)} cases, at most {answers * how.max_tokens:,} tokens of them"
    words += f", and {len(built_in_cases())} short answers to the built-in retention suite"
    judged = {model: len(each) * how.samples for model, each in judges(cases, "the service's default model").items()}
    for model, count in judged.items():
        words += f", and {count} verdicts of {model}, at most {count * MAX_TOKENS:,} tokens"
    return words


def outdated(subject: Subject, cases: Sequence[Case], how: Parameters, evals: Path) -> str:
    """What the baseline was asked with that a checkpoint is about to be asked without, in words; else empty."""
    baseline = baseline_of(evals)
    if subject.path is None or baseline is None:
        return ""
    ahead = Asking(suite_hash(cases), how, subject.student.renderer_name, function_hashes(cases, evals))
    return " and ".join(differences(baseline, ahead))


def baseline_of(evals: Path) -> Record | None:
    """The baseline, where there is one that can be read."""
    try:
        return read_record(evals, BASELINE)
    except Refused:
        return None


def function_hashes(cases: Sequence[Case], evals: Path) -> dict[str, str]:
    """SHA-256 (hex) of each file whose functions score, by its path as the suite spells it."""
    found = {}
    for file in used_functions(cases):
        with explained(evals / file):
            found[file] = hashlib.sha256((evals / file).read_bytes()).hexdigest()
    return found


def rate(passed: Mapping[str, bool], cases: Sequence[Case]) -> float:
    """The share of the cases that were passed, each counted by its weight."""
    return sum(case.weight * passed[case.id] for case in cases) / sum(case.weight for case in cases)


def by_tag(passed: Mapping[str, bool], cases: Sequence[Case]) -> dict[str, tuple[int, int]]:
    """Of each tag, in the order of the suite: how many cases passed, and how many there are."""
    found: dict[str, tuple[int, int]] = {}
    for case in cases:
        for tag in case.tags:
            before = found.get(tag, (0, 0))
            found[tag] = (before[0] + passed[case.id], before[1] + 1)
    return found


def _asker(service: Service, student: Student, path: str | None) -> Asker:
    return Asker(service, student, sampler(service, student.model, path))


def _header(subject: Subject, cases: Sequence[Case], how: Parameters, proof: Proof) -> Header:
    student = subject.student
    return Header(question_hash(cases), student.model, subject.path, student.renderer_name, how, proof.probe)


def _judges(service: Service, cases: Sequence[Case]) -> dict[str, tuple[Asker, list[Case]]]:
    """The models that judge, by name, each with its cases; opened before anything is asked, so that none is missing."""
    unnamed = any(case.scorer.kind == "judge" and case.scorer.model is None for case in cases)
    default = default_model(models(service)) if unnamed else ""
    return {
        model: (_asker(service, load_student(model), None), judged) for model, judged in judges(cases, default).items()
    }


def _judged(
    askers: Mapping[str, tuple[Asker, list[Case]]],
    samples: Sequence[Sample],
    part: Part,
    progress: Callable[[str], None],
) -> dict[tuple[str, int], Verdict]:
    """The verdicts on the answers that a model judges, those that are there already included."""
    found = {}
    for model, (asker, judged) in askers.items():
        known = {case.id: case for case in judged}
        missing = []
        for each in [Judgement(known[s.case], s) for s in samples if s.case in known]:
            verdict = part.verdicts.get((each.case.id, each.sample.number))
            if verdict and (verdict.model, verdict.prompt) == (model, each.prompt):
                found[verdict.case, verdict.number] = verdict
            else:
                missing.append(each)
        found |= {(v.case, v.number): v for v in judge(asker, missing, progress, part.add_verdict)}
    return found


def _scored(
    cases: Sequence[Case], samples: Sequence[Sample], verdicts: Mapping[tuple[str, int], Verdict], evals: Path
) -> tuple[list[Sample], list[str]]:
    """The samples with their scores, and the names of the answers whose pattern or schema took too long."""
    known, slow, scored = {case.id: case for case in cases}, [], []
    with Process(evals) as process:
        for sample in samples:
            case = known[sample.case]
            try:
                match case.scorer.kind:
                    case "judge":
                        found = float(verdicts[sample.case, sample.number].passed is True)
                    case "regex" | "json_schema" | "python":
                        found = process.score(case, sample)
                    case _:
                        found = score(case, sample.text, sample.message or {})
            except TooSlow:
                found = 0.0
                slow.append(f"{sample.case}#{sample.number}")
            scored.append(msgspec.structs.replace(sample, score=found, passed=found >= PASS))
    return scored, slow


def _identical(record: Record, baseline: Record | None) -> bool:
    """Whether a checkpoint answered as the baseline did, to the token, everywhere."""
    if record.proof.path is None or baseline is None or baseline.suite != record.suite:
        return False
    return baseline.parameters == record.parameters and baseline.answers() == record.answers()


def _stale(record: Record, baseline: Record | None) -> str:
    """What a checkpoint's record and the baseline differ in, in words."""
    if record.proof.path is None or baseline is None:
        return ""
    return " and ".join(differences(record, baseline))


def _so_far(part: Part, cases: Sequence[Case]) -> str:
    return f"{len(part.samples)} of {len(cases)} cases are answered, and kept"


def _answers(ids: Sequence[str]) -> str:
    return f"{len(ids)} answers ({named(ids)})"
