"""What a placeholder may not break: a row's own words, JSON in texts, an object's keys."""

import json

import pytest

from machine.capture.rows import without_secrets
from machine.privacy.redact import Names, redacted
from machine.privacy.sources import Exact, Sources
from machine.trace import Row, Source, check

PIN = "83749201"
EXACT, PINNED = Exact("env-x"), Exact("env-pin")
CALL = {
    "type": "function",
    "id": "call_1",
    "function": {"name": "read", "arguments": '{"description": {"role": "user"}}'},
}
SAID = [{"type": "thinking", "thinking": "the assistant reads"}, {"type": "text", "text": "a function"}]
ROW = Row(
    id="t_1",
    tag="good",
    messages=(
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": SAID, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "name": "read", "content": "messages"},
    ),
    tools=({"name": "read", "description": "d", "parameters": {"type": "object", "properties": {}, "required": []}},),
    target=(1,),
    created_at="",
    source=Source("pi", "", "s", "l", ("e",), "/work"),
    digest="",
)


@pytest.mark.parametrize(
    "word",
    [
        *("assistant", "ssistant", "function", "messages", "thinking", "arguments", "tool_calls", "tool_call_id"),
        *("descript", "description", "parameters", "properties", "required", '{"role": "user"}', '"role": "user"'),
    ],
)
def test_a_secret_that_is_a_word_of_the_rows_form_breaks_no_row(word):
    sources = Sources({word: EXACT})
    [row], _ = without_secrets([ROW], sources, Names())
    check(row)
    call = row.messages[1]["tool_calls"][0]
    assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert [message["role"] for message in row.messages] == ["user", "assistant", "tool"]
    assert row.tools[0].keys() == ROW.tools[0].keys()
    assert row.tools[0]["parameters"].keys() == {"type", "properties", "required"}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f'{{"pin": {PIN}}}', {"pin": "<secret:env-pin:1>"}),
        (f'{{"pin": -{PIN}.5e3, "a": [1]}}', {"pin": "<secret:env-pin:1>", "a": [1]}),
        (f"[{PIN},{PIN}]", ["<secret:env-pin:1>"] * 2),
        (f'{{"a": "x {PIN} \\" y", "b\\"": {PIN}}}', {"a": 'x <secret:env-pin:1> " y', 'b"': "<secret:env-pin:1>"}),
    ],
)
def test_json_text_stays_json_where_a_secret_is_a_number(text, clean):
    assert json.loads(redacted(text, Sources({PIN: PINNED}))[0]) == clean


@pytest.mark.parametrize("secret", ['{"a": 12345}', '"key": "x', '12345, "y', "12345}, {", '": {"a": 1'])
@pytest.mark.parametrize("ends", [" ", ""])
def test_json_text_stays_json_whatever_piece_of_it_is_secret(secret, ends):
    for text in ['{"b": {"a": 12345}, "y": 2}', '{"key": "xyz", "k": 12345, "yes": 1}', '[{"k": 12345}, {"j": 1}]']:
        clean, found = redacted(text + ends, Sources({secret: PINNED}))
        assert bool(found) == (secret in text)
        assert type(json.loads(clean)) is type(json.loads(text))
        assert secret not in clean


def test_a_number_that_is_secret_is_one_outside_of_texts_too():
    clean, found = redacted({"default": int(PIN), "limit": 5, "on": True}, Sources({PIN: PINNED}))
    assert clean == {"default": "<secret:env-pin:1>", "limit": 5, "on": True}
    assert [finding.place for finding in found] == ["default"]


def test_keys_that_hold_one_secret_in_two_spellings_lose_no_value():
    secret = 'ab"cdefghij'
    clean, _ = redacted({secret: 1, json.dumps(secret)[1:-1]: 2, "<secret:env-pin:1>-2": 3}, Sources({secret: PINNED}))
    assert sorted(clean.values()) == [1, 2, 3]
    assert secret not in str(clean)


def test_a_placeholder_with_more_digits_than_numbers_have_is_a_text():
    text = f"<secret:x:{'9' * 5000}> {PIN}"
    assert redacted(text, Sources({PIN: PINNED}))[0] == text.replace(PIN, "<secret:env-pin:1>")


INNER = '{"pin": 12345, "note": "a \\" b \u00e9", "n": [1, 12345]}'
MENDED = {"pin": "<secret:env-pin:1>", "note": 'a " b \u00e9', "n": [1, "<secret:env-pin:1>"]}


def nested(value, depth, ascii_only):
    for _ in range(depth):
        value = json.dumps({"arguments": value, "id": "\U0001f600"}, ensure_ascii=ascii_only)
    return value


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_json_text_inside_json_text_stays_json_at_every_depth(depth, ascii_only):
    clean = redacted(nested(INNER.replace("12345", PIN), depth, ascii_only), Sources({PIN: PINNED}))[0]
    for _ in range(depth):
        outer = json.loads(clean)
        assert outer["id"] == "\U0001f600"
        clean = outer["arguments"]
    assert json.loads(clean) == MENDED


def test_what_needs_no_mending_keeps_its_spelling():
    text = '{"a": "{\\u0022b\\u0022: \\"x PIN \\/\\"}", "c": "\\u00e9"}'.replace("PIN", PIN)
    assert redacted(text, Sources({PIN: PINNED}))[0] == text.replace(PIN, "<secret:env-pin:1>")


def test_a_secret_of_two_lines_leaves_two_in_json_text_inside_json_text():
    secret = "first line of it\nsecond line of it"
    text = json.dumps({"arguments": json.dumps({"content": f"a\n{secret}\nb"})})
    clean = redacted(text, Sources({secret: PINNED}))[0]
    content = json.loads(json.loads(clean)["arguments"])["content"]
    assert content == "a\n<secret:env-pin:1>\n<secret:env-pin:1>\nb"
