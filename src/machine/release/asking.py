"""Asking: what one gate run asks its arms, suite by suite, and the verdict of each gate on the answers.

Every answer is kept in the gate run's folder as soon as it is there, so that what was interrupted goes on where it was
left.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from machine.agentic.attempt import Attempt
from machine.agentic.run import LIMITS, Model, attempt_all
from machine.dataset.controls import special_tokens
from machine.errors import Refused
from machine.evals.case import Case, used_functions
from machine.evals.evaluation import Subject, evaluate, function_hashes
from machine.evals.proof import prove
from machine.evals.record import Asking as Asked
from machine.evals.record import Record, Retention, differences, read_record
from machine.evals.retention import measure
from machine.evals.sample import Asker, Parameters
from machine.evals.suite import suite_hash
from machine.release.gates.arms import Arm, Measured, from_attempts, from_record
from machine.release.gates.drift import drift
from machine.release.gates.improvement import improvement
from machine.release.gates.noninferiority import control, non_inferiority
from machine.release.gates.result import Result
from machine.release.gates.retention import retention
from machine.release.gates.sanity import sanity
from machine.release.given import Suites
from machine.release.pace import paces
from machine.release.preregistration import (
    Control,
    Drift,
    Improvement,
    Kept,
    NonInferiority,
    Preregistration,
    Repair,
    Sanity,
)
from machine.release.seal import Place
from machine.release.standing import Standing
from machine.sandbox.job import Box, Door
from machine.store.files import write_private
from machine.store.project import Project
from machine.tinker.checkpoints import sampler
from machine.tinker.service import Service
from machine.tinker.students import Student, load_student, models

_AGENT_TOKENS = 4096
"""Tokens that one answer of an agent may have, at most a quarter of the model's context."""
_PLAIN: tuple[Arm, Arm] = ("base", "candidate")


@dataclass(frozen=True)
class Gates:
    """What is to be asked of one candidate."""

    project: Project
    place: Place
    standing: Standing
    found: Preregistration
    suites: Suites
    box: Box | None

    @property
    def folder(self) -> Path:
        """Where every answer is kept."""
        assert self.standing.candidate is not None
        return self.place.gates(self.standing.candidate.run)

    @property
    def command(self) -> str:
        """What goes on with it."""
        return f"machine release gate {self.standing.release} --yes"

    def arms(self, suite: str) -> list[Arm]:
        """Who is asked a suite."""
        prompted = any(isinstance(gate, Control) and gate.suite == suite for gate in self.found.gates.values())
        return ["base", "candidate", "control"] if prompted else ["base", "candidate"]

    @property
    def spend(self) -> str:
        """How much is asked at most, in words."""
        how, answers = self.found.sampling, 0
        for name, cases in self.suites.cases.items():
            answers += len(cases) * how.samples * len(self.arms(name))
        words = [f"{answers} answers of at most {how.max_tokens} tokens"] if answers else []
        attempts = sum(len(tasks) * len(self.arms(name)) for name, tasks in self.suites.tasks.items())
        if attempts and self.box:
            words.append(f"{attempts} repositories that Pi has to mend in a sandbox ({self.box.name})")
        return ", and ".join(words)


