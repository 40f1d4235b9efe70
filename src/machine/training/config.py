"""Config: the recipe of a run as `tinker.yaml` holds it. Every figure is there to be edited.

Each of them is an option of `train sft`, of `train run` and of the page too: names, limits and help come from here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from machine.errors import Refused, UsageError
from machine.plain import values
from machine.renderers import renderer_name

POOL = "pool"
"""`data: pool` means the project's good rows; anything else is the path of a JSONL file of rows."""

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Rate = Annotated[float, msgspec.Meta(gt=0, le=1)]


def _about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A recipe. `steps`, where it is set, decides instead of `epochs`; `max_length` is in tokens."""

    model: Annotated[_Name, _about("The base model to train.")]
    renderer: Annotated[_Name, _about("What writes conversations as tokens; default: the one made for the model.")]
    data: str = POOL
    rank: Annotated[_Positive, _about("Rank of the LoRA matrices.")] = 32
    learning_rate: Annotated[_Rate, _about("The peak learning rate of Adam.")] = 1e-3
    schedule: Annotated[Literal["linear", "constant"], _about("The rate falls to 0 (linear), or is constant.")] = (
        "linear"
    )
    batch_size: Annotated[_Positive, _about("Datums a step; fewer rows than that shrink it.")] = 8
    epochs: Annotated[_Positive, _about("How often every row is seen.")] = 4
    steps: Annotated[_Natural | None, _about("So many steps, whatever the epochs.")] = None
    max_length: Annotated[_Positive, _about("Tokens that an example may have.")] = 4096
    test_size: Annotated[_Natural, _about("Conversations that are held out, never trained on.")] = 0
    save_every: Annotated[_Positive, _about("Steps between states that an interrupted run goes on from.")] = 5
    seed: Annotated[int, _about("Of the LoRA matrices, the order of examples and the held-out choice.")] = 0


def figures() -> dict[str, str]:
    """The entries that an option can set, `batch_size` by `--batch-size`, and what each is."""
    [schema] = msgspec.json.schema(Config)["$defs"].values()
    return {name: entry["description"] for name, entry in schema["properties"].items() if "description" in entry}


def option(name: str) -> str:
    """The option of an entry: `--batch-size`."""
    return "--" + name.replace("_", "-")


def chosen(given: Mapping[str, str]) -> dict[str, Any]:
    """What options gave as text, as the recipe's values.

    Raises:
        UsageError: a value is not fit for its entry (the message names the option).
    """
    values = {}
    for name, text in given.items():
        try:
            values[name] = getattr(parse_config({"model": "any", "renderer": "any", name: text}), name)
        except msgspec.ValidationError as error:
            wrong = str(error).partition(" - at ")[0]
            raise UsageError(f"{option(name)} {text}: {wrong}", next_step="machine train run --help") from error
    return values


def overridden(config: Config, values: Mapping[str, Any]) -> Config:
    """The recipe with other values; another model brings its renderer along, other epochs undo fixed steps.

    Raises:
        UsageError: nothing is known about the model's chat format.
    """
    changes = dict(values)
    if "model" in values:
        changes.setdefault("renderer", renderer_name(values["model"]))
    if "epochs" in values:
        changes.setdefault("steps", None)
    return msgspec.structs.replace(config, **changes)


def read_config(path: Path) -> Config:
    """The recipe in a YAML file.

    Raises:
        Refused: it is not there, is not YAML, or has a wrong or unknown entry (the message names it).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}", next_step="machine train sft") from error
    try:
        return parse_config(values(path, data, f"mend {path}"))
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
