"""Case: one question of a suite, and the scorer that judges what is answered.

exact, contains   `value` is the text, without it the case's `expected`
regex             `value` is a pattern of Python's `re`, which may match anywhere unless it is anchored
json_schema       `value` is a schema; the answer is JSON, bare or alone in one fence
tool_call         `value` is a call {"name", "arguments"} or a list of them, without it the case's `expected_calls`
python            `value` is `FILE.py:FUNCTION`; FILE lies in the store's `evals/`: a suite runs no other
judge             `value` is a rubric, by which `model` (default: the service's default model) judges the answer
"""

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from machine.dataset.targets import text_of
from machine.errors import MissingDependency, Refused, UsageError

Kind = Literal["exact", "contains", "regex", "json_schema", "tool_call", "python", "judge"]

FORMS = "exact, contains, regex:PATTERN, json_schema:FILE, tool_call, python:FILE:FUNCTION or judge:RUBRIC"
"""How a scorer is named on the command line."""


class Scorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How an answer is judged; the module's head says what `value` is for each kind. `model` is a judge's."""

    kind: Kind
    value: str | dict[str, Any] | list[Any] | None = None
    model: str | None = None


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call that is wanted; `arguments` are parsed JSON."""

    name: str
    arguments: dict[str, Any] = {}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A question: `messages` and `tools` as a row has them, ending before the answer; what is expected, where known.

    `weight` is what the case counts in a weighted pass rate.
    """

    id: Annotated[str, msgspec.Meta(min_length=1)]
    messages: tuple[dict[str, Any], ...]
    scorer: Scorer
    expected: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    expected_calls: tuple[Call, ...] = ()
    weight: Annotated[float, msgspec.Meta(ge=1e-6, le=1e6)] = 1.0
    tags: tuple[str, ...] = ()

    @property
    def question(self) -> str:
        """The last user text; empty where there is none."""
        return next((text_of(m) for m in reversed(self.messages) if m.get("role") == "user"), "")

    @property
    def wanted_text(self) -> str:
        """The text that an exact or contains scorer looks for."""
        value = self.scorer.value
        return value if isinstance(value, str) else self.expected or ""

    @property
    def wanted_calls(self) -> tuple[Call, ...]:
        """The calls that a tool_call scorer looks for, in order."""
        value = self.scorer.value
        if value is None:
            return self.expected_calls
        return msgspec.convert(value if isinstance(value, list) else [value], tuple[Call, ...])


def parse_scorer(text: str, evals: Path) -> Scorer:
    """A scorer as the command line names it (`FORMS`; `exact:TEXT` and `contains:TEXT` too).

    Args:
        text: the word. A schema is read from its file now; a function stays in its file.
        evals: the store's folder that holds the suite.

    Raises:
        UsageError: another word, or a pattern, schema or function that cannot be used.
    """
    kind, _, value = text.partition(":")
    try:
        scorer = msgspec.convert({"kind": kind, "value": value or None}, Scorer)
    except msgspec.ValidationError as error:
        raise UsageError(f"no scorer is called {kind!r}", next_step=f"use {FORMS}") from error
    if kind == "json_schema" and value:
        scorer = Scorer("json_schema", _schema_of(Path(value)))
    case = Case("given", (), scorer, "given", expected_calls=(Call("given"),))
    if fault := scorer_fault(case, evals):
        raise UsageError(fault, next_step=f"use {FORMS}")
    return scorer


def function_of(value: str, evals: Path) -> tuple[Path, str]:
    """The file and the name of the function that a python scorer's value names.

    Raises:
        Refused: the value is of another form, or the file lies outside `evals`, by its name or by a link.
    """
    file, _, name = value.rpartition(":")
    if not file or not name.isidentifier() or "\0" in file:
        raise Refused(f"a python scorer needs FILE.py:FUNCTION in value, not {value!r}", next_step=_MEND)
    path = evals / file
    if not path.resolve().is_relative_to(evals.resolve()):
        raise Refused(f"{file} lies outside {evals}", next_step="copy it there, and name it without its folder")
    return path, name


def scorer_fault(case: Case, evals: Path) -> str:
    """What is wrong with the scorer of a case, in words; empty where it can be used. No function is run."""
    scorer = case.scorer
    if scorer.model is not None and scorer.kind != "judge":
        return f"a model is named, but the scorer is {scorer.kind}"
    match scorer.kind:
        case "exact" | "contains":
            return _text_fault(scorer, case.expected)
        case "regex":
            return _pattern_fault(scorer.value)
        case "json_schema":
            return _schema_fault(scorer.value)
        case "tool_call":
            return _calls_fault(case)
        case "python":
            return _function_fault(scorer.value, evals)
        case "judge":
            rubric = isinstance(scorer.value, str) and scorer.value.strip()
            return "" if rubric else "a judge needs its rubric in value"


def messages_fault(case: Case) -> str:
    """What is wrong with the messages and tools of a case, in words; empty where they can be asked."""
    if not case.messages or case.messages[-1].get("role") not in ("user", "tool"):
        return f"case {case.id!r} does not end with a user message or a tool result"
    for number, message in enumerate(case.messages, 1):
        if fault := _message_fault(message):
            return f"case {case.id!r}: message {number} {fault}"
    for number, tool in enumerate(case.tools, 1):
        if not isinstance(tool.get("name"), str) or not isinstance(tool.get("parameters", {}), dict):
            return f"case {case.id!r}: tool {number} is not {{name, description, parameters}}"
    return ""


def _message_fault(message: dict[str, Any]) -> str:
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "user", "assistant", "tool"):
        return f"has the role {role!r:.40}; a role is system, user, assistant or tool"
    if content is None:
        return "" if role == "assistant" else "has no content"
    parts = [{"type": "text", "text": content}] if not isinstance(content, list) else content
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            return "has a part of its content without a type"
        if part["type"] == "text" and not isinstance(part.get("text"), str):
            return "has a content that is not a text"
    return ""


def _text_fault(scorer: Scorer, expected: str | None) -> str:
    if scorer.value is None and expected is None:
        return f"nothing to compare with: neither expected nor a value for the {scorer.kind} scorer"
    return "" if isinstance(scorer.value, str | None) else f"the value of the {scorer.kind} scorer is not a text"


def _pattern_fault(value: object) -> str:
    if not isinstance(value, str):
        return "a regex scorer needs its pattern in value"
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        return f"the pattern {value!r:.80} does not compile: {error}"
    return ""


def _schema_fault(value: object) -> str:
    if not isinstance(value, dict):
        return "a json_schema scorer needs its schema in value (--scorer json_schema:FILE reads one)"
    try:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
    except ImportError as error:
        raise MissingDependency(f"jsonschema cannot be imported ({error})", next_step="machine setup") from error
    try:
        validator_for(value).check_schema(value)
    except SchemaError as error:
        return f"the schema is not valid: {error.message} (at {error.json_path})"
    except (TypeError, AttributeError, ValueError, RecursionError) as error:  # a $schema that is no text, say
        return f"the schema is not valid: {type(error).__name__}: {error}"
    return ""


def _calls_fault(case: Case) -> str:
    try:
        calls = case.wanted_calls
    except msgspec.ValidationError as error:
        return f"the value of the tool_call scorer is not calls of name and arguments: {error}"
    return "" if calls else "nothing to compare with: neither expected_calls nor a value for the tool_call scorer"


def _function_fault(value: object, evals: Path) -> str:
    if not isinstance(value, str):
        return "a python scorer needs FILE.py:FUNCTION in value"
    try:
        path, name = function_of(value, evals)
        tree = ast.parse(path.read_bytes(), str(path))
    except Refused as error:
        return error.message
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"{path} is not Python: {error or type(error).__name__}"
    if any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body):
        return ""
    return f"{path} has no function {name}"


def _schema_of(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", next_step="give the path of a JSON schema") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{path} is not a JSON schema: {error}", next_step=f"mend {path}") from error


def used_functions(cases: Sequence[Case]) -> list[str]:
    """The files of the python scorers, as the suite spells them, each once."""
    values = [case.scorer.value for case in cases if case.scorer.kind == "python"]
    return sorted({value.rpartition(":")[0] for value in values if isinstance(value, str)})


def named(ids: Sequence[str]) -> str:
    """The first ids, and how many more there are, in words."""
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(ids[:_NAMED]) + more


_NAMED = 5
_MEND = "write FILE.py:FUNCTION"
