"""What more work costs: a step with many models and checkpoints beside it, and memory over many rows.

`python bench/engine/store.py` starts two engines of its own and drives them with Tinker's SDK: one that holds one
model, and one that holds 50 models and 1,000 checkpoints. It prints the time of a training step and of an answer of
each, taken in turn, so that what else the machine does falls on both; then the time of opening and listing the full
store, and the engine's resident memory while 10,000 rows are trained on. Needs the default model, 6 GB of memory, and 2
to 6 minutes.
"""

import os

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TINKER_TELEMETRY"] = "0"

import argparse
import json
import tempfile
from pathlib import Path

from timing import fastest, seconds

from machine.engine import life
from machine.engine.checkpoints import CheckpointFiles, CheckpointPath, Checkpoints
from tinker import AdamParams, APIFuture, Datum, ModelInput, RestClient, SamplingParams, ServiceClient, TrainingClient

BATCH = 250
"""Rows of one request while memory is watched."""


def datum(tokens: list[int]) -> Datum:
    """A row all of whose tokens have weight."""
    weights = [1.0] * (len(tokens) - 1)
    return Datum(
        model_input=ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": weights},
    )


def step(client: TrainingClient, rows: list[Datum]) -> None:
    """One training step."""
    learnt = client.forward_backward(rows, "cross_entropy")
    client.optim_step(AdamParams(learning_rate=1e-5)).result()
    learnt.result()


class Side:
    """An engine with a model in training and a sampler of the base."""

    def __init__(self, model: Path | None, state: Path) -> None:
        self.info = life.start(model, state=state)
        self.store = state / "checkpoints"
        reach = {"base_url": self.info.url, "api_key": (state / "key").read_text()}
        self.service, self.rest = ServiceClient(**reach), RestClient(**reach)
        self.client = self.new_model().result()
        self.sampler = self.service.create_sampling_client(base_model=self.info.model).result()

    def new_model(self) -> APIFuture[TrainingClient]:
        """Another model."""
        return self.service.create_lora_training_client(self.info.model, rank=32)

    def learn(self) -> None:
        """A step on four rows of 31 tokens."""
        step(self.client, [datum([*range(3, 34), 40 + n]) for n in range(4)])

    def answer(self) -> None:
        """Eight tokens after a prompt of 17."""
        prompt, params = ModelInput.from_ints(list(range(3, 20))), SamplingParams(max_tokens=8, stop=[], seed=1)
        self.sampler.sample(prompt, 1, params).result()


def resident(pid: int) -> float:
    """Gigabytes of a process that are in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1e6


def fill(root: Path, like: CheckpointPath, count: int, runs: int) -> None:
    """Copies of a checkpoint's small files under as many names; their weights are a stub, since nothing loads them."""
    store = Checkpoints(root)
    files, facts = store.read(like), store.run(like.run)
    meta = {"base_model": facts["base_model"], "user_metadata": None, "expires_at": None}
    for n in range(count):
        path = CheckpointPath(f"bench:train:{n % runs}", "weights", f"{n:06d}")
        store.save(path, CheckpointFiles(files.config, b"stub"), meta)
        if n < runs:
            store.save_run(path.run, facts)


def main() -> None:
    """Measures and prints a table, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder; default SmolLM2-135M-Instruct")
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--checkpoints", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    results: dict[str, float] = {}

    def tell(name: str, value: float, unit: str) -> None:
        results[name] = round(value, 4)
        print(f"{name:<52}{value:>10.3f} {unit}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        states = [Path(folder) / name for name in ("one", "many")]
        try:
            one, many = sides = [Side(asked.model, state) for state in states]
            before = resident(many.info.pid)
            for model in [many.new_model() for _ in range(asked.models - 1)]:
                model.result()
            tell(f"memory of {asked.models - 1} models before their first step", resident(many.info.pid) - before, "GB")
            saved = many.client.save_state("one").result().path
            fill(many.store, CheckpointPath.parse(saved), asked.checkpoints, asked.models)
            for name, runs in {
                "step": [side.learn for side in sides],
                "answer of 8 tokens": [side.answer for side in sides],
            }.items():
                fastest(runs, 1)
                alone, beside = fastest(runs, asked.repeats)
                tell(f"{name}, 1 model, no checkpoint", alone, "s")
                tell(f"{name}, {asked.models} models, {asked.checkpoints} checkpoints", beside, "s")
                tell(f"{name}, ratio", beside / alone, "x")
            rest = many.rest
            for name, run in {
                "opening the store": lambda: Checkpoints(many.store),
                "list_user_checkpoints": lambda: rest.list_user_checkpoints(limit=1000).result(),
                "list_training_runs": lambda: rest.list_training_runs(limit=100).result(),
            }.items():
                tell(name, seconds(run, 3), "s")

            shared, first = list(range(3, 12)), 0.0
            for n in range(0, asked.rows, BATCH):
                step(one.client, [datum([*shared, 20 + i // 100, 20 + i % 100]) for i in range(n, n + BATCH)])
                if n == BATCH:
                    first = resident(one.info.pid)
            tell(f"memory after {2 * BATCH} rows", first, "GB")
            tell(f"memory after {asked.rows} rows", resident(one.info.pid), "GB")
            tell("memory, ratio", resident(one.info.pid) / first, "x")
            for side in sides:
                side.service.close("success").result()
        finally:
            for state in states:
                life.stop(state=state)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
