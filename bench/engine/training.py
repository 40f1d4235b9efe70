"""Training with the engine against transformers + PEFT and TRL: same machine, model, LoRA and precision, one run.

`python bench/engine/training.py [--quick] [--lengths]`: one forward and backward pass over rows whose last 24 tokens
have weight. The engine and PEFT take turns. Theirs goes row by row or as a batch of two, whichever a first pass says is
faster (their rate does not depend on the number of rows). Ratios over 1 say that the engine is faster. TRL is measured
where it is installed (it comes with the `bench` extra). With `--repeats` above 1, medians count.

Then one row alone, longer and longer: the seconds that a thousand of its tokens take, and the ratio to PEFT where
PEFT's pass fits into the memory that is free (from 2,048 tokens on one pass each, for they are long).

Both sides train the linear layers of the blocks, as is usual with PEFT; with `--unembed` both train the unembedding
too, as the SDK does unless it is told otherwise. TRL cannot, and is left out then.
"""

import os

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["HF_HUB_OFFLINE"] = "1"

import argparse
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from huggingface import has_trl, peft_model, quiet, sft_config
from peft import PeftModel
from timing import matrix_peak, medians, seconds

from machine.engine import memory
from machine.engine.models.convert import ensure_model
from machine.engine.models.llama import Llama
from machine.engine.models.lora import ALL, MODULES, Lora
from machine.engine.training.losses import Loss
from machine.engine.training.trainer import Datum, forward_backward
from machine.engine.work.futures import is_out_of_memory

TRAINED, RANK = 24, 32
LENGTHS, QUICK_LENGTHS = (512, 1024, 2048, 4096, 8192), (64, 128, 256)
LONG = 2048
"""Tokens of a row from which on one pass is timed, not several."""


@dataclass(frozen=True)
class Case:
    """Rows of `shared` tokens, the same in all, and `own` tokens."""

    name: str
    count: int
    shared: int
    own: int

    def rows(self, vocabulary: int) -> list[list[int]]:
        """Random rows, with one more token each for the last target."""
        generator = torch.Generator().manual_seed(0)
        prefix = torch.randint(3, vocabulary, (self.shared,), generator=generator).tolist()
        return [
            prefix + torch.randint(3, vocabulary, (self.own + 1,), generator=generator).tolist()
            for _ in range(self.count)
        ]


CASES = (
    Case("8 rows that share 2,000 of 2,100 tokens", 8, 2000, 100),
    Case("8 rows of 192 that share nothing", 8, 0, 192),
    Case("4 rows of 768 that share nothing", 4, 0, 768),
)
QUICK = (Case("8 rows that share 400 of 440 tokens", 8, 400, 40), Case("4 rows of 192 that share nothing", 4, 0, 192))


def engine_pass(model: Llama, lora: Lora, rows: Sequence[list[int]]) -> None:
    """One pass of the engine's."""
    weights = (torch.arange(len(rows[0]) - 1) >= len(rows[0]) - 1 - TRAINED).float()
    data = [Datum(row[:-1], torch.tensor(row[1:]), {"weights": weights}) for row in rows]
    forward_backward(model, lora, data, Loss("cross_entropy", {}), backward=True)


def peft_pass(model: PeftModel, rows: Sequence[list[int]]) -> None:
    """One pass of transformers + PEFT, all rows in one batch."""
    tokens = torch.tensor(rows)
    model(input_ids=tokens, labels=_labels(tokens)).loss.backward()


def _labels(tokens: torch.Tensor) -> torch.Tensor:
    labels = tokens.clone()
    labels[:, :-TRAINED] = -100
    return labels


def faster_batch(model: PeftModel, rows: Sequence[list[int]]) -> Sequence[list[int]]:
    """One row or two: what PEFT does more of in a second."""
    return min((rows[:1], rows[:2]), key=lambda batch: seconds(lambda: peft_pass(model, batch), 1) / len(batch))


@functools.cache
def trl_seconds(folder: Path, case: Case, batch: int, repeats: int) -> float:
    """The median seconds of a step of TRL's `SFTTrainer` on one batch, its optimiser included."""
    from datasets import Dataset
    from transformers import AutoTokenizer, TrainerCallback
    from trl import SFTTrainer

    class Clock(TrainerCallback):
        """Times the steps."""

        def __init__(self) -> None:
            self.steps: list[float] = []

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            """Starts the clock."""
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            """Stops it."""
            self.steps.append(time.perf_counter() - self.began)

    model = peft_model(folder, MODULES, RANK)
    rows = case.rows(model.config.vocab_size)[:batch]
    data = [{"input_ids": row, "labels": _labels(torch.tensor([row]))[0].tolist()} for row in rows * repeats]
    clock = Clock()
    with tempfile.TemporaryDirectory() as out:
        config = sft_config(
            Path(out), per_device_train_batch_size=batch, max_steps=repeats,
            dataset_kwargs={"skip_prepare_dataset": True},
        )  # fmt: skip
        trainer = SFTTrainer(model, config, train_dataset=Dataset.from_list(data), callbacks=[clock],
                             processing_class=AutoTokenizer.from_pretrained(folder))  # fmt: skip
        quiet(trainer).train()
    return statistics.median(clock.steps)


