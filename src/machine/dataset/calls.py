"""Calls: is what a target calls a call that its tools would take?

The schemas are of whoever wrote the session: none may make this process ask the network or read a file, or keep it
busy. References lead within the schema alone, its steps are counted, and what can take for ever is not tried.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from machine.dataset.targets import Target

if TYPE_CHECKING:
    from jsonschema import ValidationError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names of tools that OpenAI-compatible services take."""
_STEPS = 20_000
"""So many keywords of a schema are looked at for one call: a few lines of references can branch without end."""
_PARTS = 3_000
"""Objects and entries that a schema may have: whether it is one takes milliseconds for each."""
_UNTRIED = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems", "uniqueItems")
"""Single steps that can take for ever on what a model wrote: patterns, what tries them, and comparing all with all."""


def faults(target: Target) -> Iterator[str]:
    """Arguments that are no JSON object, and calls to tools that the model was not given."""
    schemas = _schemas(target.tools)
    for name, arguments in _functions(target):
        try:
            parsed = json.loads(arguments or "")
        except (TypeError, ValueError, RecursionError):
            yield f"{target.id}: the arguments of its call to {name} are not JSON"
            continue
        if not isinstance(parsed, dict):
            yield f"{target.id}: the arguments of its call to {name} are not a JSON object"
        if schemas and name not in schemas:
            yield f"{target.id}: it calls {name}, which is not among the tools that the model was given"


def notes(target: Target) -> Iterator[str]:
    """Calls that no schema stands for, or that their schema refuses, and names that a service may refuse."""
    schemas = _schemas(target.tools)
    for name, arguments in _functions(target):
        if not schemas:
            yield f"{target.id}: it calls {name}, and no tool schema stands in the row: its prompt names no tools"
        elif (why := _against_schema(schemas.get(name), arguments)) is not None:
            yield f"{target.id}: its call to {name} does not fit the tool's schema ({why})"
        if not _NAME.fullmatch(str(name)):
            yield f"{target.id}: services may refuse the tool name {name!r} (letters, digits, _ and -, at most 64)"


def _functions(target: Target) -> list[tuple[Any, Any]]:
    functions = [call.get("function") or {} for call in target.answer.get("tool_calls") or ()]
    return [(function.get("name"), function.get("arguments")) for function in functions]


def _schemas(tools: Sequence[Mapping[str, Any]]) -> dict[Any, Any]:
    functions = [tool.get("function", tool) for tool in tools]
    return {function.get("name"): function.get("parameters") for function in functions}


def _against_schema(schema: Any, arguments: Any) -> str | None:
    """Why the arguments do not fit, in a few words without their values; None where they do or nothing is known."""
    try:
        parsed = json.loads(arguments)
        validator = _validator(json.dumps(schema)) if isinstance(schema, dict) and isinstance(parsed, dict) else None
    except (TypeError, ValueError, RecursionError):
        return None
    error = validator.first(parsed) if validator else None
    return None if error is None else f"{error.json_path}: {error.validator}"


class _Spent(Exception):
    """A schema takes more steps than are made."""


class _Schema:
    """A schema that is one. `left` steps are still made."""

    def __init__(self, schema: dict[str, Any]) -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import extend
        from referencing import Registry

        known = Draft202012Validator.VALIDATORS
        kind = extend(Draft202012Validator, {name: self._step(name, check) for name, check in known.items()})  # type: ignore[no-untyped-call]
        self.left = 0
        self._validator = kind(schema, registry=Registry())  # which retrieves nothing

    def first(self, value: Any) -> "ValidationError | None":
        """The first thing that does not fit; None where all does, or where that cannot be told."""
        from referencing.exceptions import Unresolvable

        self.left = _STEPS
        try:
            return next(iter(self._validator.iter_errors(value)), None)
        except (Unresolvable, _Spent, RecursionError, ArithmeticError):
            return None

    def _step(self, name: str, check: Any) -> Any:
        def step(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise _Spent
            if name in _UNTRIED or (name == "additionalProperties" and "patternProperties" in schema):
                return ()
            return check(validator, value, instance, schema)

        return step


def _read(schema: str) -> Any:
    """A schema without the names of other drafts, whose own validators a part of it could choose."""
    return json.loads(schema, object_hook=lambda part: {key: each for key, each in part.items() if key != "$schema"})


@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> _Schema | None:
    """The validator of a schema (JSON text), None where it is none, or a very large one."""
    from jsonschema import Draft202012Validator, SchemaError

    if schema.count("{") + schema.count(",") > _PARTS:
        return None
    try:
        Draft202012Validator.check_schema(_read(schema))
    except (SchemaError, RecursionError):
        return None
    return _Schema(_read(schema))
