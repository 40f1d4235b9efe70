"""Config: the recipe of a run as `tinker.yaml` holds it. Every figure is there to be edited."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from machine.errors import Refused

POOL = "pool"
"""`data: pool` means the project's good rows; anything else is the path of a JSONL file of rows."""

Positive = Annotated[int, msgspec.Meta(ge=1)]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A recipe. `steps`, where it is set, decides instead of `epochs`; `max_length` is in tokens."""

    model: str
    renderer: str
    data: str = POOL
    rank: Positive = 32
    learning_rate: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1e-3
    schedule: Literal["linear", "constant"] = "linear"
    batch_size: Positive = 8
    epochs: Positive = 4
    steps: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_length: Positive = 4096
    test_size: Annotated[int, msgspec.Meta(ge=0)] = 0
    save_every: Positive = 5
    seed: int = 0


def read_config(path: Path) -> Config:
    """The recipe in a YAML file.

    Raises:
        Refused: it is not there, is not YAML, or has a wrong or unknown entry (the message names it).
    """
    try:
        return parse_config(yaml.safe_load(path.read_bytes()))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}", next_step="machine train sft") from error
    except yaml.YAMLError as error:
        raise Refused(f"{path} is not YAML: {' '.join(str(error).split())}", next_step=f"mend {path}") from error
    except msgspec.ValidationError as error:
        raise Refused(
            f"{path}: {error}", next_step=f"mend {path}, or write it anew: machine train sft --force"
        ) from error


def parse_config(value: Any) -> Config:
    """A recipe from plain values; numbers may be spelt `1e-3`, which YAML reads as text.

    Raises:
        msgspec.ValidationError: an entry is wrong, missing or unknown.
    """
    return msgspec.convert(value, Config, strict=False)


def written(config: Config, reasons: dict[str, str]) -> str:
    """The YAML text of a recipe, each entry with the reason for its value as a comment."""
    lines = []
    for name, value in msgspec.to_builtins(config).items():
        if value is None:
            continue
        line = yaml.safe_dump({name: value}, width=1000).strip()
        lines.append(f"{line}  # {reasons[name]}" if name in reasons else line)
    return "\n".join(lines) + "\n"
