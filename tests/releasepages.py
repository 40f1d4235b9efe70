"""A release with its gates, trial and log, written as the commands write it, for the tests of its status and its page."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from machine.agentic.attempt import Attempt
from machine.agentic.kept import ATTEMPTS, Header
from machine.evals.case import Case, Scorer
from machine.evals.proof import Proof
from machine.evals.record import VERSION, Record, Retention, write_record
from machine.evals.retention import built_in_cases, built_in_passages, retention_hash
from machine.evals.sample import Parameters, Sample
from machine.evals.suite import suite_hash, suite_text
from machine.release import log
from machine.release.candidate import Candidate
from machine.release.gates.arms import Arm, Measured, from_attempts, from_record
from machine.release.gates.drift import drift
from machine.release.gates.improvement import improvement
from machine.release.gates.noninferiority import control, non_inferiority
from machine.release.gates.result import Result
from machine.release.gates.retention import retention as kept
from machine.release.gates.sanity import sanity
from machine.release.log import Step
from machine.release.outcomes import Outcome, What
from machine.release.preregistration import Control, Drift, Improvement, Kept, NonInferiority, Preregistration, Sanity
from machine.release.seal import Place, seal
from machine.release.summary import RESULT, GateRun, Summary, summary
from machine.store.files import private_folder, write_private
from machine.store.project import Project
from machine.training.run import now

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
RUN = "20260102-091500-ab12"
WEIGHTS = f"tinker://{RUN}/sampler_weights/final"
BEHAVIOUR = (
    "Given a small repository whose own check fails, the agent finds the fault, mends it with Pi's tools, and touches "
    "nothing else. The check passes afterwards."
)
PREREGISTRATION = f"""\
id: BR-001
title: Reliable file repair
behaviour: >-
  {BEHAVIOUR}
model: {MODEL}
training: {{rows: [20, 400], steps: [10, 60], rank: [4, 32], learning_rate: [1.0e-5, 1.0e-3], tokens: 400000, cost: 2}}
data: {{rows: 96, sha256: {"5e" * 32}}}
suites:
  target: {{kind: cases, file: suites/target.jsonl, least: 8}}
  holdout: {{kind: cases, least: 8}}
  fresh: {{kind: repair, least: 3, seconds: 300}}
gates:
  better on the target: {{test: improvement, suite: target, alpha: 0.05, gain: 0.1}}
  holds outside: {{test: non-inferiority, suite: holdout, margin: 0.3}}
  beats a prompt: {{test: control, suite: target, instruction: Answer in one line., margin: 0.3}}
  kept: {{test: retention, rise: 0.1}}
  pace: {{test: drift, suite: target}}
  sane: {{test: sanity}}
