"""JavaScript: what Pi's language does to text on its way to a model, where Python would do it otherwise."""

import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec

SPACE = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""What `trim` takes for space: Pi does not send text of nothing else."""
_LONE = re.compile("[\ud800-\udfff]")
_EXACT = 2**53
_INDICES = 2**32 - 1
_INDEX = re.compile("0|[1-9][0-9]{0,9}", re.ASCII)


def stringify(value: Any) -> str:
    """A JSON value as `JSON.stringify` spells it after `JSON.parse` has read it.

    No spaces, lone surrogates escaped, numbers as JavaScript's doubles, keys that are array indices first.
    """
    match value:
        case dict() if _is_plain(value):
            return msgspec.json.encode(value).decode()
        case dict():
            return "{" + ",".join(f"{stringify(key)}:{stringify(value[key])}" for key in _ordered(value)) + "}"
        case list():
            return "[" + ",".join(map(stringify, value)) + "]"
        case bool() | None:
            return json.dumps(value)
        case int() if abs(value) <= _EXACT:
            return str(value)
        case int() | float():
            return _number(_double(value))
        case _:
            text = json.dumps(value, ensure_ascii=False)
            return _LONE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text)


def _is_plain(value: dict[str, Any]) -> bool:
    """Whether both languages spell an object the same: text all over, no array index for a key, no lone surrogate."""
    texts = [*value, *value.values()]
    return all(isinstance(text, str) and text.isascii() for text in texts) and not any(map(_INDEX.fullmatch, value))


def _ordered(keys: Iterable[str]) -> list[str]:
    """Keys in the order of a JavaScript object: array indices, ascending, then the others as they came."""
    return sorted(keys, key=lambda key: int(key) if _INDEX.fullmatch(key) and int(key) < _INDICES else _INDICES)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _number(value: float) -> str:
    """Both languages write the shortest digits that read back; they differ in when and how to write an exponent."""
    if not math.isfinite(value):
        return "null"
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        text = f"{Decimal(repr(value)):f}"
        return text.removesuffix(".0") if value else "0"
    return re.sub(r"(?:\.0)?e([+-])0*", r"e\1", repr(value))
