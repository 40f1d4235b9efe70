"""Where the tensors live: a GPU when torch sees one, the processor otherwise."""

import torch

from machine.errors import UsageError

CHOICES = ("auto", "cpu", "cuda", "mps")


def choose(name: str = "auto") -> torch.device:
    """The device for one of `CHOICES`; "auto" is CUDA if there is one, else the CPU. MPS must be asked for by name.

    Raises:
        UsageError: torch does not see such a device here.
    """
    seen = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = "cuda" if seen["cuda"] else "cpu"
    if not seen.get(name, name == "cpu"):
        raise UsageError(f"--device {name}: torch sees no such device here", next_step="use --device cpu, or auto")
    return torch.device(name)
