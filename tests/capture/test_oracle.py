"""Pi's own projection is the oracle: random sessions, Pi's answer (in Node, from the installed package) against ours."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from machine import bootstrap
from machine.capture.entries import Call, Unread, parts_of, read_entry
from machine.capture.javascript import SPACE, stringify
from machine.capture.projection import instructions, project
from machine.capture.reader import read
from machine.capture.rows import capture
from machine.capture.session import live
from machine.capture.trajectory import build
from machine.dataset.targets import without_images
from machine.errors import Refused
from machine.trace import well_formed

PI = bootstrap.PACKAGE / "node_modules" / "@earendil-works" / "pi-coding-agent"
EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", "200"))
"""Random sessions for each test, the same in every run; `make nightly` asks for more, and for others each time."""
CHECKED = settings(
    max_examples=EXAMPLES,
    derandomize="ORACLE_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def oracle():
    node = bootstrap.tools(Path(sys.prefix)).node
    assert node is not None, "Node is missing: make setup"
    assert PI.is_dir(), "Pi is missing: make setup"
    command = [str(node), str(Path(__file__).with_name("oracle.mjs")), str(PI)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:

        def ask(entries, leaf, **how):
            child.stdin.write(json.dumps({"entries": entries, "leaf": leaf, **how}).encode() + b"\n")
            child.stdin.flush()
            return json.loads(child.stdout.readline())

        yield ask
        child.stdin.close()


texts = st.text(st.characters(exclude_characters="\x00"), max_size=8) | st.sampled_from(
    ["", " \n", "\ud83d", "a\u2028"]
)
words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
text = st.builds(lambda t: {"type": "text", "text": t}, texts)
image = st.builds(
    lambda data: {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"},
    st.binary(max_size=3),
)
heard = st.lists(text | image, max_size=3)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [1e-5, 1e-7, 1e21, -0.0, 1.5e-7, 2**53 + 1, 10**25]
)
keys = texts | st.sampled_from(["1", "0", "12", "01", "4294967294", "4294967295", "-1"])
arguments = st.dictionaries(keys, texts | st.integers(-9, 9) | st.none() | st.booleans() | numbers, max_size=3)
call = st.builds(
    lambda i, a: {"type": "toolCall", "id": f"c{i}", "name": "read", "arguments": a}, st.integers(0, 5), arguments
)
thinking = st.builds(lambda t: {"type": "thinking", "thinking": t}, words)
user = st.builds(lambda c: {"role": "user", "content": c}, texts | heard | st.none())
assistant = st.builds(
    lambda c, stop, model: {"role": "assistant", "content": c, "api": "a", "provider": "p", "model": model, "stopReason": stop},
    st.lists(text | call | thinking, max_size=3) | st.none(),
    st.sampled_from(["stop", "toolUse", "error", "aborted", "length"]),
    st.sampled_from(["m", "m", "n"]),
)  # fmt: skip
result = st.builds(
    lambda i, c: {"role": "toolResult", "toolCallId": f"c{i}", "toolName": "read", "content": c, "details": {"x": 1}, "isError": False},
    st.integers(0, 5), heard,
)  # fmt: skip
bash = st.builds(
    lambda command, output, code, cancelled, truncated, out: {
        "role": "bashExecution", "command": command, "output": output, "exitCode": code, "cancelled": cancelled,
        "truncated": truncated, "fullOutputPath": "/tmp/out", "excludeFromContext": out,
    },
    words, words, st.sampled_from([0, 1, None]), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
tool = st.builds(
    lambda name: {"name": name, "description": f"The {name}", "parameters": {"type": "object"}}, st.sampled_from("abc")
)
system = st.builds(
    lambda c, sections, added, removed: {"role": "system", "content": c, "sections": sections, "toolsAdded": added, "toolsRemoved": removed},
    texts, st.dictionaries(st.sampled_from("ab"), st.none() | words, max_size=2), st.lists(tool, max_size=2),
    st.lists(st.builds(lambda name: {"name": name}, st.sampled_from("abc")), max_size=1),
)  # fmt: skip
custom = st.builds(lambda c: {"role": "custom", "customType": "x", "content": c, "display": True}, texts | heard)
unknown = st.just({"role": "fromAnotherTime", "content": 5})
message = st.builds(
    lambda m: {"type": "message", "message": m},
    user | assistant | assistant | result | bash | system | custom | unknown,
)
other = st.one_of(
    st.builds(lambda c: {"type": "custom_message", "customType": "x", "content": c, "display": True}, texts | heard),
    st.builds(lambda s: {"type": "branch_summary", "summary": s, "fromId": "00000001"}, words),
    st.just({"type": "label", "label": "l", "targetId": "00000001"}),
    st.just({"type": "model_change", "provider": "p", "modelId": "n"}),
    st.just({"type": "custom", "customType": "x", "data": {}}),
    st.just({"type": "usage", "kind": "cache_warm", "provider": "p", "model": "m", "usage": {}}),
)
compaction = st.builds(
    lambda s, back, with_system: {"type": "compaction", "summary": s, "back": back, "tokensBefore": 1}
    | ({"systemMessage": {"role": "system", "content": "S", "timestamp": 1}} if with_system else {}),
    words, st.integers(0, 6), st.booleans(),
)  # fmt: skip
edit = st.builds(
    lambda back, to: {"type": "context_edit", "back": back, "replacement": to},
    st.integers(1, 6),
    st.none() | st.builds(lambda c: {"content": c}, texts | st.lists(text, max_size=2)),
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


def plain(message):
    return msgspec.structs.replace(message, content=[spelt(part) for part in parts_of(message.content)])


def spelt(part):
    """A call's arguments as they are sent: JavaScript reads large numbers as it can hold them."""
    return msgspec.structs.replace(part, arguments=stringify(part.arguments)) if isinstance(part, Call) else part


