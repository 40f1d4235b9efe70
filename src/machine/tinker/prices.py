"""Prices: what training and sampling cost at hosted Tinker, an estimate from dated prices.

The table is `prices.yaml` beside this module: USD per million tokens, transcribed from the page that `SOURCE` names.
The service tells no prices over its API, and the bill is the service's; what is said here always names the date of the
price. A user's own `prices.yaml` in Machine's folder changes and adds lines. The engine costs nothing.
"""

import datetime
import functools
import importlib.resources
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from machine.errors import Refused
from machine.home import machine_home
from machine.plain import values

SOURCE = "https://tinker-docs.thinkingmachines.ai/tinker/models/"
FILE = "prices.yaml"
FREE = "nothing, this machine does the work"
UNKNOWN = "price not known"

_MILLION = 1_000_000
_Usd = Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """USD per million tokens read (`prefill`), written (`sample`) and trained on; None where it is not known.

    `date` is that of the oldest of the figures; a user's own may have none.
    """

    prefill: _Usd = None
    sample: _Usd = None
    train: _Usd = None
    date: datetime.date | None = None


def of(model: str) -> Price | None:
    """The price of a model by its name on the wire (a variant, `...:peft:262144`, has a line of its own), else None.

    Raises:
        Refused: the user's own file cannot be read as one (the message names file and entry).
    """
    return (_published() | _own(machine_home() / FILE)).get(model)


def dollars(model: str, *, train_tokens: int = 0, prefill: int = 0, sample: int = 0) -> float | None:
    """What so many tokens cost in USD; None where a price that it takes is not known.

    Raises:
        Refused: as `of`.
    """
    price = of(model)
    total = 0.0
    for tokens, figure in _parts(price, train_tokens, prefill, sample):
        if figure is None:
            return None
        total += tokens / _MILLION * figure
    return total


def cost(model: str, *, train_tokens: int = 0, prefill: int = 0, sample: int = 0, local: bool = False) -> str:
    """The same in words, with the price's date: "about $0.42 (prices of 2026-10-07)". `local`: the engine does it.

    Raises:
        Refused: as `of`.
    """
    if local:
        return FREE
    price, total = of(model), dollars(model, train_tokens=train_tokens, prefill=prefill, sample=sample)
    if total is None or price is None:
        return UNKNOWN
    source = f"prices of {price.date}" if price.date else f"prices of your {FILE}"
    return f"{_usd(total)} ({source}; an estimate)"


def _parts(price: Price | None, train: int, prefill: int, sample: int) -> list[tuple[int, float | None]]:
    """The tokens that are paid for, each with its price."""
    known = price or Price()
    parts = [(train, known.train), (prefill, known.prefill), (sample, known.sample)]
    return [(tokens, figure) for tokens, figure in parts if tokens]


def _usd(total: float) -> str:
    return f"about ${total:.2f}" if total >= 0.01 else "less than $0.01"


@functools.cache
def _published() -> dict[str, Price]:
    text = importlib.resources.files("machine.tinker").joinpath(FILE).read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), dict[str, Price])


def _own(path: Path) -> dict[str, Price]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}", next_step=f"mend or remove {path}") from error
    value: Any = values(path, data, f"mend or remove {path}")
    try:
        return msgspec.convert(value or {}, dict[str, Price], strict=False)
    except msgspec.ValidationError as error:
        raise Refused(
            f"{path}: {error}",
            next_step=f"mend {path}: a line is MODEL: {{prefill: 1, sample: 2, train: 3}}",
        ) from error
