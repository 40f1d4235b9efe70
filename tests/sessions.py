"""Builds Pi session files for tests: a small script of a session, entry by entry."""

import json
from pathlib import Path
from typing import Any

TOOL = {"name": "read", "description": "Read a file", "parameters": {"type": "object", "properties": {}}}


class Script:
    """A session as it grows; every method appends one entry under the current leaf and returns its id."""

    def __init__(self, cwd: str = "/project", prompt: str | None = "You are Pi.", tools: list[dict] | None = None):
        self.header = {
            "type": "session",
            "version": 3,
            "id": "session-1",
            "timestamp": "2026-01-01T00:00:00Z",
            "cwd": cwd,
        }
        self.entries: list[dict[str, Any]] = []
        self.leaf: str | None = None
        if prompt is not None:
            self.message(role="system", content=prompt, toolsAdded=tools or [])

    def entry(self, type: str, **fields: Any) -> str:
        id = f"{len(self.entries) + 1:08x}"
        self.entries.append(
            {"type": type, "id": id, "parentId": self.leaf, "timestamp": "2026-01-01T00:00:00Z", **fields}
        )
        self.leaf = id
        return id

    def message(self, **message: Any) -> str:
        return self.entry("message", message=message)

    def user(self, text: str) -> str:
        return self.message(role="user", content=[{"type": "text", "text": text}])

    def assistant(self, text: str = "", calls: list[tuple[str, dict]] | None = None, **fields: Any) -> str:
        parts: list[dict] = [{"type": "text", "text": text}] if text else []
        parts += [{"type": "toolCall", "id": id, "name": "read", "arguments": args} for id, args in calls or []]
        base = {
            "api": "openai-completions",
            "provider": "p",
            "model": "m",
            "stopReason": "toolUse" if calls else "stop",
        }
        return self.message(**{"role": "assistant", "content": parts, **base, **fields})

    def result(self, call: str, text: str) -> str:
        content = [{"type": "text", "text": text}]
        return self.message(role="toolResult", toolCallId=call, toolName="read", content=content, isError=False)

    def save(self, file: Path) -> Path:
        lines = [self.header, *self.entries]
        file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        return file
