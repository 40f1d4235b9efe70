"""Pi session files of any size, for the benches: code of Python's own library as prompts, tool results and answers."""

import json
import random
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def source() -> str:
    """Some megabytes of real code."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:80]
    return "".join(file.read_text(encoding="utf-8", errors="ignore") for file in files)


def write(file: Path, entries: Iterator[Entry], until: Callable[[int, int], bool], cwd: Path) -> int:
    """Writes a straight line of entries until `until(count, bytes)`, and returns how many there are."""
    header = {
        "type": "session",
        "version": 3,
        "id": file.stem,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": str(cwd),
    }
    parent, count = None, 0
    with file.open("wb") as out:
        size = out.write(json.dumps(header).encode() + b"\n")
        for entry in entries:
            place = {"id": f"{count + 1:08x}", "parentId": parent, "timestamp": "2026-01-01T00:00:00.000Z"}
            line = json.dumps({"type": entry["type"], **place, **entry}, ensure_ascii=False, separators=(",", ":"))
            size += out.write(line.encode() + b"\n")
            parent, count = place["id"], count + 1
            if until(count, size) and _ends_a_turn(entry):
                return count
    return count


def talk(text: str, *, steps: int, characters: int, compact_every: int = 0, large: int = 0) -> Iterator[Entry]:
    """Turns without end: a question, so many tool calls with results of so many characters, an answer.

    Results carry `details` as long as they are. `compact_every` turns, a compaction keeps the last turn; every 50th
    result has `large` bytes of details, as a subagent's transcript has.
    """
    draw = random.Random(1)
    system = {"role": "system", "content": "You are Pi.", "toolsAdded": [], "timestamp": 1}
    yield _message(system)
    turn, results, entry = 0, 0, 1
    while True:
        turn += 1
        began = entry + 1
        at = draw.randrange(len(text) - characters)
        yield _message({"role": "user", "content": [{"type": "text", "text": text[at : at + 300]}], "timestamp": 1})
        for step in range(steps):
            call = {"type": "toolCall", "id": f"call_{turn}_{step}", "name": "read", "arguments": {"path": f"{at}.py"}}
            thinking = {"type": "thinking", "thinking": text[at : at + 1000], "thinkingSignature": "x" * 800}
            yield _answer([thinking, {"type": "text", "text": text[at : at + 200]}, call], "toolUse")
            results += 1
            details = "d" * large if large and results % 50 == 0 else text[at : at + characters]
            content = [{"type": "text", "text": text[at : at + characters]}]
            result = {"role": "toolResult", "toolCallId": call["id"], "toolName": "read", "content": content}
            yield _message({**result, "details": {"transcript": details}, "isError": False, "timestamp": 1})
        if compact_every and turn % compact_every == 0:
            kept = {"firstKeptEntryId": f"{began:08x}", "tokensBefore": 1, "systemMessage": system}
            yield {"type": "compaction", "summary": text[at : at + 3000], **kept}
            entry += 1
        yield _answer([{"type": "text", "text": text[at : at + 800]}], "stop")
        entry += 2 + 2 * steps


def _message(message: Entry) -> Entry:
    return {"type": "message", "message": message}


def _answer(content: list[Entry], stop: str) -> Entry:
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    model = {"api": "openai-completions", "provider": "scripted", "model": "scripted-1"}
    message = {"role": "assistant", "content": content, **model, "usage": {**usage, "cost": cost}, "stopReason": stop}
    return _message({**message, "timestamp": 1})


def _ends_a_turn(entry: Entry) -> bool:
    return bool(entry["type"] == "message" and entry["message"].get("stopReason") == "stop")
