"""Hugging Face's side of the training benches: transformers' model with PEFT's adapter, and TRL's trainer.

TRL is set up to be fast on a processor: no activations computed twice, no progress bar, nothing saved in between.
All of it is in float32.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from machine.engine.models.lora import ALPHA, UNEMBED

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from trl import SFTConfig, SFTTrainer

INSTALL = 'TRL is not installed. Next: make setup, or .venv/bin/pip install -e ".[bench]"'


def has_trl() -> bool:
    """Whether TRL is installed."""
    return importlib.util.find_spec("trl") is not None


def base_model(folder: Path) -> "PreTrainedModel":
    """Transformers' model in float32."""
    disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def peft_model(folder: Path, modules: Sequence[str], rank: int) -> PeftModel:
    """Transformers' model with a fresh adapter on what the engine calls `modules`."""
    targets = ["lm_head" if module == UNEMBED else f"{module}_proj" for module in modules]
    config = LoraConfig(r=rank, lora_alpha=int(ALPHA), target_modules=targets, task_type="CAUSAL_LM")
    return get_peft_model(base_model(folder), config)


def sft_config(out: Path, **settings: Any) -> "SFTConfig":
    """TRL's configuration: what makes it fast here, and `settings`."""
    from trl import SFTConfig

    return SFTConfig(
        output_dir=str(out), use_cpu=True, bf16=False, gradient_checkpointing=False, max_length=None,
        save_strategy="no", report_to=[], disable_tqdm=True, **settings,
    )  # fmt: skip


def quiet(trainer: "SFTTrainer") -> "SFTTrainer":
    """The trainer, printing no losses."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    return trainer