def case_rates(
    model: Llama, lora: Lora, peft: PeftModel, trl: Path | None, case: Case, repeats: int
) -> dict[str, float]:
    """Tokens a second of each side; TRL's where there is a folder to load its model from."""
    rows = case.rows(model.config.vocabulary)
    batch = faster_batch(peft, rows)
    ours, theirs = medians([lambda: engine_pass(model, lora, rows), lambda: peft_pass(peft, batch)], repeats)
    rates = {"engine": len(rows) * len(rows[0]) / ours, "peft": len(batch) * len(rows[0]) / theirs}
    if trl is not None:
        rates["trl"] = len(batch) * len(rows[0]) / trl_seconds(trl, replace(case, count=2), len(batch), repeats)
    return rates


def row_seconds(model: Llama, lora: Lora, peft: PeftModel, length: int, repeats: int) -> tuple[float, float | None]:
    """Seconds of one row for 1,000 tokens: the engine's, and PEFT's where its pass fits into memory."""
    rows = Case("", 1, 0, length).rows(model.config.vocabulary)
    repeats = min(repeats, -(-LONG // length))
    [ours] = medians([lambda: engine_pass(model, lora, rows)], repeats)
    try:
        [theirs] = medians([lambda: peft_pass(peft, rows)], repeats)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return 1000 * ours / length, None
    return 1000 * ours / length, 1000 * theirs / length


def main() -> None:
    """Measures and prints two tables, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder; default SmolLM2-135M-Instruct")
    parser.add_argument("--quick", action="store_true", help="shorter rows: a minute or two in place of some ten")
    parser.add_argument("--unembed", action="store_true", help="both sides train the unembedding too")
    parser.add_argument("--repeats", type=int, default=1, help="medians of 3 take most of an hour")
    parser.add_argument("--lengths", action="store_true", help="only the table of one row, longer and longer")
    asked = parser.parse_args()
    folder = asked.model or ensure_model(print)
    model = Llama.load(folder)
    modules = ALL if asked.unembed else MODULES
    lora, peft = Lora.new(model.config, RANK, 0, modules), peft_model(folder, modules, RANK)
    memory.bound()
    trl = folder if has_trl() and not asked.unembed else None
    if trl is None:
        print("TRL is left out: it is not installed, or cannot train the unembedding")
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {folder.name}, fp32\n")
    others = ["peft"] if trl is None else ["peft", "trl"]
    print(f"{'tokens/s':<44}{'engine':>8}{''.join(f'{name:>8}{chr(32):>8}' for name in others)}")
    results: dict[str, dict[str, float]] = {}
    for case in () if asked.lengths else QUICK if asked.quick else CASES:
        rates = results[case.name] = case_rates(model, lora, peft, trl, case, asked.repeats)
        ratios = "".join(f"{rates[name]:>8.0f}{rates['engine'] / rates[name]:>7.2f}x" for name in others)
        print(f"{case.name:<44}{rates['engine']:>8.0f}{ratios}", flush=True)
    print(f"\n{'one row: seconds for 1,000 tokens':<44}{'engine':>8}{'growth':>8}{'peft':>8}{chr(32):>8}")
    first: float | None = None
    for length in QUICK_LENGTHS if asked.quick else LENGTHS:
        ours, theirs = row_seconds(model, lora, peft, length, asked.repeats)
        first = ours if first is None else first
        against = f"{'no memory':>16}" if theirs is None else f"{theirs:>8.2f}{theirs / ours:>7.2f}x"
        print(f"{f'{length:,} tokens':<44}{ours:>8.2f}{ours / first:>7.2f}x{against}", flush=True)
        results[f"1 row of {length}, s/1,000"] = {"engine": ours} | ({} if theirs is None else {"peft": theirs})
    print(f"\n{machine_limit(model, lora)}")
    print(json.dumps({name: {key: round(value, 2) for key, value in row.items()} for name, row in results.items()}))


def machine_limit(model: Llama, lora: Lora) -> str:
    """The peak of float32 matrix products here, and what share of it a pass over 1,024 tokens reaches."""
    peak = matrix_peak()
    rows = Case("", 2, 0, 512).rows(model.config.vocabulary)
    took = seconds(lambda: engine_pass(model, lora, rows), 2)
    matrices = sum(m.numel() for b in model.blocks for m in (b.qkv, b.o, b.gate_up, b.down))
    factors = sum(p.numel() for p in lora.parameters.values())
    # forward and the gradient of the input for frozen weights, and of the factors too; the head forward alone
    work = 2 * 1024 * (2 * matrices + 3 * factors + model.head.numel())
    return (
        f"matrix products peak at {peak / 1e9:.0f} GFlop/s here; a pass reaches {work / took / peak:.2f} of that "
        "(attention not counted)"
    )


if __name__ == "__main__":
    main()
