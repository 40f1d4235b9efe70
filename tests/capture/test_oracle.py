"""Pi's own projection is the oracle: random sessions, Pi's answer (in Node, from the installed package) against ours."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from machine import bootstrap
from machine.capture.projection import project
from machine.capture.session import Session

PI = bootstrap.PACKAGE / "node_modules" / "@earendil-works" / "pi-coding-agent"
COMPARED = (
    "role",
    "content",
    "toolCallId",
    "toolName",
    "isError",
    "stopReason",
    "provider",
    "model",
    "sections",
    "toolsAdded",
)


@pytest.fixture(scope="module")
def oracle():
    node = bootstrap.tools(Path(sys.prefix)).node
    assert node is not None, "Node is missing: make setup"
    assert PI.is_dir(), "Pi is missing: make setup"
    command = [str(node), str(Path(__file__).with_name("oracle.mjs")), str(PI)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:

        def ask(entries, leaf):
            child.stdin.write(json.dumps({"entries": entries, "leaf": leaf}).encode() + b"\n")
            child.stdin.flush()
            return json.loads(child.stdout.readline())

        yield ask
        child.stdin.close()


words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
parts = st.lists(st.builds(lambda t: {"type": "text", "text": t}, words), max_size=2)
image = st.just({"type": "image", "data": "QUJD", "mimeType": "image/png"})
call = st.builds(
    lambda i: {"type": "toolCall", "id": f"c{i}", "name": "read", "arguments": {"n": i}}, st.integers(0, 5)
)
thinking = st.builds(lambda t: {"type": "thinking", "thinking": t}, words)
user = st.builds(
    lambda c: {"role": "user", "content": c},
    words | st.lists(st.builds(lambda t: {"type": "text", "text": t}, words) | image, max_size=2),
)
assistant = st.builds(
    lambda c, stop: {"role": "assistant", "content": c, "api": "a", "provider": "p", "model": "m", "stopReason": stop},
    st.lists(st.builds(lambda t: {"type": "text", "text": t}, words) | call | thinking, max_size=3),
    st.sampled_from(["stop", "toolUse", "error", "aborted", "length"]),
)
result = st.builds(
    lambda i, c: {"role": "toolResult", "toolCallId": f"c{i}", "toolName": "read", "content": c, "isError": False},
    st.integers(0, 5),
    parts,
)
bash = st.builds(
    lambda command, output, code, cancelled, truncated, out: {
        "role": "bashExecution", "command": command, "output": output, "exitCode": code, "cancelled": cancelled,
        "truncated": truncated, "fullOutputPath": "/tmp/out", "excludeFromContext": out,
    },
    words, words, st.sampled_from([0, 1, None]), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
system = st.builds(
    lambda c, name, text: {"role": "system", "content": c, "sections": {name: text}, "toolsAdded": [{"name": name, "description": "", "parameters": {}}]},
    words, st.sampled_from("ab"), st.none() | words,
)  # fmt: skip
message = st.builds(lambda m: {"type": "message", "message": m}, user | assistant | result | bash | system)
other = st.one_of(
    st.builds(lambda c: {"type": "custom_message", "customType": "x", "content": c, "display": True}, words | parts),
    st.builds(lambda s: {"type": "branch_summary", "summary": s, "fromId": "00000001"}, words),
    st.just({"type": "label", "label": "l", "targetId": "00000001"}),
    st.just({"type": "model_change", "provider": "p", "modelId": "n"}),
    st.just({"type": "custom", "customType": "x", "data": {}}),
)
compaction = st.builds(
    lambda s, back, with_system: {"type": "compaction", "summary": s, "back": back, "tokensBefore": 1}
    | ({"systemMessage": {"role": "system", "content": "S", "timestamp": 1}} if with_system else {}),
    words, st.integers(0, 6), st.booleans(),
)  # fmt: skip
edit = st.builds(
    lambda back, to: {"type": "context_edit", "back": back, "replacement": to},
    st.integers(1, 6),
    st.none() | st.builds(lambda c: {"content": c}, words | parts),
)
# an entry, and how many entries back its parent is (1: a straight line)
step = st.tuples(st.one_of(message, message, message, other, compaction, edit), st.sampled_from([1, 1, 1, 1, 1, 2, 3]))


def session(steps):
    entries = []
    for number, (draft, back) in enumerate(steps, start=1):
        entry = {"id": f"{number:08x}", "timestamp": "2026-01-01T00:00:00.000Z", **draft}
        parent = max(0, number - back)
        entry["parentId"] = f"{parent:08x}" if parent else None
        if entry["type"] == "message":
            entry["message"] = {"timestamp": 1, **entry["message"]}
        if "back" in entry:
            target = f"{max(1, number - entry.pop('back')):08x}"
            entry["firstKeptEntryId" if entry["type"] == "compaction" else "targetId"] = target
        entries.append(entry)
    return entries


def plain(messages):
    out = []
    for m in messages:
        kept = {key: m[key] for key in COMPARED if m.get(key) is not None}
        if isinstance(kept.get("content"), str):
            kept["content"] = [{"type": "text", "text": kept["content"]}]
        out.append(kept)
    return out


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(step, min_size=1, max_size=14))
def test_projection_is_pis_own(oracle, steps):
    entries = session(steps)
    leaf = entries[-1]["id"]
    ours = [seen.message for seen in project(Session("s", "/", None, entries).path(leaf))]
    assert plain(ours) == plain(oracle(entries, leaf))