def theirs(messages):
    """Pi's messages in our shape, without those that no provider is sent."""
    read = [read_entry("message", {"id": "x", "message": message}).message for message in messages]
    return [plain(message) for message in read if not isinstance(message, Unread)]


@CHECKED
@given(st.lists(step, min_size=1, max_size=14))
def test_projection_is_pis_own(oracle, steps):
    entries = session(steps)
    ours = project(live("s", "/", None, entries).path())
    assert [plain(seen.message) for seen in ours] == theirs(oracle(entries, entries[-1]["id"]))


@CHECKED
@given(st.lists(step, min_size=1, max_size=14), st.sampled_from([1, 2, 3]))
def test_a_file_of_any_version_reads_as_pi_migrates_it(oracle, tmp_path, steps, version):
    entries = session(steps)
    if version == 1:
        entries = [{key: value for key, value in entry.items() if key not in ("id", "parentId")} for entry in entries]
        for number, entry in enumerate(entries):
            if entry.pop("firstKeptEntryId", None):
                entry["firstKeptEntryIndex"] = number // 2
            if entry["type"] == "context_edit":
                entries[number] = {"type": "label", "label": "l", "targetId": "x"}
    if version < 3:
        for entry in entries:
            if entry["type"] == "message" and entry["message"]["role"] == "custom":
                entry["message"]["role"] = "hookMessage"
    header = {
        "type": "session",
        "id": "s",
        "timestamp": "x",
        "cwd": "/",
        **({"version": version} if version > 1 else {}),
    }
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in [header, *entries]))
    ours = project(read(file).path())
    assert [plain(seen.message) for seen in ours] == theirs(oracle([header, *entries], None, migrate=True))


# What a model server receives: turns as Pi leaves them, results in call order, call ids used again in every turn.
said = st.lists(text | thinking, max_size=3)
# Pi drops a user's empty text after it has put words for images; between two images, a row cannot tell that it was there.
shown = heard.filter(lambda parts: all(part.get("text") != "" for part in parts))
spoken = st.builds(lambda c: {"role": "user", "content": c}, texts | shown | st.lists(text, max_size=3))


def reply(parts, calls, results, order, stop):
    """An assistant message with calls, and as many of their results as there are, in the order that they came in."""
    called = [{"type": "toolCall", "id": f"c{i}", "name": "read", "arguments": a} for i, a in enumerate(calls)]
    message = {"role": "assistant", "content": [*parts, *called], "api": "a", "provider": "p", "model": "m"}
    answers = [
        {"role": "toolResult", "toolCallId": f"c{i}", "toolName": "read", "content": content, "isError": False}
        for i, content in zip(range(len(calls)), results, strict=False)
    ]
    answers.sort(key=lambda answer: order.index(int(answer["toolCallId"][1:])))
    return [message | {"stopReason": stop}, *(answers if stop in ("toolUse", "length") else [])]


replies = st.builds(
    reply, said, st.lists(arguments, max_size=3), st.lists(heard, max_size=3), st.permutations(range(3)),
    st.sampled_from(["stop", "toolUse", "toolUse", "error", "aborted", "length"]),
)  # fmt: skip


@CHECKED
@given(st.lists(spoken.map(lambda m: [m]) | replies | system.map(lambda m: [m]), min_size=1, max_size=8))
def test_a_rows_messages_are_what_pi_sends_to_a_model_of_text(oracle, runs):
    asked = {"role": "user", "content": "And?"}
    entries = session([({"type": "message", "message": m}, 1) for run in [*runs, [asked]] for m in run])
    ours = messages_of(live("s", "/", None, entries).path())
    assert ours == in_call_order([sent(m) for m in oracle(entries, entries[-1]["id"], wire=True)])


