"""What the row says the model saw is what the model server received, request by request, from the real Pi."""

import json

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
