"""What Pi's events say, read from streams as Pi writes them."""

import json

from machine.agentic.events import Heard, heard

SYSTEM = {"role": "system", "content": "", "toolsAdded": [{"name": "read"}, {"name": "bash"}]}


def assistant(*calls: str, stop: str = "toolUse", error: str | None = None, **usage: int) -> dict:
    content = [{"type": "toolCall", "id": name, "name": name, "arguments": {}} for name in calls]
    counted = {"input": 100, "output": 7, "cacheRead": 20, "cacheWrite": 0} | usage
    message = {"role": "assistant", "content": content, "usage": counted, "stopReason": stop}
    return message | ({"errorMessage": error} if error else {})


def result(error: bool, **fields: int) -> dict:
    return {"role": "toolResult", "toolName": "bash", "content": [], "isError": error, **fields}


def stream(*messages: dict, settled: bool = True) -> bytes:
    events = [{"type": "message_end", "message": message} for message in messages]
    events += [{"type": "agent_settled", "aborted": False}] if settled else []
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def test_answers_calls_and_tokens_are_counted():
    found = heard(stream(SYSTEM, assistant("read", "bash"), result(False, durationMs=1), assistant(stop="stop")))
    assert (found.turns, found.calls, found.invalid, found.tools) == (2, 2, 0, {"read": 1, "bash": 1})
    assert (found.prompt_tokens, found.completion_tokens) == (240, 14)
    assert (found.stop, found.error, found.settled) == ("stop", "", True)


def test_a_tool_that_ran_and_failed_was_called_well():
    found = heard(stream(SYSTEM, assistant("bash"), result(True, durationMs=0), assistant("bash"), result(True)))
    assert found.invalid == 1


def test_made_up_tools_are_counted_together():
    found = heard(stream(SYSTEM, assistant("one", "two"), assistant("three", "bash")))
    assert found.tools == {"(not one of Pi's)": 3, "bash": 1}


def test_a_failed_request_is_no_turn_and_the_last_word_counts():
    failed = assistant(stop="error", error="503: busy", input=0, output=0, cacheRead=0)
    gone = heard(stream(SYSTEM, assistant("bash"), result(False, durationMs=3), failed))
    assert (gone.turns, gone.error) == (1, "503: busy")
    again = heard(stream(SYSTEM, failed, assistant(stop="stop")))
    assert (again.turns, again.error) == (1, "")


def test_a_stream_that_was_cut_is_read_as_far_as_it_goes():
    whole = stream(SYSTEM, assistant("bash"), settled=False)
    found = heard(whole + stream(assistant("read"))[:60])
    assert (found.turns, found.tools, found.settled) == (1, {"bash": 1}, False)


def test_no_stream_can_stop_the_reading():
    lines = [b"", b"null", b"[]", b'"text"', b"\xff\xfe", b'{"type":"message_end"}', b'{"type":"message_end","message":7}',
             b'{"type":"message_end","message":{"role":"assistant","content":[1,{"type":"toolCall"}],"usage":[]}}',
             b'{"type":"message_end","message":{"role":"system","toolsAdded":{"a":1}}}', b"[" * 100_000]  # fmt: skip
    assert heard(b"\n".join(lines)) == Heard(turns=1, calls=1, tools={"(not one of Pi's)": 1})
