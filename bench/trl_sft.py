"""TRL's side of `bench/training.py`: from rows in a file to the adapter that TRL's SFTTrainer saves.

    python bench/trl_sft.py JOB [--layouts]

JOB is a JSON file, a `Job`. Libraries and model are loaded first, then `ready` is printed; then the rows are read,
tokenised and trained on, the adapter is saved, and `saved` is printed. What was trained on, and how it went, is written
beside the adapter last, for whoever compares. With `--layouts` the seconds of a step are printed for each way of
splitting a batch.

The maths are Machine's: its first adapter, its order of rows, Adam with its constants, and a loss that weighs every
answer the same.
"""

import os

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["HF_HUB_OFFLINE"] = "1"

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent / "engine"))

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedTokenizerBase
    from trl import SFTTrainer

OUTCOME = "outcome.json"
LAYOUT_ROUNDS = 2


class Job(msgspec.Struct):
    """What to train: `order` names the row of each place, `batch_size` of them a step, `layout` of them at once."""

    model: str
    adapter: str
    rows: str
    out: str
    batch_size: int
    layout: int
    steps: int
    learning_rate: float
    schedule: str
    order: list[int]


class Outcome(msgspec.Struct):
    """Tokens and labels (-100: not trained) of each row, the loss of each step, the seconds of `train()`."""

    tokens: list[list[int]]
    labels: list[list[int]]
    losses: list[float]
    seconds: float


def layouts(batch_size: int) -> list[int]:
    """The ways of splitting a batch: so many rows at once."""
    return [size for size in range(1, batch_size + 1) if batch_size % size == 0]


def main() -> None:
    """Trains, or times the layouts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path)
    parser.add_argument("--layouts", action="store_true")
    asked = parser.parse_args()
    job = msgspec.json.decode(asked.job.read_bytes(), type=Job)
    model, tokenizer = _loaded(job)
    if asked.layouts:
        print(json.dumps(_layout_seconds(job, model, tokenizer)))
        return
    print("ready", flush=True)
    trainer = _trainer(job, model, tokenizer)
    began = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - began
    trainer.save_model()
    print("saved", flush=True)
    data, log = trainer.train_dataset, trainer.state.log_history
    losses = [line["loss"] for line in log if "loss" in line]
    outcome = Outcome(list(data["input_ids"]), list(data["labels"]), losses, seconds)
    (Path(job.out) / OUTCOME).write_bytes(msgspec.json.encode(outcome))


def _loaded(job: Job) -> "tuple[PeftModel, PreTrainedTokenizerBase]":
    """The model with the adapter to begin with, the tokenizer, and every library that training needs."""
    import datasets  # noqa: F401
    from huggingface import base_model
    from peft import PeftModel
    from transformers import AutoTokenizer
    from trl import SFTTrainer  # noqa: F401

    model = PeftModel.from_pretrained(base_model(Path(job.model)), job.adapter, is_trainable=True)
    return model, AutoTokenizer.from_pretrained(job.model)


def _layout_seconds(job: Job, model: "PeftModel", tokenizer: "PreTrainedTokenizerBase") -> dict[int, float]:
    """Seconds of one step for each layout; they take turns, and the fastest of each counts."""
    from timing import fastest

    sizes = layouts(job.batch_size)
    one = [msgspec.structs.replace(job, layout=size, steps=1) for size in sizes]
    trainers = [_trainer(each, model, tokenizer) for each in one]
    return dict(zip(sizes, fastest([trainer.train for trainer in trainers], LAYOUT_ROUNDS), strict=True))


def _trainer(job: Job, model: "PeftModel", tokenizer: "PreTrainedTokenizerBase") -> "SFTTrainer":
    """TRL's trainer over the rows, which it tokenises here."""
    from datasets import Dataset
    from huggingface import quiet, sft_config
    from trl import SFTTrainer

    class Trainer(SFTTrainer):
        """The loss is the mean over a step's answers of the mean over their tokens; rows come in the job's order."""

        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None):
            outputs = model(**inputs, fused_lm_head=True)
            means = outputs.log_probs.sum(dim=1) / outputs.label_mask.sum(dim=1)
            loss = -means.sum() / job.batch_size
            return (loss, outputs) if return_outputs else loss

        def _get_train_sampler(self, train_dataset: Any = None):
            return job.order

    config = sft_config(
        Path(job.out), per_device_train_batch_size=job.layout, max_steps=job.steps, logging_steps=1,
        gradient_accumulation_steps=job.batch_size // job.layout, learning_rate=job.learning_rate, warmup_steps=0,
        lr_scheduler_type=job.schedule, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-12, weight_decay=0.0,
        max_grad_norm=0.0,
    )  # fmt: skip
    data = [_texts(tokenizer, line) for line in Path(job.rows).read_bytes().splitlines()]
    return quiet(Trainer(model, config, train_dataset=Dataset.from_list(data), processing_class=tokenizer))


def _texts(tokenizer: "PreTrainedTokenizerBase", line: bytes) -> dict[str, str]:
    """Prompt and completion of a row, to which TRL adds the end of the turn."""
    *prompt, answer = json.loads(line)["messages"]
    text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    return {"prompt": text, "completion": answer["content"]}


if __name__ == "__main__":
    main()
