"""JavaScript: what Pi's language does to text on its way to a model, where Python would do it otherwise."""

import json
import re
from decimal import Decimal
from typing import Any

SPACE = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""What `trim` takes for space: Pi does not send text of nothing else."""
_LONE = re.compile("[\ud800-\udfff]")


def stringify(value: Any) -> str:
    """A JSON value as `JSON.stringify` spells it: no spaces, lone surrogates escaped, numbers in JavaScript's form."""
    match value:
        case dict():
            return "{" + ",".join(f"{stringify(key)}:{stringify(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(stringify, value)) + "]"
        case float():
            return _number(value)
        case _:
            text = json.dumps(value, ensure_ascii=False)
            return _LONE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text)


def _number(value: float) -> str:
    """Both languages write the shortest digits that read back; they differ in when and how to write an exponent."""
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        text = f"{Decimal(repr(value)):f}"
        return text.removesuffix(".0") if value else "0"
    return re.sub(r"(?:\.0)?e([+-])0*", r"e\1", repr(value))
