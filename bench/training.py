"""Training the demo's set end to end: `machine train run` on the embedded engine against TRL's SFTTrainer with PEFT.

    python bench/training.py [--quick] [--repeats 3]

Both begin with the same rows in a file and end with a saved adapter, each in processes of its own, in turns. Start-up
is apart: the engine until it answers; TRL's libraries and model until it could read the rows. What follows is counted
whole. For Machine that is the command `machine train run --yes`: the libraries of its two processes, the audit,
rendering, the steps, the states and weights that it saves, its probe. For TRL it is reading, tokenising, the steps and
`save_model`. "Its steps" is the loop to the saved checkpoint with Machine, `train()` with TRL.

The same on both sides: model, float32, threads, token sequences and trained tokens (checked), the first adapter, rank
and LoRA modules, batches and their order, rates, Adam's constants, a loss that weighs each answer the same. TRL splits
a batch into as many rows at once as a first try says is fastest. Losses over all rows, before and after, are measured
by transformers for all adapters alike; if the two that did the same work end apart, that is an error.

TRL does not train an adapter on the unembedding. Machine does unless its training page says otherwise: compared is a
page that says so, and a third side is the page as it is written. Where TRL is missing, the bench says how to install it
and ends with 2.
"""

import os

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["HF_HUB_OFFLINE"] = "1"

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from peft import PeftModel