trial: {{turns: 20, share: 0.25, unit: turn, stops: {{failures: 3, bad: 5, worse: 0.01}}}}
decides: [ada, grace]
"""
TRIED: tuple[tuple[str, What, int], ...] = (
    ("candidate", "good", 4), ("candidate", "answered", 5), ("candidate", "corrected", 1), ("candidate", "retried", 1),
    ("candidate", "unavailable", 1), ("work", "good", 9), ("work", "answered", 21), ("work", "corrected", 4),
    ("work", "retried", 3), ("work", "aborted", 2),
)  # fmt: skip


class Release:
    """A release that is being written: each method is a step of it."""

    def __init__(self, folder: Path, text: str = PREREGISTRATION) -> None:
        self.project = Project(folder / "work", folder / "store")
        self.place = Place(self.project.releases, "BR-001", 1)
        private_folder(self.place.folder)
        write_private(self.place.file, text.encode())
        self.step("drafted", {})

    @property
    def gates(self) -> Path:
        return self.place.gates(RUN)

    @property
    def found(self) -> Preregistration:
        return self.place.read()

    def step(self, step: Step, data: dict, release: str = "BR-001", version: int = 1) -> None:
        log.append(self.project.releases, release, version, step, data, by="ada")

    def summary(self) -> Summary:
        return summary(self.project, "BR-001")

    def freeze(self, cases: Sequence[Case] = ()) -> "Release":
        private_folder(self.place.folder / "suites")
        write_private(self.place.folder / "suites" / "target.jsonl", suite_text(cases or questions("target")))
        self.step("frozen", {"seal": msgspec.to_builtins(seal(self.place, self.found))})
        return self

    def candidate(self, cost: float | None = 0.41) -> "Release":
        made = Candidate(RUN, WEIGHTS, (1.0, 2.0), "machine/chatml", 96, 36, 16, 4e-4, 214_080, cost, {})
        self.step("candidate", {"candidate": msgspec.to_builtins(made)})
        return self

    def asked(self, count: int = 12) -> "Release":
        """Answers of every arm to both suites of cases, and attempts at three repositories."""
        target, holdout = questions("target", count), questions("holdout", count)
        private_folder(self.gates)
        write_private(self.gates / "holdout.jsonl", suite_text(holdout))
        self.answer("target", "base", target, [f"I think it is {i}." for i in range(count)], lambda i: i % 6 == 5)
        self.answer("target", "candidate", target, [f"ANSWER: {i}." for i in range(count)], lambda i: i != 5)
        self.answer("target", "control", questions("prompted", count), ["ANSWER"] * count, lambda i: i % 2 == 0)
        self.answer("holdout", "base", holdout, [f"It is {i}." for i in range(count)], lambda i: i % 3 > 0)
        self.answer("holdout", "candidate", holdout, [f"It is {i}!" for i in range(count)], lambda i: i % 3 > 0)
        for arm, mended in (("base", 0), ("candidate", 2)):
            self.attempts("fresh", arm, [attempt(i, i < mended, arm) for i in range(3)])
        self.step("gating", {"run": RUN, "given": {"holdout": f"{count} cases of mine.jsonl, {'cd' * 32}"}})
        return self

    def answer(self, suite: str, arm: Arm, cases: Sequence[Case], texts: Sequence[str], passes) -> None:
        proof = Proof(MODEL, WEIGHTS if arm == "candidate" else None, (1.0, 2.0))
        samples = tuple(
            Sample(f"{suite}-{i}", text, 7, "stop", passes(i), float(passes(i))) for i, text in enumerate(texts)
        )
        kept = retention(arm) if suite == "target" and arm != "control" else None
        record = Record(
            f"{suite}-{arm}", "2026-01-02T10:00:00+00:00", suite_hash(cases), MODEL, "machine/chatml", Parameters(), proof,
            samples, 3.0, version=VERSION, retention=kept,
        )  # fmt: skip
        write_record(self.gates, record)

    def attempts(self, suite: str, arm: str, tried: Sequence[Attempt]) -> None:
        header = Header(MODEL, None, 8192, 2048, 0.0, {"seconds": 300.0}, "1.6.2")
        lines = [msgspec.json.encode(each) + b"\n" for each in (header, *tried)]
        write_private(private_folder(self.gates / f"{suite}-{arm}") / ATTEMPTS, b"".join(lines))

    def judged(self, changes: Mapping[str, Result] | None = None) -> "Release":
        """The verdict of every gate, by the gates themselves; `changes` puts others in place of some."""
        results = [Result("frozen", "seal", True, "nothing changed", "nothing changed after it was frozen")]
        results += [(changes or {}).get(name) or self.result(name) for name in self.found.gates]
        given = {"holdout": f"12 cases of mine.jsonl, {'cd' * 32}"}
        run = GateRun(
            "BR-001", 1, RUN, WEIGHTS, "2026-01-02T10:20:00+00:00", 412.0, tuple(results), given, box="bubblewrap"
        )
        data = msgspec.json.encode(run)
        write_private(private_folder(self.gates) / RESULT, data)
        gates = {each.gate: each.passed for each in results}
        sha256 = hashlib.sha256(data).hexdigest()
        self.step("gated", {"passed": run.passed, "sha256": sha256, "gates": gates, "asked": True})
        return self

    def result(self, name: str) -> Result:
        gate = self.found.gates[name]
        match gate:
            case Improvement(suite=suite):
                return improvement(name, gate, self.measured(suite, "base"), self.measured(suite, "candidate"))
            case NonInferiority(suite=suite):
                return non_inferiority(name, gate, self.measured(suite, "base"), self.measured(suite, "candidate"))
            case Control(suite=suite):
                return control(name, gate, self.measured(suite, "control"), self.measured(suite, "candidate"))
            case Kept():
                found = kept(name, gate, retention("base"), retention("candidate"))
                return msgspec.structs.replace(found, samples=("target-base.json", "target-candidate.json"))
            case Drift(suite=suite):
                timed = [(0.1, 0.1 + i / 400) for i in range(12)]
                return drift(name, gate, self.measured(suite, "base"), self.measured(suite, "candidate"), timed)
            case Sanity():
                arms = [[self.measured(suite, arm) for suite in ("target", "holdout")] for arm in ("base", "candidate")]
                return sanity(name, gate, *arms, ["<|im_end|>"])

    def measured(self, suite: str, arm: Arm) -> Measured:
        if suite == "fresh":
            lines = (self.gates / f"fresh-{arm}" / ATTEMPTS).read_bytes().splitlines()[1:]
            return from_attempts(suite, arm, [msgspec.json.decode(line, type=Attempt) for line in lines], "attempts")
        record = msgspec.json.decode((self.gates / f"{suite}-{arm}.json").read_bytes(), type=Record)
        return from_record(suite, arm, record, f"{suite}-{arm}.json")

    def tried(self, outcomes: Sequence[tuple[str, What, int]] = TRIED) -> "Release":
        """A trial in which so many turns of each arm came to something."""
        self.step("trial", {"share": 0.25, "unit": "turn", "salt": "00", "turns": 20, "model": "tinker/br-001-v1"})
        lines = [
            msgspec.json.encode(Outcome(now(), f"s{n % 4}", f"{arm}-{what}-{n}", "BR-001", arm, MODEL, what, 4.2, 310))
            for arm, what, count in outcomes
            for n in range(count)
        ]
        write_private(self.project.releases / "BR-001" / "outcomes.jsonl", b"".join(line + b"\n" for line in lines))
        return self

    def activated(self, forced: str = "", release: str = "BR-001") -> "Release":
        data = {"release": release, "version": 1, "model": f"tinker/{release.lower()}-v1", "weights": WEIGHTS}
        self.step("activated", {**data, "forced": forced, "before": None}, release)
        return self


def whole(folder: Path) -> Release:
    """A release that passed its gates and is in trial."""
    return Release(folder).freeze().candidate().asked().judged().tried()


def questions(suite: str, count: int = 12) -> list[Case]:
    """So many cases; `prompted` are those of `target` with an instruction."""
    name, system = ("target", ({"role": "system", "content": "Be brief."},)) if suite == "prompted" else (suite, ())
    return [
        Case(
            f"{name}-{i}",
            (*system, {"role": "user", "content": f"Question {i} of {name}?"}),
            Scorer("contains", f"{i}"),
        )
        for i in range(count)
    ]


def attempt(number: int, passed: bool, arm: str = "candidate", **fields) -> Attempt:
    """A try at a repository."""
    made = Attempt(
        task=f"json-comma-{number:04d}", digest="aa" * 32, model=MODEL, passed=passed,
        why="the check passes and nothing else was touched" if passed else "the check fails",
        ended="exited", turns=4, calls=6, invalid_calls=0 if passed else 2, tools={"read": 3, "edit": 2, "bash": 1},
        prompt_tokens=9_120, completion_tokens=640, seconds=38.2, changed=("settings.json",),
        outside=() if passed else ("README.md",), check_code=0 if passed else 1,
        check_output="1 passed" if passed else "E   json.decoder.JSONDecodeError: Expecting ',' delimiter: line 4",
        refused=(), box="bubblewrap", transcript=f"json-comma-{number:04d}.jsonl", stderr="",
    )  # fmt: skip
    return msgspec.structs.replace(made, **fields)


def retention(arm: str) -> Retention:
    """Answers to the built-in suite, and how well its texts are known."""
    cases, passages = built_in_cases(), built_in_passages()
    samples = tuple(
        Sample(
            case.id,
            f"It is {i}." if arm == "base" or i % 5 else f"ANSWER: {i}.",
            5,
            "stop",
            i % 2 == 0,
            float(i % 2 == 0),
        )
        for i, case in enumerate(cases)
    )
    rise = 0.02 if arm == "candidate" else 0.0
    nll = {name: 2.0 + i / 10 + rise * (1 + i % 3 / 3) for i, name in enumerate(passages)}
    return Retention(retention_hash(cases, passages), samples, nll)
