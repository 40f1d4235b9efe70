"""Where Machine keeps things on this machine: `~/.machine`, or `MACHINE_DATA_DIR`."""

import os
from pathlib import Path

from machine.errors import StoreError


def machine_home() -> Path:
    """The base of every store, model and environment; it need not exist yet.

    Raises:
        StoreError: it is to lie in the home folder of a user who has none that is known.
    """
    chosen = os.environ.get("MACHINE_DATA_DIR") or "~/.machine"
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError as error:
        raise StoreError(
            f"no home folder is known for {chosen}", next_step="set MACHINE_DATA_DIR to the full path of a folder"
        ) from error


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


def user_home() -> Path | None:
    """The user's home folder; None where none is known (a user without an account, as in some containers)."""
    try:
        return Path.home()
    except RuntimeError:
        return None
