import http.server
import json
import threading
import time

import pytest

from machine.dataset import calls
from machine.dataset.targets import expand
from students import assistant, row, user

FORKS = {f"s{i}": {"anyOf": [{"$ref": f"#/$defs/s{i + 1}"}] * 2} for i in range(40)} | {"s40": {"type": "string"}}
"""A schema of 2^40 steps."""


def noted(parameters, arguments, name="look"):
    """The notes of a target that calls a tool."""
    call = {"type": "function", "id": "c", "function": {"name": name, "arguments": arguments}}
    tool = {"name": name, "description": "d", "parameters": parameters}
    answer = assistant("") | {"tool_calls": [call]}
    [target] = expand([row(user("q"), answer, tools=(tool,))])
    return list(calls.notes(target)) + list(calls.faults(target))


def of(schema):
    return {"type": "object", "properties": {"a": schema}}


@pytest.fixture
def asked():
    """The paths that a server on loopback was asked for, its address first."""
    paths = []

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "string"}')

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    paths.append(f"http://127.0.0.1:{server.server_port}/secret")
    yield paths
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("key", ["$ref", "$dynamicRef", "$schema", "$id"])
def test_a_tool_s_schema_reaches_neither_the_network_nor_a_file(asked, key, tmp_path):
    (tmp_path / "held.json").write_text('{"type": "string"}')
    for address in (asked[0], (tmp_path / "held.json").as_uri()):
        schema = {key: address} if key != "$id" else {"$id": address, "$ref": "other.json"}
        assert noted(of(schema), '{"a": 1}') == []
    assert asked[1:] == []


def test_what_a_schema_says_within_itself_is_held_to(asked):
    schema = of({"$ref": "#/$defs/word"}) | {"$defs": {"word": {"type": "string"}}, "additionalProperties": False}
    assert "($.a: type)" in noted(schema, '{"a": 1}')[0]
    assert "($: additionalProperties)" in noted(schema, '{"b": 1}')[0]
    assert noted(schema, '{"a": "x"}') == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "(a+)+$"}, "a" * 60 + "!"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "(a+)+$"}, "a" * 60 + "!"),
        ({"patternProperties": {"(a+)+$": {}}, "additionalProperties": False}, {"a" * 60 + "!": 1}),
        ({"patternProperties": {"(a+)+$": {}}, "unevaluatedProperties": False}, {"a" * 60 + "!": 1}),
        ({"$ref": "#/$defs/s0"}, 1),
        ({"uniqueItems": True}, [{"n": i} for i in range(20_000)]),
        ({"allOf": [{"items": {"type": "integer"}}] * 20_000}, [1]),
        ({"allOf": [{"items": {"type": "integer"}}] * 200}, list(range(20_000))),
        ({"$ref": "#"}, {}),
        ({"$ref": "#/properties/a"}, 1),
        ({"multipleOf": 1e-320}, 1),
    ],
    ids=lambda value: str(value)[:40],
)
def test_no_schema_keeps_us_busy(schema, value):
    began = time.process_time()
    noted(of(schema) | {"$defs": FORKS}, json.dumps({"a": value}))
    assert time.process_time() - began < 3


def test_what_is_nested_too_deep_is_no_schema_and_no_arguments():
    schema, value = {}, 1
    for _ in range(200):
        schema, value = of(schema), {"a": value}
    assert noted(schema, json.dumps(value)) == []
    deep = '{"a": ' * 50_000
    assert "are not JSON" in noted(of({}), deep)[0]
