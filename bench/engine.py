"""The engine against transformers and peft: same machine, same model, float32, one run. `python bench/engine.py`.

Training: one forward and backward pass of LoRA (rank 32, all linear layers) over rows of which the last 24 tokens have
weight; theirs is one batch with full logits, as `Trainer` does it.
Ratios over 1 say that the engine is faster. Needs the default model, and fetches it the first time; 1 to 2 minutes.
"""

import os

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["HF_HUB_OFFLINE"] = "1"

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from machine.engine.models.convert import ensure_model
from machine.engine.models.llama import Llama
from machine.engine.models.lora import MODULES, Lora
from machine.engine.training.losses import Loss
from machine.engine.training.trainer import Datum, forward_backward

TRAINED, RANK = 24, 32
CASES = {"rows that share 160 of 192 tokens": (160, 32), "rows that share nothing": (0, 192)}


def rows(count: int, shared: int, own: int, vocabulary: int) -> list[list[int]]:
    """Random rows of `shared` + `own` tokens, and one more for the last target."""
    generator = torch.Generator().manual_seed(0)
    prefix = torch.randint(3, vocabulary, (shared,), generator=generator).tolist()
    return [prefix + torch.randint(3, vocabulary, (own + 1,), generator=generator).tolist() for _ in range(count)]


def seconds(run: Callable[[], object], repeats: int) -> float:
    """The fastest of some runs: what disturbs a run only makes it slower."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def train_ours(model: Llama, lora: Lora, batch: list[list[int]]) -> None:
    """One pass of the engine's."""
    weights = (torch.arange(len(batch[0]) - 1) >= len(batch[0]) - 1 - TRAINED).float()
    data = [Datum(row[:-1], torch.tensor(row[1:]), {"weights": weights}) for row in batch]
    forward_backward(model, lora, data, Loss("cross_entropy", {}), backward=True)


def train_theirs(model: torch.nn.Module, batch: list[list[int]]) -> None:
    """One pass of transformers + peft."""
    tokens = torch.tensor(batch)
    labels = tokens.clone()
    labels[:, :-TRAINED] = -100
    model(input_ids=tokens, labels=labels).loss.backward()


def main() -> None:
    """Measures and prints a table, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder; default SmolLM2-135M-Instruct")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    folder = asked.model or ensure_model(print)
    ours = Llama.load(folder)
    lora = Lora.new(ours.config, RANK, 0)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    results: dict[str, dict[str, float]] = {}

    def compare(name: str, tokens: int, our_seconds: float, their_seconds: float) -> None:
        figures = {"ours": tokens / our_seconds, "theirs": tokens / their_seconds}
        results[name] = figures | {"ratio": their_seconds / our_seconds}
        print(f"{name:<44}{figures['ours']:>8.0f}{figures['theirs']:>10.0f}{their_seconds / our_seconds:>9.2f}x")

    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {folder.name}, fp32\n")
    print(f"{'tokens/s':<44}{'engine':>8}{'hf':>10}{'ratio':>10}")
    targets = [f"{module}_proj" for module in MODULES]
    adapted = get_peft_model(theirs, LoraConfig(r=RANK, lora_alpha=32, target_modules=targets, task_type="CAUSAL_LM"))
    for name, (shared, own) in CASES.items():
        batch = rows(asked.rows, shared, own, ours.config.vocabulary)
        mine = seconds(lambda batch=batch: train_ours(ours, lora, batch), asked.repeats)
        other = seconds(lambda batch=batch: train_theirs(adapted, batch), asked.repeats)
        compare(f"training, {name}", asked.rows * (shared + own), mine, other)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\npeak memory of both together {peak:.1f} GB")
    print(
        json.dumps(
            {name: {key: round(value, 2) for key, value in figures.items()} for name, figures in results.items()}
        )
    )


if __name__ == "__main__":
    main()
