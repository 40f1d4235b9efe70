"""The tensors of a model folder, by name: safetensors only, in one file or several. Each is checked as it is read."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from machine.engine.models.hub import weight_files
from machine.errors import UsageError

_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_AGAIN = "fetch the model again"


class Weights:
    """A folder's tensors, converted to one type and put on one device as they are asked for.

    Opening it reads headers only.

    Raises:
        UsageError: no safetensors, or a file that is missing or cut short.
    """

    def __init__(self, folder: Path, dtype: torch.dtype, device: torch.device) -> None:
        self.folder, self.dtype, self.device = folder, dtype, device
        self._files: dict[str, Any] = {}
        for name in weight_files(folder):
            file = _opened(folder / name)
            self._files |= dict.fromkeys(file.keys(), file)

    def __call__(self, name: str, *shape: int) -> Tensor:
        """The tensor called `name`, which must have this shape and finite values.

        Raises:
            UsageError: it is missing, or is not what it should be; the message names it.
        """
        if name not in self._files:
            raise UsageError(f"{self.folder} lacks the tensor {name}", next_step=_AGAIN)
        try:
            tensor: Tensor = self._files[name].get_tensor(name)
        except (SafetensorError, KeyError) as error:  # a number format that torch lacks, say
            raise UsageError(f"{self.folder}: the tensor {name} cannot be read: {error}", next_step=_AGAIN) from error
        if tensor.shape != shape:
            raise UsageError(f"{self.folder}: the tensor {name} has the shape {list(tensor.shape)}, "
                             f"config.json needs {list(shape)}", next_step=_AGAIN)  # fmt: skip
        if tensor.dtype not in _FLOATS:
            raise UsageError(f"{self.folder}: the tensor {name} holds {tensor.dtype}, no floating-point numbers",
                             next_step="use the model's unquantised weights")  # fmt: skip
        tensor = tensor.to(self.device, self.dtype)
        if not tensor.sum(dtype=torch.float32).isfinite():  # one pass: NaN and infinity outlive any sum
            raise UsageError(f"{self.folder}: the tensor {name} holds NaN or infinity", next_step=_AGAIN)
        return tensor


def _opened(path: Path) -> Any:
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file", next_step=_AGAIN)
    try:
        return safe_open(str(path), framework="pt")
    except (SafetensorError, OSError) as error:
        reason = "is missing" if not path.exists() else f"is cut short or damaged ({error})"
        raise UsageError(f"{path} {reason}", next_step=_AGAIN) from error
