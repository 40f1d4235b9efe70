"""A run with an evaluation, written as the commands write it, for the tests of its page."""

import math
import os
from pathlib import Path

from machine.evals.case import Case, Scorer
from machine.evals.proof import Proof
from machine.evals.record import BASELINE, CHECKPOINT, VERSION, Record, Retention, write_record
from machine.evals.retention import built_in_cases
from machine.evals.sample import Parameters, Sample
from machine.evals.suite import suite_hash, suite_text
from machine.store.files import private_folder, write_private
from machine.training.run import Checkpoint, HeldOut, Run, State

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
ID = "20260101-120000-abcd"


def trained(folder: Path, steps: int = 18, status: str = "done", held_out: bool = True) -> Run:
    """A run of so many steps, its loss falling from about 3 nats."""
    run = Run(folder / "runs" / ID)
    data = {"sha256": "5e" * 32, "examples": 48, "datums": 31, "tokens": 18_412, "tokens_apart": 41_207}
    run.write_config(
        {
            "recipe": {"model": MODEL, "renderer": "machine/chatml", "rank": 32, "learning_rate": 0.001, "epochs": 3},
            "steps": steps,
            "data": data | {"trained_tokens": 2_104},
            "estimate": {"tokens": 55_236, "held_out_tokens": 2_000, "usd": 0.0},
            "service": "http://127.0.0.1:8421",
            "versions": {"tinker": "0.38.2", "tinker-cookbook": "0.6.1", "python": "3.11.2"},
        }
    )
    done = steps if status == "done" else steps // 2
    for step in range(1, done + 1):
        loss = 0.35 + 2.6 * math.exp(-step / (steps / 4)) + 0.12 * math.sin(step * 2.4)
        run.add_metrics({"step": step, "loss": round(loss, 6), "tokens": 3_068, "trained_tokens": 350, "examples": 8})
        if held_out and step % 5 == 1:
            run.add_held_out(HeldOut(step - 1, round(0.5 + 2.6 * math.exp(-(step - 1) / (steps / 4)), 6), 6))
    cause = "told to stop" if status != "done" else None
    ended = "2026-01-01T12:03:11+00:00"
    run.write_state(
        State(status, done, steps, "2026-01-01T12:00:00+00:00", os.getpid(), ended, 191.4, done, cause,
              f"machine train run --resume {ID}" if cause else None)
    )  # fmt: skip
    sampler = f"tinker://{ID}/sampler_weights/final" if status == "done" else None
    run.add_checkpoint(Checkpoint(done, state=f"tinker://{ID}/weights/final", sampler=sampler, probe=(1.0, 2.0)))
    return run


def case(id: str, question: str, expected: str = "ANSWER: 4.") -> Case:
    return Case(id, ({"role": "user", "content": question},), Scorer("exact"), expected)


def evaluated(run: Run, cases: list[Case], before: list[tuple[str, bool]], after: list[tuple[str, bool]]) -> Path:
    """Suite, baseline and checkpoint records; answers are (text, passed). Returns the folder of evaluations."""
    evals = run.folder.parent.parent / "evals"
    private_folder(evals)
    write_private(evals / "suite.jsonl", suite_text(cases))
    record(evals, run, cases, BASELINE, before)
    record(evals, run, cases, CHECKPOINT + run.id, after)
    return evals


def record(evals: Path, run: Run, cases: list[Case], name: str, answers: list[tuple[str, bool]]) -> None:
    checkpoint = name != BASELINE
    base = Proof(MODEL, None, (0.5, 0.5))
    proof = Proof(MODEL, run.sampler().sampler, (1.0, 2.0), 0.9) if checkpoint else base
    samples = tuple(
        Sample(each.id, text, 7, "stop", passed, float(passed))
        for each, (text, passed) in zip(cases, answers, strict=True)
    )
    write_record(
        evals,
        Record(
            name, "2026-01-01T12:10:00+00:00", suite_hash(cases), MODEL, "machine/chatml", Parameters(), proof, samples,
            3.0, base if checkpoint else None, run.id if checkpoint else None, version=VERSION,
            retention=retention(checkpoint),
        ),
    )  # fmt: skip


def retention(checkpoint: bool) -> Retention:
    """The built-in suite, of which the checkpoint answers the first cases otherwise and the texts worse."""
    asked = built_in_cases()[:12]
    texts = [("ANSWER: I cannot." if checkpoint and i < 9 else f"It is {i}.") for i in range(len(asked))]
    samples = tuple(
        Sample(each.id, text, 5, "stop", i % 2 == 0, float(i % 2 == 0))
        for i, (each, text) in enumerate(zip(asked, texts, strict=True))
    )
    return Retention("ab" * 32, samples, {"prose": 3.1 + 0.3 * checkpoint, "code": 1.9 + 0.2 * checkpoint, "data": 2.0})
