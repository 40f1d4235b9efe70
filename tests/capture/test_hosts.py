"""The seam for another host, as docs/hosts.md tells it: a reader of a made-up format, and nothing else changed."""

import json
from pathlib import Path

from machine.capture.rows import Recorder, capture
from machine.capture.session import Head, Session


def read_other(file: Path) -> Session:
    """A host that writes {uuid, parentUuid, who, say, use?, result?} lines, and its prompt first."""
    lines = {record["uuid"]: record for record in map(json.loads, file.read_text().splitlines())}
    heads = {
        uuid: Head(uuid, "message", record["parentUuid"], number, 0, 0)
        for number, (uuid, record) in enumerate(lines.items(), start=1)
    }
    return Session("other-1", str(file.parent), file, heads, lambda wanted: ((h, entry(lines[h.id])) for h in wanted))


def entry(record):
    match record["who"]:
        case "prompt":
            message = {"role": "system", "content": record["say"], "toolsAdded": record["tools"]}
        case "human":
            message = {"role": "user", "content": record["say"]}
        case "tool":
            message = {"role": "toolResult", "toolCallId": record["result"], "content": record["say"]}
        case "model":
            calls = [{"type": "toolCall", **call} for call in record.get("use", [])]
            message = {
                "role": "assistant",
                "content": [{"type": "text", "text": record["say"]}, *calls],
                "provider": "other",
                "model": "m-1",
                "stopReason": "toolUse" if calls else "stop",
            }
    return {"id": record["uuid"], "message": message}


def test_a_session_of_another_host_becomes_a_row(tmp_path):
    tool = {"name": "ls", "description": "List", "parameters": {"type": "object"}}
    said = [
        {"who": "prompt", "say": "You are Other.", "tools": [tool]},
        {"who": "human", "say": "What is here?"},
        {"who": "model", "say": "", "use": [{"id": "u1", "name": "ls", "arguments": {"path": "."}}]},
        {"who": "tool", "say": "a.py", "result": "u1"},
        {"who": "model", "say": "One file."},
    ]
    file = tmp_path / "other.jsonl"
    parents = [None, *range(len(said) - 1)]
    file.write_text("".join(json.dumps({"uuid": f"e{i}", "parentUuid": None if p is None else f"e{p}", **record}) + "\n"
                            for i, (p, record) in enumerate(zip(parents, said, strict=True))))  # fmt: skip
    [row] = capture(read_other(file), tag="good", recorder=Recorder("other", "2.0")).rows
    assert [m["role"] for m in row.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert (row.target, row.tools) == ((2, 4), (tool,))
    assert (row.source.host, row.source.host_version, row.source.entries) == ("other", "2.0", ("e1", "e2", "e3", "e4"))
    assert row.source.models[2] == "other/m-1"
