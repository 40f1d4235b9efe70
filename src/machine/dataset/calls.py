"""Calls: is what a target calls a call that its tools would take?"""

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from machine.dataset.targets import Target

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names of tools that OpenAI-compatible services take."""


def faults(target: Target) -> Iterator[str]:
    """Arguments that are no JSON object, and calls to tools that the model was not given."""
    schemas = _schemas(target.tools)
    for name, arguments in _functions(target):
        try:
            parsed = json.loads(arguments or "")
        except (TypeError, ValueError):
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
    except (TypeError, ValueError):
        return None
    validator = _validator(json.dumps(schema)) if isinstance(schema, dict) and isinstance(parsed, dict) else None
    error = next(iter(validator.iter_errors(parsed)), None) if validator else None
    return None if error is None else f"{error.json_path}: {error.validator}"


@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> "Validator | None":
    """The validator of a schema (JSON text), None where it is none."""
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError:
        return None
    return Draft202012Validator(json.loads(schema))
