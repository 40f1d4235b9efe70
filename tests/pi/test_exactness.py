"""What the row says the model saw is what the model server received, request by request, from the real Pi."""

import json

from machine.capture.entries import Assistant, Message
from machine.capture.projection import instructions, project
from machine.capture.reader import read
from machine.capture.trajectory import build
from machine.dataset.targets import without_images
from pi.harness import Pi


def received(request):
    """A request of Pi's as the messages of a row: text content, calls with parsed arguments."""
    return [plain(message) for message in request["messages"]]


def plain(message):
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(p["text"] for p in content if p["type"] == "text")
    calls = [
        (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
        for c in message.get("tool_calls") or []
    ]
    return message["role"], text, calls, message.get("tool_call_id")


def tools(schemas):
    return [(tool["name"], tool["description"], json.dumps(tool["parameters"], sort_keys=True)) for tool in schemas]


def test_every_target_has_the_context_of_its_own_request(world, server):
    server.requests.clear()
    with Pi(world) as pi:
        pi.prompt("hello \u2028 \U0001f600")
        pi.prompt("run: echo one && echo two")
        pi.prompt("/good")
    [row] = world.rows()
    *_, first, last = server.requests
    call, answer = row["target"]
    assert [plain(m) for m in row["messages"][:call]] == received(first)
    assert [plain(m) for m in row["messages"][:answer]] == received(last)
    assert tools(row["tools"]) == tools([tool["function"] for tool in last["tools"]])
    assert row["messages"][answer]["content"].startswith("The tool said: ")


def test_every_request_of_a_lively_session_is_rebuilt_from_its_file(world, server):
    settings = world.agent / "settings.json"
    compaction = {"enabled": True, "reserveTokens": 4000, "keepRecentTokens": 50}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "compaction": compaction}))
    server.requests.clear()
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    with Pi(world) as pi:
        pi.prompt("the first question, with enough words to be summarised: " + "lorem ipsum " * 80)
        pi.prompt("fail once: capital of Italy?")
        pi.request("bash", command="echo from the user")
        pi.request("prompt", message="what is this?", images=[picture])
        pi.wait(lambda r: r["type"] == "agent_settled", start=len(pi.records) - 2)
        pi.prompt("run: sleep 0.2; echo slow && echo quick")
        pi.send("prompt", message="run: sleep 1; echo steered")
        pi.wait(lambda r: r["type"] == "tool_execution_start" and "steered" in json.dumps(r))
        pi.request("steer", message="and keep it short")
        pi.wait(lambda r: r["type"] == "agent_settled", start=len(pi.records) - 2)
        pi.prompt("/good steered")
        pi.prompt("run: crowd echo one")
        pi.prompt("/good compacted within")
        pi.request("compact", timeout=30)
        pi.prompt("and after?")
        [file] = world.agent.rglob("sessions/*/*.jsonl")
    asked = [r for r in server.requests if "summarization" not in json.dumps(r["messages"][0])]
    session = read(file)
    answers = [at for at, entry in enumerate(session.path()) if isinstance(entry, Message) and spoke(entry)]
    assert len(answers) == len(asked)
    for at, request in zip(answers, asked, strict=True):
        assert rebuilt(session.path()[:at]) == received(request)
    steered, before, after = world.rows()
    assert [m["content"] for m in steered["messages"] if m["role"] == "user"][-1] == "and keep it short"
    assert steered["messages"][steered["source"]["messages"].index(steered["source"]["entries"][0])][
        "content"
    ].startswith("run:")
    assert ("part" not in before["source"], after["source"]["part"]) == (True, 1)
    for row in (steered, before, after):
        for target in row["target"]:
            context = [plain(without_images(m)) for m in row["messages"][:target]]
            assert context in [received(request) for request in asked]


def spoke(entry):
    return isinstance(entry.message, Assistant) or getattr(entry.message, "failed", None) == "error"


def rebuilt(path):
    """The request at the end of a branch, as its file tells it."""
    seen = project(path)
    known = instructions(item.message for item in seen)
    return [plain(without_images(message)) for message in build(known.prompt, seen, set()).messages]


def test_a_retry_that_failed_first_leaves_only_the_answer(world, server):
    server.requests.clear()
    with Pi(world) as pi:
        pi.prompt("fail once: capital of France?")
        pi.prompt("/good")
    [row] = world.rows()
    assert len(server.requests) == 2
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant"]
    assert [plain(m) for m in row["messages"][:2]] == received(server.requests[-1])


def test_an_aborted_turn_is_refused_and_the_turn_before_it_is_not_tagged_instead(world):
    with Pi(world) as pi:
        pi.prompt("first")
        pi.send("prompt", message="slow please")
        pi.wait(lambda r: r["type"] == "message_update" and "tick" in json.dumps(r))
        pi.request("abort")
        pi.wait(lambda r: r["type"] == "agent_settled", start=len(pi.records) - 3)
        pi.prompt("/good")
        refusal = pi.said()[-1]
    assert "aborted" in refusal["message"]
    assert world.rows() == []
