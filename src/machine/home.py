"""Where Machine keeps things on this machine: `~/.machine`, or `MACHINE_DATA_DIR`."""

import os
from pathlib import Path


def machine_home() -> Path:
    """The base of every store, model and environment; it need not exist yet."""
    chosen = os.environ.get("MACHINE_DATA_DIR")
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".machine"


def models_dir() -> Path:
    """Local models, one Hugging Face folder each; `MACHINE_MODELS_DIR` lets several homes share one."""
    chosen = os.environ.get("MACHINE_MODELS_DIR")
    return Path(chosen).expanduser().absolute() if chosen else machine_home() / "models"


def engine_dir() -> Path:
    """The embedded engine's discovery file, key, log and checkpoints."""
    return machine_home() / "engine"


def hub_cache() -> Path:
    """Where Hugging Face's own tools keep what they download; their variables move it."""
    for name, below in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")):
        if chosen := os.environ.get(name):
            return Path(chosen).expanduser().absolute() / below
    return Path.home() / ".cache" / "huggingface" / "hub"
