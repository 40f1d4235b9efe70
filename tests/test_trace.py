import json

import msgspec
import pytest

from machine.trace import canonical, check, decode, encode, well_formed
from students import assistant, call, row, user


def test_what_no_utf8_can_hold_is_left_out_and_the_row_reads_back():
    kept = row(user("a\ud800b \U0001f600"), assistant("c\udfff"))
    read = decode(encode(kept))
    assert [m["content"] for m in read.messages][-2:] == ["ab \U0001f600", "c"]
    assert well_formed({"k\udc80": ["\udc80x", 1, None]}) == {"k": ["x", 1, None]}


def test_what_is_beyond_ascii_is_escaped_as_json_does():
    text = 'a\u2028 é \U0001f600 \x7f "\\'
    line = encode(row(user(text), assistant("b")))
    assert line.isascii()
    assert json.loads(line)["messages"][-2]["content"] == text
    assert (
        canonical({"é": [text], "a": 1})
        == json.dumps({"a": 1, "é": [text]}, separators=(",", ":")).replace("\\u007f", "\x7f").encode()
    )


@pytest.mark.parametrize(
    "damage",
    [
        {"messages": [{"role": "user"}, {"role": "assistant", "content": "b"}]},
        {"messages": [{"role": "user", "content": [5]}, {"role": "assistant", "content": "b"}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{}]}]},
        {"target": [0]},
        {"target": [9]},
    ],
)
def test_a_row_that_cannot_be_shown_is_found(damage):
    body = json.loads(encode(row(user("a"), assistant("b", call("read", "{}")), target=(1,)))) | damage
    with pytest.raises(msgspec.ValidationError):
        check(decode(json.dumps(body).encode()))