def sent(message):
    content = message["content"] or ""
    text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
    calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    return message["role"], text, calls, message.get("tool_call_id")


def in_call_order(messages):
    """Pi sends results as they came in, then those that it makes up; a row has them in the order of the calls."""
    ordered, calls = [], []
    for message in messages:
        if message[0] == "tool":
            at = len(ordered)
            while at > 0 and ordered[at - 1][0] == "tool" and calls.index(ordered[at - 1][3]) > calls.index(message[3]):
                at -= 1
            ordered.insert(at, message)
        else:
            ordered.append(message)
            calls = [call[0] for call in message[2]]
    return ordered


def messages_of(path):
    seen = project(path)
    known = instructions(item.message for item in seen)
    built = build(known.prompt if known else "", seen, set())
    return [sent(without_images(message)) for message in well_formed(built.messages)]


# A turn in which anything may happen: compactions, edits and new prompts between its steps.
def entries_of(messages):
    return [{"type": "message", "message": message} for message in messages]


asked = spoken.map(lambda m: entries_of([m]))
whole = st.integers(1, 3).flatmap(
    lambda n: st.builds(
        reply, said, st.lists(arguments, min_size=n, max_size=n), st.lists(heard, min_size=n, max_size=n),
        st.permutations(range(3)), st.just("toolUse"),
    )
).map(entries_of)  # fmt: skip
failed = st.sampled_from(["error", "aborted"]).map(lambda stop: entries_of(reply([], [], [], [], stop)))
final = st.builds(lambda t: entries_of(reply([{"type": "text", "text": f"A{t}"}], [], [], [], "stop")), texts)
between = (
    st.builds(
        lambda s, back, text: {"type": "compaction", "summary": s, "back": back, "tokensBefore": 1}
        | ({"systemMessage": {"role": "system", "content": text, "timestamp": 1}}),
        words, st.integers(0, 9), words,
    )
    | edit
    | system.map(lambda m: {"type": "message", "message": m})
    | st.builds(lambda c: {"type": "custom_message", "customType": "x", "content": c, "display": True}, texts)
    | bash.map(lambda m: {"type": "message", "message": m})
).map(lambda entry: [entry])  # fmt: skip


def runs(steps, **size):
    return st.lists(steps, **size).map(lambda groups: [entry for group in groups for entry in group])


turns = st.builds(
    lambda prompt, *groups: [prompt, *(entry for group in groups for entry in group)],
    words.map(lambda c: {"type": "message", "message": {"role": "system", "content": c}}),
    runs(asked | whole | final | between | replies.map(entries_of), max_size=3),
    asked,
    runs(whole | whole | between | failed | asked, min_size=1, max_size=6),
    final,
    runs(between, max_size=1),
)


@CHECKED
@given(turns)
def test_every_target_has_the_context_of_its_own_request(oracle, drafts):
    entries = session([(draft, 1) for draft in drafts])
    held = live("s", "/", None, entries)
    try:
        captured = capture(held, tag="good")
    except Refused as refusal:
        event(f"refused: {refusal.message.split('(')[0][:40]}")
        return
    event(f"{len(captured.rows)} rows")
    by_id = {entry["id"]: entry for entry in entries}
    learnt = []
    for row in captured.rows:
        for target in row.target:
            entry = by_id[row.source.messages[target]]
            learnt.append(entry["id"])
            request = oracle(entries, entry["parentId"], wire=True)
            assert [sent(without_images(m)) for m in row.messages[:target]] == in_call_order(without_orphans(request))
            [answer] = oracle([{**entry, "parentId": None}], entry["id"], wire=True)[:1]
            assert sent(row.messages[target]) == sent(answer)
    assert learnt == [entry["id"] for entry in entries if fit(entry, captured.rows[0].source.entries, entries)]


def without_orphans(messages):
    kept, open_calls = [], []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                continue
            open_calls.remove(message["tool_call_id"])
        elif message["role"] == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
        kept.append(sent(message))
    return kept


def fit(entry, turn, entries):
    if entry["id"] not in turn or entry["type"] != "message" or entry["message"]["role"] != "assistant":
        return False
    omitted = any(e["type"] == "context_edit" and e["targetId"] == entry["id"] and e["replacement"] is None
                  for e in entries if e["id"] <= turn[-1])  # fmt: skip
    parts = entry["message"]["content"]
    said = any(p["type"] == "toolCall" or (p["type"] == "text" and well_formed(p["text"].strip(SPACE))) for p in parts)
    return not omitted and said and entry["message"]["stopReason"] in ("stop", "toolUse")
