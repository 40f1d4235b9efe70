"""Training with the engine against transformers + PEFT and TRL: same machine, model, LoRA and precision, one run.

`python bench/engine/training.py [--quick]`: one forward and backward pass over rows whose last 24 tokens have weight.
Theirs is timed row by row and as a batch of two, and the faster counts (their rate does not depend on the number of
rows). Ratios over 1 say that the engine is faster. TRL is measured where it is installed (`pip install trl`).
"""

import os

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["HF_HUB_OFFLINE"] = "1"

import argparse
import importlib.util
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from timing import matrix_peak, seconds
from transformers import AutoModelForCausalLM

from machine.engine.models.convert import ensure_model
from machine.engine.models.llama import Llama
from machine.engine.models.lora import MODULES, Lora
from machine.engine.training.losses import Loss
from machine.engine.training.trainer import Datum, forward_backward

TRAINED, RANK = 24, 32
PEFT = LoraConfig(r=RANK, lora_alpha=32, target_modules=[f"{module}_proj" for module in MODULES], task_type="CAUSAL_LM")


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
    Case("24 rows that share 2,000 of 2,100 tokens", 24, 2000, 100),
    Case("8 rows of 192 that share nothing", 8, 0, 192),
    Case("4 rows of 768 that share nothing", 4, 0, 768),
)
QUICK = (Case("8 rows that share 400 of 440 tokens", 8, 400, 40), Case("4 rows of 192 that share nothing", 4, 0, 192))


def engine_pass(model: Llama, lora: Lora, rows: Sequence[list[int]]) -> None:
    """One pass of the engine's."""
    weights = (torch.arange(len(rows[0]) - 1) >= len(rows[0]) - 1 - TRAINED).float()
    data = [Datum(row[:-1], torch.tensor(row[1:]), {"weights": weights}) for row in rows]
    forward_backward(model, lora, data, Loss("cross_entropy", {}), backward=True)


def peft_pass(model: torch.nn.Module, rows: Sequence[list[int]]) -> None:
    """One pass of transformers + PEFT, all rows in one batch."""
    tokens = torch.tensor(rows)
    model(input_ids=tokens, labels=_labels(tokens)).loss.backward()


def _labels(tokens: torch.Tensor) -> torch.Tensor:
    labels = tokens.clone()
    labels[:, :-TRAINED] = -100
    return labels


def peft_rate(folder: Path, case: Case, repeats: int) -> float:
    """Tokens a second of transformers + PEFT, the better of batch 1 and batch 2."""
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = get_peft_model(base, PEFT)
    rows = case.rows(base.config.vocab_size)
    return max(
        batch * len(rows[0]) / seconds(lambda batch=batch: peft_pass(model, rows[:batch]), repeats) for batch in (1, 2)
    )


def trl_rate(folder: Path, case: Case, repeats: int) -> float:
    """Tokens a second of TRL's `SFTTrainer`, the better of batch 1 and batch 2; a step of its optimiser included."""
    from datasets import Dataset
    from transformers import AutoTokenizer, PrinterCallback, TrainerCallback
    from trl import SFTConfig, SFTTrainer

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

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows = case.rows(model.config.vocab_size)
    rates = []
    for batch in (1, 2):
        data = [
            {"input_ids": row, "labels": _labels(torch.tensor([row]))[0].tolist()} for row in rows[:batch] * repeats
        ]
        clock = Clock()
        with tempfile.TemporaryDirectory() as out:
            config = SFTConfig(
                output_dir=out, per_device_train_batch_size=batch, max_steps=repeats, max_length=None, report_to=[],
                gradient_checkpointing=False, use_cpu=True, save_strategy="no", disable_tqdm=True,
                dataset_kwargs={"skip_prepare_dataset": True}, bf16=False,
            )  # fmt: skip
            trainer = SFTTrainer(
                model, config, train_dataset=Dataset.from_list(data), peft_config=PEFT if batch == 1 else None,
                processing_class=AutoTokenizer.from_pretrained(folder), callbacks=[clock],
            )  # fmt: skip
            trainer.remove_callback(PrinterCallback)
            trainer.train()
            model = trainer.model
        rates.append(batch * len(rows[0]) / min(clock.steps))
    return max(rates)


def main() -> None:
    """Measures and prints a table, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder; default SmolLM2-135M-Instruct")
    parser.add_argument("--quick", action="store_true", help="shorter rows: a minute in place of some ten")
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    folder = asked.model or ensure_model(print)
    model = Llama.load(folder)
    lora = Lora.new(model.config, RANK, 0)
    others = {"peft": peft_rate}
    if importlib.util.find_spec("trl"):
        others["trl"] = trl_rate
    else:
        print("TRL is not installed and is left out (pip install trl)")
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {folder.name}, fp32\n")
    print(f"{'tokens/s':<44}{'engine':>8}{''.join(f'{name:>8}{chr(32):>8}' for name in others)}")
    results: dict[str, dict[str, float]] = {}
    measured: dict[tuple[str, int], float] = {}
    for case in QUICK if asked.quick else CASES:
        rows = case.rows(model.config.vocabulary)
        ours = case.count * len(rows[0]) / seconds(lambda rows=rows: engine_pass(model, lora, rows), asked.repeats)
        figures = {"engine": ours}
        line = f"{case.name:<44}{ours:>8.0f}"
        for name, rate in others.items():
            key = name, len(rows[0])
            measured[key] = measured.get(key) or rate(folder, case, asked.repeats)
            figures[name] = measured[key]
            line += f"{figures[name]:>8.0f}{ours / figures[name]:>7.2f}x"
        print(line, flush=True)
        results[case.name] = {key: round(value, 2) for key, value in figures.items()}
    print(f"\n{machine_limit(model)}")
    print(json.dumps(results))


def machine_limit(model: Llama) -> str:
    """The peak of float32 matrix products here, and what share of it a pass over 1,024 tokens reaches."""
    peak = matrix_peak()
    rows = Case("", 2, 0, 512).rows(model.config.vocabulary)
    lora = Lora.new(model.config, RANK, 0)
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
