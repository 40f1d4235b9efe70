"""Pi's own projection is the oracle: random sessions, Pi's answer (in Node, from the installed package) against ours."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from machine import bootstrap
from machine.capture.projection import project, system_state
from machine.capture.session import Session
from machine.capture.trajectory import _build, _Trajectory
from machine.trace import well_formed

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

        def ask(entries, leaf, *, wire=False):
            child.stdin.write(json.dumps({"entries": entries, "leaf": leaf, "wire": wire}).encode() + b"\n")
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


# What a model server receives: turns as Pi leaves them, results in call order, call ids used again in every turn.
texts = st.text(st.characters(exclude_characters="\x00"), max_size=6) | st.sampled_from(
    ["", " \n", "\ud83d", "a\u2028"]
)
said = st.lists(st.builds(lambda t: {"type": "text", "text": t}, texts) | thinking, max_size=3)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e-5, 1e-7, 1e21, -0.0, 1.5e-7])
arguments = st.dictionaries(
    texts.filter(lambda t: not t.isdecimal()), texts | st.integers(-9, 9) | st.none() | numbers, max_size=2
)
spoken = st.builds(
    lambda c: {"role": "user", "content": c},
    texts | st.lists(st.builds(lambda t: {"type": "text", "text": t}, texts), max_size=3),
)


def reply(parts, calls, results, stop):
    """An assistant message with calls, and as many of their results as there are."""
    called = [{"type": "toolCall", "id": f"c{i}", "name": "read", "arguments": a} for i, a in enumerate(calls)]
    message = {"role": "assistant", "content": [*parts, *called], "api": "a", "provider": "p", "model": "m"}
    answers = [
        {"role": "toolResult", "toolCallId": f"c{i}", "toolName": "read", "content": content, "isError": False}
        for i, content in zip(range(len(calls)), results, strict=False)
    ]
    return [message | {"stopReason": stop}, *(answers if stop in ("toolUse", "length") else [])]


text_parts = st.lists(st.builds(lambda t: {"type": "text", "text": t}, texts), max_size=2)
replies = st.builds(
    reply, said, st.lists(arguments, max_size=2), st.lists(text_parts, max_size=2),
    st.sampled_from(["stop", "toolUse", "toolUse", "error", "aborted", "length"]),
)  # fmt: skip


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(spoken.map(lambda m: [m]) | replies | system.map(lambda m: [m]), min_size=1, max_size=8))
def test_a_rows_messages_are_what_pi_sends(oracle, runs):
    entries = session([({"type": "message", "message": m}, 1) for run in runs for m in run])
    ours = messages_of(Session("s", "/", None, entries).path())
    assert ours == [sent(m) for m in oracle(entries, entries[-1]["id"], wire=True)]


def sent(message):
    content = message["content"] or ""
    text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
    calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    return message["role"], text, calls, message.get("tool_call_id")


def messages_of(path):
    seen = project(path)
    built = _Trajectory()
    if prompt := system_state(item.message for item in seen)[0]:
        built.add({"role": "system", "content": prompt}, None)
    _build(built, seen, set())
    return [sent(message) for message in well_formed(built.messages)]
