"""Events: what Pi's event stream says of an attempt: answers, calls, tokens, and how it came to its end."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

NAMELESS = "(not one of Pi's)"
"""Under which calls of tools that Pi does not have are counted: a model may make up any number of names."""


@dataclass
class Heard:
    """What was heard of one run of Pi.

    `turns` are the model's answers, whole or cut short, without those that failed on the way; `calls` its tool calls,
    of which `invalid` could not run: their arguments did not parse, did not fit the tool's schema or were cut off, or
    no tool has the name. `tools` counts calls by tool. Tokens are as the service counts them. `error` is what Pi says
    that its last request failed with, empty where that one went well; `stop` is why the last answer ended. `settled`:
    Pi came to an end of its own.
    """

    turns: int = 0
    calls: int = 0
    invalid: int = 0
    tools: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    error: str = ""
    stop: str = ""
    settled: bool = False


def heard(stream: bytes) -> Heard:
    """Reads Pi's events, one JSON object a line; one that is none (the last may be cut) or too deep is passed over."""
    found, known, called = Heard(), set[str](), Counter[str]()
    for event in _events(stream):
        message = _mapping(event.get("message"))
        match event.get("type"), message.get("role"):
            case "agent_settled", _:
                found.settled = True
            case "message_end", "system":
                known |= {str(_mapping(tool).get("name")) for tool in _listed(message.get("toolsAdded"))}
            case "message_end", "assistant":
                called.update(_answer(found, message))
            case "message_end", "toolResult":
                # only a tool that ran has a duration
                found.invalid += message.get("isError") is True and "durationMs" not in message
    for name, count in called.items():
        kind = name if name in known else NAMELESS
        found.tools[kind] = found.tools.get(kind, 0) + count
    return found


def _answer(found: Heard, message: dict[str, Any]) -> list[str]:
    """Counts one message of the assistant; returns the tools that it calls."""
    found.stop = str(message.get("stopReason", ""))
    found.error = str(message.get("errorMessage", "")) if found.stop == "error" else ""
    if found.stop in ("error", "aborted"):
        return []
    usage = _mapping(message.get("usage"))
    read = ("input", "cacheRead", "cacheWrite")
    found.turns += 1
    found.prompt_tokens += sum(_count(usage.get(name)) for name in read)
    found.completion_tokens += _count(usage.get("output"))
    parts = map(_mapping, _listed(message.get("content")))
    calls = [str(part.get("name", "")) for part in parts if part.get("type") == "toolCall"]
    found.calls += len(calls)
    return calls


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    for line in stream.split(b"\n"):
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