sys.path.insert(0, str(Path(__file__).resolve().parent / "engine"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from huggingface import INSTALL, base_model, has_trl
from trl_sft import OUTCOME, Job, Outcome

from machine.dataset.merge import Pack, merged
from machine.dataset.render import render
from machine.dataset.select import rows_of
from machine.dataset.targets import expand
from machine.engine import life
from machine.engine.checkpoints import CheckpointPath, Checkpoints
from machine.engine.models.config import Config as Shape
from machine.engine.models.convert import ensure_model
from machine.engine.models.hub import DEFAULT_MODEL
from machine.engine.models.lora import MODULES, Lora
from machine.home import models_dir
from machine.store.project import Project
from machine.tinker.students import load_student
from machine.trace import encode
from machine.training.config import Config, read_config
from machine.training.recipe import Plan, plan
from students import assistant, row, system, user

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / "examples" / "minimal-sft" / "questions.jsonl"
SYSTEM = "You are a helpful assistant.\n\n<cwd>\n/home/you/.machine/demo/project\n</cwd>"
"""What Pi makes of the demo's system prompt."""
QUICK_ROWS = 16
OPENING = "model = opened(service, config, STORE, given)"
WITHOUT_UNEMBED = (
    "model = service.client.create_lora_training_client(\n            config.model, rank=config.rank, "
    'seed=config.seed, train_unembed=False, user_metadata={"run": given.run}\n        )'
)
APART = 0.02
"""Nats by which the final losses of the same work may differ."""
THE_SAME, AS_WRITTEN, TRL = "Machine", "Machine, unembedding too", "TRL + PEFT"


@dataclass(frozen=True)
class Timed:
    """A run of one side: seconds of start-up, of rows to adapter and of its steps; each step's loss; the adapter."""

    start: float
    work: float
    steps: float
    losses: list[float]
    adapter: Path


@dataclass(frozen=True)
class Bench:
    """Where everything lies, and what is trained."""

    root: Path
    model: Path
    rows: Path
    config: Config
    packs: list[Pack]
    plan: Plan

    @property
    def engine(self) -> Path:
        """The engine's state."""
        return self.root / "home" / "engine"


def main() -> int:
    """Measures and prints a table, then the same as JSON; 2 without TRL, 1 if the sides did not do the same work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows once, one repeat: a minute or two")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    if not has_trl():
        print(INSTALL, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="machine-training-") as folder:
        bench = prepared(Path(folder), asked.quick)
        return measure(bench, 1 if asked.quick else asked.repeats)


def prepared(root: Path, quick: bool) -> Bench:
    """The rows, the two projects with their recipe and page, and the adapter that both begin with."""
    os.environ["MACHINE_MODELS_DIR"] = str(models_dir())
    os.environ["MACHINE_DATA_DIR"] = str(root / "home")
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL"):
        os.environ.pop(name, None)
    model, file = ensure_model(print), root / "rows.jsonl"
    items = [json.loads(line) for line in DEMO.read_text().splitlines()][: QUICK_ROWS if quick else None]
    rows = [
        row(system(SYSTEM), user(item["question"]), assistant(item["answer"]), number=n) for n, item in enumerate(items)
    ]
    file.write_bytes(b"".join(encode(each) + b"\n" for each in rows))
    figures = ["--model", DEFAULT_MODEL, *(["--epochs", "1"] if quick else [])]
    for side in (THE_SAME, AS_WRITTEN):
        place = project(root, side)
        place.root.mkdir()
        machine(place, "train", "sft", str(file), *figures)
        if side == THE_SAME:
            page = place.train / "train_sft.py"
            text = page.read_text()
            assert text.count(OPENING) == 1, "the page opens its model in another way now"
            page.write_text(text.replace(OPENING, WITHOUT_UNEMBED))
    config = read_config(place.train / "tinker.yaml")
    student = load_student(config.model, config.renderer)
    packs = merged([render(student, target) for target in expand(rows_of(file))])
    first = Lora.new(Shape.read(model), config.rank, config.seed, MODULES)
    (root / "first").mkdir()
    (root / "first" / "adapter_model.safetensors").write_bytes(first.weights_file())
    (root / "first" / "adapter_config.json").write_bytes(first.config_file(str(model)))
    return Bench(root, model, file, config, packs, plan(config, len(packs)))


def measure(bench: Bench, repeats: int) -> int:
    """Runs the sides in turns and prints what came of it."""
    job = trl_job(bench)
    tokens = sum(len(bench.packs[i].tokens) for i in job.order)
    print(
        f"{len(bench.packs)} rows, rank {bench.config.rank}, {job.steps} steps of {job.batch_size}, {tokens} tokens in "
        f"all; {torch.get_num_threads()} threads, torch {torch.__version__}, {bench.model.name}, fp32; TRL takes "
        f"{job.layout} rows of a step at once; medians of {repeats}\n",
        flush=True,
    )
    sides = {
        THE_SAME: lambda: machine_run(bench, THE_SAME),
        AS_WRITTEN: lambda: machine_run(bench, AS_WRITTEN),
        TRL: lambda: trl_run(bench, job),
    }
    runs: dict[str, list[Timed]] = {name: [] for name in sides}
    for turn in range(repeats):
        for name in list(sides) if turn % 2 == 0 else reversed(sides):
            runs[name].append(timed := sides[name]())
            seconds = f"{timed.start:>8.1f} + {timed.work:.1f} s, of which steps {timed.steps:.1f} s"
            print(f"round {turn + 1}  {name:<26}{seconds}", flush=True)
    medians = {name: median(each) for name, each in runs.items()}
    losses = {name: mean_loss(bench, each[-1].adapter) for name, each in runs.items()}
    before = mean_loss(bench, bench.root / "first")
    print()
    report(medians, before, losses)
    apart = abs(losses[THE_SAME] - losses[TRL])
    if apart > APART:
        print(f"the same work ends {apart:.3f} nats apart", file=sys.stderr)
    return int(apart > APART)


def report(medians: dict[str, Timed], before: float, losses: dict[str, float]) -> None:
    """Prints seconds and losses of each side, the ratios of TRL's seconds to Machine's, and all of it as JSON."""
    print(f"{'seconds':<26}{'start-up':>10}{'rows to adapter':>17}{'its steps':>11}{'both':>8}{'loss':>18}")
    for name, each in medians.items():
        row_of = f"{name:<26}{each.start:>10.1f}{each.work:>17.1f}{each.steps:>11.1f}{each.start + each.work:>8.1f}"
        print(f"{row_of}{f'{before:.3f} to {losses[name]:.3f}':>18}")
    print("\nTRL's seconds / Machine's, over 1 where Machine is faster")
    ratios = {name: compared(medians[TRL], medians[name]) for name in (THE_SAME, AS_WRITTEN)}
    for name, each in ratios.items():
        print(f"{name:<26}" + "   ".join(f"{what} {ratio:.2f}x" for what, ratio in each.items()))
    steps = "; ".join(f"{name} {each.losses[0]:.3f} to {each.losses[-1]:.3f}" for name, each in medians.items())
    print(f"\nlosses of the first and the last step, as each side tells them: {steps}")
    figures = {
        name: {"start-up": each.start, "work": each.work, "its steps": each.steps, "loss": losses[name]}
        | {f"{what}, ratio": ratio for what, ratio in ratios.get(name, {}).items()}
        for name, each in medians.items()
    }
    print(json.dumps({name: {key: round(value, 3) for key, value in each.items()} for name, each in figures.items()}))


def compared(theirs: Timed, ours: Timed) -> dict[str, float]:
    """Their seconds for one of ours."""
    return {
        "rows to adapter": theirs.work / ours.work,
        "with start-up": (theirs.start + theirs.work) / (ours.start + ours.work),
        "its steps": theirs.steps / ours.steps,
    }


def median(runs: Sequence[Timed]) -> Timed:
    """Medians of the seconds; losses and adapter of the last run."""
    start, work, steps = (statistics.median(getattr(run, name) for run in runs) for name in ("start", "work", "steps"))
    return Timed(start, work, steps, runs[-1].losses, runs[-1].adapter)


def machine_run(bench: Bench, side: str) -> Timed:
    """An engine of its own, and `machine train run` in a process of its own."""
    began = time.perf_counter()
    life.start(bench.model, state=bench.engine)
    ready = time.perf_counter()
    try:
        told = machine(project(bench.root, side), "train", "run", "--yes")
        ended = time.perf_counter()
    finally:
        life.stop(state=bench.engine)
    adapter = Checkpoints(bench.engine / "checkpoints").folder(CheckpointPath.parse(told["sampler"]))
    losses = [line["loss"] for line in told["metrics"]]
    return Timed(ready - began, ended - ready, told["state"]["seconds"], losses, adapter)


def trl_run(bench: Bench, job: Job) -> Timed:
    """TRL in a process of its own; what it trained on is held against what Machine trains on."""
    began = time.perf_counter()
    with trl_process(bench, job) as child:
        assert child.stdout is not None
        moments = {line.strip(): time.perf_counter() for line in child.stdout}
    if child.returncode or not {"ready", "saved"} <= moments.keys():
        raise SystemExit(f"TRL's side ended with {child.returncode}: {trl_errors(bench)}")
    outcome = msgspec.json.decode((Path(job.out) / OUTCOME).read_bytes(), type=Outcome)
    check_same(bench.packs, outcome)
    work = moments["saved"] - moments["ready"]
    return Timed(moments["ready"] - began, work, outcome.seconds, outcome.losses, Path(job.out))


def check_same(packs: Sequence[Pack], outcome: Outcome) -> None:
    """Ends the bench unless both sides trained the same tokens of the same sequences."""
    for number, (pack, tokens, labels) in enumerate(zip(packs, outcome.tokens, outcome.labels, strict=True), 1):
        trained = [token if weight else -100 for token, weight in zip(pack.tokens, pack.weights, strict=True)]
        for ours, theirs in ((pack.tokens, tokens), (trained, labels)):
            if ours != theirs:
                raise SystemExit(f"row {number} is not the same for both sides: {ours} and {theirs}")


def trl_job(bench: Bench) -> Job:
    """What TRL is to do, its batches split as is fastest here."""
    planned, out = bench.plan, bench.root / "trl"
    out.mkdir()
    order = [i for step in range(planned.steps) for i in planned.batch(step)]
    assert len(order) == planned.steps * planned.batch_size, "an epoch must be whole batches for TRL to do the same"
    job = Job(
        str(bench.model), str(bench.root / "first"), str(bench.rows), str(out), planned.batch_size, planned.batch_size,
        planned.steps, planned.learning_rate, planned.schedule, order,
    )  # fmt: skip
    with trl_process(bench, job, "--layouts") as child:
        assert child.stdout is not None
        lines = child.stdout.read().splitlines()
    if child.returncode:
        raise SystemExit(f"TRL's side ended with {child.returncode}: {trl_errors(bench)}")
    seconds = {int(size): taken for size, taken in json.loads(lines[-1]).items()}
    return msgspec.structs.replace(job, layout=min(seconds, key=lambda size: seconds[size]))


def trl_process(bench: Bench, job: Job, *words: str) -> "subprocess.Popen[str]":
    """TRL's side, its lines to be read."""
    file = bench.root / "job.json"
    file.write_bytes(msgspec.json.encode(job))
    command = [sys.executable, str(HERE / "trl_sft.py"), str(file), *words]
    with (bench.root / "trl.log").open("wb") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)


def trl_errors(bench: Bench) -> str:
    """The end of what TRL's side wrote."""
    return (bench.root / "trl.log").read_text(errors="replace")[-2000:]


def mean_loss(bench: Bench, adapter: Path) -> float:
    """The mean over all rows of the mean over their trained tokens, in nats, as transformers and PEFT have it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT's advice on merging adapters of a tied unembedding
        model = PeftModel.from_pretrained(base_model(bench.model), adapter).eval()
    losses = []
    for pack in bench.packs:
        tokens = torch.tensor([pack.tokens])
        with torch.no_grad():
            logprobs = model(input_ids=tokens).logits[0, :-1].log_softmax(-1)
        taken = logprobs.gather(1, tokens[0, 1:, None])[:, 0]
        losses.append(-float(taken @ torch.tensor(pack.weights[1:])))
    return statistics.fmean(losses)


def project(root: Path, side: str) -> Project:
    """The project of a side."""
    return Project.at(root / side.replace(" ", "-").replace(",", ""))


def machine(project: Project, *words: str) -> Any:
    """Runs a `machine` command in a project, and returns its data."""
    command = [sys.executable, "-m", "machine.cli", *words, "--json"]
    done = subprocess.run(command, cwd=project.root, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"`machine {' '.join(words)}` ended with {done.returncode}: {done.stderr or done.stdout}")
    return json.loads(done.stdout)["data"]


if __name__ == "__main__":
    sys.exit(main())