class Asking:
    """The arms of one gate run, and what they answer."""

    def __init__(self, gates: Gates, service: Service, progress: Callable[[str], None]) -> None:
        self.gates, self.service, self.progress = gates, service, progress
        candidate = gates.standing.candidate
        assert candidate is not None
        self.candidate = candidate
        self.student: Student = load_student(gates.found.model, candidate.renderer)
        how = gates.found.sampling
        self.how = Parameters(how.max_tokens, how.temperature, how.seed, how.samples)
        self.retention: dict[Arm, Retention] = {}
        self._first = next(iter(gates.suites.cases), None)

    def prove(self) -> None:
        """Shows that the candidate's path answers as the trainer had its weights, and not as the base does.

        Raises:
            TrainingError: it does not.
        """
        base, candidate = self._askers()
        prove(candidate, self.candidate.weights, prove(base, None), self.candidate.probe)

    def measured(self, suite: str, arm: Arm) -> Measured:
        """What an arm does with a suite."""
        self.progress(f"{suite}: asking the {arm}")
        if suite in self.gates.suites.tasks:
            attempts, folder = self._attempts(suite, arm)
            return from_attempts(suite, arm, attempts, f"{folder.name}/attempts.jsonl")
        record = self._evaluated(f"{suite}-{arm}", arm, self._cases(suite, arm), with_retention=suite == self._first)
        return from_record(suite, arm, record, f"{suite}-{arm}.json")

    def result(self, name: str, measured: dict[tuple[str, Arm], Measured]) -> Result:
        """The verdict of a gate."""
        gate = self.gates.found.gates[name]
        match gate:
            case Improvement(suite=suite):
                return improvement(name, gate, measured[suite, "base"], measured[suite, "candidate"])
            case NonInferiority(suite=suite):
                return non_inferiority(name, gate, measured[suite, "base"], measured[suite, "candidate"])
            case Control(suite=suite):
                return control(name, gate, measured[suite, "control"], measured[suite, "candidate"])
            case Kept():
                before, after = self._kept("base"), self._kept("candidate")
                return retention(name, gate, before, after, samples=self._retention_files())
            case Drift(suite=suite):
                timed = paces(*self._askers(), self.gates.suites.cases[suite], self.how, self.progress)
                return drift(name, gate, measured[suite, "base"], measured[suite, "candidate"], timed)
            case Sanity():
                arms = {arm: [measured[suite, arm] for suite in self.gates.suites.cases] for arm in _PLAIN}
                return sanity(name, gate, arms["base"], arms["candidate"], special_tokens(self.student.tokenizer))

    def _evaluated(self, name: str, arm: Arm, cases: list[Case], *, with_retention: bool = False) -> Record:
        gates = self.gates
        self._lay_functions(cases)
        others = measure if with_retention and arm != "control" and self._wants_retention() else None
        subject = self._subject(name, arm)
        record = self._asked_before(subject, cases)
        if record is None or (others and not record.retention):
            record = evaluate(self.service, subject, cases, self.how, gates.folder, self.progress, others).record
        if others and record.retention:
            self.retention[arm] = record.retention
        return record

    def _asked_before(self, subject: Subject, cases: Sequence[Case]) -> Record | None:
        """The record of a suite that was asked to its end before the gates were interrupted, if it is of this one."""
        folder = self.gates.folder
        try:
            record = read_record(folder, subject.name)
        except Refused:
            return None
        asking = Asked(suite_hash(cases), self.how, self.student.renderer_name, function_hashes(cases, folder))
        same = (record.model, record.proof.path) == (self.student.model, subject.path)
        return record if same and not differences(record, asking) else None

    def _subject(self, name: str, arm: Arm) -> Subject:
        if arm == "candidate":
            chosen = self.candidate
            return Subject(name, self.student, chosen.weights, self.gates.command, chosen.run, chosen.probe or None)
        return Subject(name, self.student, None, self.gates.command)

    def _cases(self, suite: str, arm: Arm) -> list[Case]:
        cases = self.gates.suites.cases[suite]
        instruction = self._instruction(suite, arm)
        return [instructed(case, instruction) for case in cases] if instruction else list(cases)

    def _instruction(self, suite: str, arm: Arm) -> str | None:
        """What the control arm is told in its system prompt."""
        wanted = [g.instruction for g in self.gates.found.gates.values() if isinstance(g, Control) and g.suite == suite]
        return "\n\n".join(wanted) if arm == "control" else None

    def _attempts(self, suite: str, arm: Arm) -> tuple[list[Attempt], Path]:
        where, spec = self.service.endpoint, self.gates.found.suites[suite]
        assert isinstance(spec, Repair)
        assert self.gates.box is not None
        weights = self.candidate.weights if arm == "candidate" else self.gates.found.model
        context = {m.name: m.context for m in models(self.service)}.get(self.gates.found.model) or 8192
        model = Model(
            weights,
            Door(where.chat_url, where.key),
            context,
            min(_AGENT_TOKENS, context // 4),
            self._instruction(suite, arm),
            self.how.temperature,
        )
        folder = self.gates.folder / f"{suite}-{arm}"
        limits = replace(LIMITS, seconds=spec.seconds)
        tasks = self.gates.suites.tasks[suite]
        return attempt_all(tasks, model, self.gates.box, folder, self.progress, limits=limits), folder

    def _kept(self, arm: Arm) -> Retention:
        """What retention measures of an arm: beside the first suite of cases, or, where there is none, on its own."""
        if arm not in self.retention:
            base, candidate = self._askers()
            found = measure(base if arm == "base" else candidate, self.progress)
            write_private(self.gates.folder / f"retention-{arm}.json", msgspec.json.encode(found) + b"\n")
            self.retention[arm] = found
        return self.retention[arm]

    def _retention_files(self) -> tuple[str, ...]:
        return tuple(f"{self._first or 'retention'}-{arm}.json" for arm in _PLAIN)

    def _wants_retention(self) -> bool:
        return any(isinstance(gate, Kept) for gate in self.gates.found.gates.values())

    def _askers(self) -> tuple[Asker, Asker]:
        model = self.gates.found.model
        return (
            Asker(self.service, self.student, sampler(self.service, model, None)),
            Asker(self.service, self.student, sampler(self.service, model, self.candidate.weights)),
        )

    def _lay_functions(self, cases: Sequence[Case]) -> None:
        """Puts the frozen functions that score where the answers are scored."""
        for file in used_functions(cases):
            shutil.copyfile(self.gates.place.folder / "suites" / file, self.gates.folder / file)
            (self.gates.folder / file).chmod(0o600)


def instructed(case: Case, instruction: str) -> Case:
    """The case with an instruction at the end of its system prompt, which is put in front where it has none."""
    messages = list(case.messages)
    part = {"type": "text", "text": instruction}
    match messages:
        case [{"role": "system", "content": str(text)} as first, *rest]:
            messages = [{**first, "content": f"{text}\n\n{instruction}"}, *rest]
        case [{"role": "system", "content": list(parts)} as first, *rest]:
            messages = [{**first, "content": [*parts, part]}, *rest]
        case _:
            messages = [{"role": "system", "content": instruction}, *messages]
    return msgspec.structs.replace(case, messages=tuple(messages))
