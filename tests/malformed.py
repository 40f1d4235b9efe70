"""Malformed: requests that are nearly right, for every endpoint of the engine, made by editing right ones.

`Request` is a right one. An attack is an endpoint and what is done to its request: to nodes of its JSON, fields of its
protobuf, the bytes of its body, its address, or its headers. `attacks` is a hypothesis strategy of such, `spoil` does it;
an edit that does not fit is skipped.
"""

import copy
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import zstandard
from google.protobuf.message import Message
from hypothesis import strategies as st

KINDS = ("json", "protobuf", "bytes", "noise", "address", "headers")
RAW = (
    "1e999", "-1e999", "NaN", "Infinity", "-0.0", "1e-400", "1" * 400, "1e400", '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"',
    "[" * 900 + "]" * 900, '{"a":' * 500 + "1" + "}" * 500, "[" * 5000 + "]" * 5000, "tru", "{}x", "[1,]", '"', "",
)  # fmt: skip
"""Pieces of JSON text that no value makes."""
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 97, 49151, 49152, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 2**70, -(2**63), -(2**70),
    0.0, 0.5, 1.0, 1e-320, 1e-45, 1e-30, 1e30, 1e38, 1e308, -1e308, "", " ", "\x00", "..", "../../key", "/", "tinker://", "tinker://a/weights/b",
    "tinker://../weights/x", "é" * 50, "\U0001f600", "x" * 5000, "<|im_end|>", "<tool_call>", "</think>", "system", "user", "tool", "assistant", "function", "text",
    "none", "auto", "required", "adamw", "inflight", "int64", "encoded_text", "image", "cross_entropy", "ppo", [], {}, [[]], [{}], [0], [""], [None], [-1], [2**40], list(range(60)),
    {"": ""}, {"a": {"b": [1, {"c": None}]}}, {"type": "text"}, {"type": "text", "text": None}, {"type": "function", "function": None},
    {"type": "function", "function": {"name": 3}}, {"role": "user"}, {"role": "tool", "content": []}, {"name": "f", "parameters": {"properties": 7}},
)  # fmt: skip
SEGMENTS = (
    "", ".", "..", "%2e%2e", "a b", "\x00", "é", "weights", "sampler_weights", "x" * 300, "\u2028", "key", "archive", "ttl",
    "publish", "~", "a:b", "-", ".tmp-0", "run.json",
)  # fmt: skip
QUERIES = (
    b"limit=-1", b"offset=1e9", b"limit=99999999999999999999", b"offset=%00", b"limit=&limit=2", b"\xff\xfe", b"=", b"limit=" + b"9" * 5000, b"offset=5",
)  # fmt: skip
HEADERS = (
    (b"content-encoding", b"zstd"), (b"content-encoding", b"gzip"), (b"content-encoding", b"\xff"), (b"content-type", b"application/json; charset=x"),
    (b"content-type", b"application/x-protobuf"), (b"content-type", b""), (b"content-type", b"text/plain"), (b"content-length", b"-5"), (b"content-length", b"x"),
    (b"x-idempotency-key", b""), (b"x-idempotency-key", b"\xe9" * 300), (b"x-tinker-weights-access-token", b"t"), (b"authorization", b"Bearer x"),
    (b"x-machine-challenge", b"\xff\x00"), (b"x-machine-challenge", b"c" * 9000), (b"accept", b"\xff"), (b"range", b"bytes=0-"), (b"x-forwarded-proto", b"javascript"),
    (b"x-http-method-override", b"DELETE"), (b"expect", b"100-continue"), (b"cookie", b"a=" + b"b" * 9000), (b"x-forwarded-host", b"evil.example"),
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "PATCH")
SIZE = 15
"""Bytes that say what an attack is."""
_VALUES: dict[str, Sequence[Any]] = {
    "json": (*VALUES, *(f"<<{i}>>" for i in range(len(RAW)))), "protobuf": VALUES, "address": (*SEGMENTS, *QUERIES), "headers": HEADERS,
}  # fmt: skip
_RAW = re.compile(r'"<<(\d+)>>"')


@dataclass(frozen=True)
class Request:
    """A request; `body` is JSON, a protobuf message, bytes, or nothing."""

    method: str
    path: str
    body: Any = None
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = field(default=())

    @property
    def data(self) -> bytes:
        """The body as it is sent."""
        if self.body is None or isinstance(self.body, bytes):
            return self.body or b""
        if isinstance(self.body, Message):
            return self.body.SerializeToString()
        return _RAW.sub(lambda found: RAW[int(found[1])], json.dumps(self.body)).encode()


@dataclass(frozen=True)
class Edit:
    """One change: where (a number that is taken modulo the places there are), what, and with what."""

    place: int
    action: int
    value: Any


def attacks(number: int) -> st.SearchStrategy[bytes]:
    """The bytes of so many attacks, which `read` reads: one draw, as a draw for each choice takes longer than they do."""
    return st.binary(min_size=number * SIZE, max_size=number * SIZE)


def read(data: bytes, endpoints: Sequence[str], kinds: Sequence[str] = KINDS) -> Iterator[tuple[str, str, list[Edit]]]:
    """Attacks: an endpoint, a kind, and one to three edits of that kind."""
    for start in range(0, len(data), SIZE):
        which, kind, count, *rest = data[start : start + SIZE]
        kind = kinds[kind % len(kinds)]
        places = [rest[i : i + 4] for i in range(0, 4 * (1 + count % 3), 4)]
        made = [Edit(place, action % 6, _value(kind, 256 * high + low)) for place, action, high, low in places]
        yield endpoints[which % len(endpoints)], kind, made


def _value(kind: str, number: int) -> Any:
    if kind in ("bytes", "noise"):
        return random.Random(number).randbytes(number % (7 if kind == "bytes" else 61))
    values = _VALUES[kind]
    return values[number % len(values)]


def spoil(request: Request, kind: str, changes: Sequence[Edit]) -> Request:
    """The request with the changes."""
    for change in changes:
        request = _SPOILERS[kind](request, change)
    return request


def _json(request: Request, edit: Edit) -> Request:
    if request.body is None or isinstance(request.body, bytes | Message):
        return _noise(request, edit)
    body = {"": copy.deepcopy(request.body)}
    places = list(_places(body))
    parent, key = places[edit.place % len(places)]
    match edit.action:
        case 1 if isinstance(parent, list):
            del parent[key]
        case 1 if parent is not body:
            del parent[key]
        case 2 if isinstance(parent, list):
            parent[key:key] = [parent[key]] * 20
        case 2:
            parent[key] = [parent[key]]
        case 3 if isinstance(parent[key], dict):
            parent[key][edit.value if isinstance(edit.value, str) else "x"] = edit.value
        case _:
            parent[key] = edit.value
    return replace(request, body=body[""])


def _places(node: Any) -> Any:
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])


def _protobuf(request: Request, edit: Edit) -> Request:
    if not isinstance(request.body, Message):
        return _json(request, edit)
    body = copy.deepcopy(request.body)
    setters = list(_setters(body))
    try:
        setters[edit.place % len(setters)](edit.value)
    except (TypeError, ValueError, AttributeError, LookupError, OverflowError):  # it does not fit this field
        return request
    return replace(request, body=body)


def _setters(message: Message) -> Any:
    """Ways to change a field of the message or of one inside it."""
    for description in message.DESCRIPTOR.fields:
        name, value = description.name, getattr(message, description.name)
        yield lambda given, name=name: message.ClearField(name)
        if hasattr(value, "DESCRIPTOR"):
            if message.HasField(name):
                yield from _setters(value)
        elif hasattr(value, "items") and hasattr(value, "get"):
            yield lambda given, value=value: _into(value, given)
            for key in list(value):
                yield lambda given, value=value, key=key: value.pop(key)
                if isinstance(value[key], Message):
                    yield from _setters(value[key])
        elif hasattr(value, "extend"):
            yield lambda given, value=value: value.extend(list(value))
            yield lambda given, value=value: value.append(given)
            yield lambda given, value=value: value.__setitem__(0, given)
            for each in value:
                if isinstance(each, Message):
                    yield from _setters(each)
        else:
            yield lambda given, name=name: setattr(message, name, given)
            if isinstance(value, bytes):
                yield lambda given, name=name, value=value: setattr(message, name, _bent(value, given))


def _into(mapping: Any, given: Any) -> None:
    key = given if isinstance(given, str) else "weights"
    made = mapping[key]
    if isinstance(made, Message) and "dense" in made.DESCRIPTOR.fields_by_name:
        made.dense = b"\0" * 12


def _bent(value: bytes, given: Any) -> bytes:
    if isinstance(given, int) and not isinstance(given, bool) and -(2**31) <= given < 2**31:
        return value[:-4] + given.to_bytes(4, "little", signed=True)
    if isinstance(given, float):
        return value[:-4] + b"\0\0\xc0\x7f"
    return value[:-3] if given is None else value + value


def _bytes(request: Request, edit: Edit) -> Request:
    data = request.data
    at = edit.place * max(1, len(data)) // 256
    match edit.action:
        case 0:
            data = data[:at]
        case 1:
            data = data[:at] + edit.value + data[at:]
        case 2:
            data = data[:at] + edit.value + data[at + len(edit.value) :]
        case 3:
            data = data[:at] + data[at // 2 :]
        case 4:
            data = zstandard.compress(data) + edit.value
            return replace(request, body=data, headers=(*request.headers, (b"content-encoding", b"zstd")))
        case _:
            data = data[: at + 1] + bytes(b ^ 0x80 for b in data[at + 1 : at + 3]) + data[at + 3 :]
    return replace(request, body=data)


def _noise(request: Request, edit: Edit) -> Request:
    return replace(request, body=edit.value if isinstance(edit.value, bytes) else json.dumps(str(edit.value)).encode())


def _address(request: Request, edit: Edit) -> Request:
    if isinstance(edit.value, bytes):
        return replace(request, query=edit.value)
    parts = request.path.split("/")
    at = edit.place % len(parts)
    match edit.action:
        case 0:
            parts[at:at] = [edit.value]
        case 1:
            del parts[at]
        case 2:
            return replace(request, method=METHODS[edit.place % len(METHODS)])
        case _:
            parts[at] = edit.value
    return replace(request, path="/".join(parts))


def _headers(request: Request, edit: Edit) -> Request:
    name, value = edit.value
    kept = tuple(pair for pair in request.headers if pair[0] != name)
    data = zstandard.compress(request.data) if value == b"zstd" and edit.action < 3 else request.data
    return replace(request, headers=(*kept, (name, value)), body=data)


_SPOILERS: dict[str, Callable[[Request, Edit], Request]] = {
    "json": _json, "protobuf": _protobuf, "bytes": _bytes, "noise": _noise, "address": _address, "headers": _headers,
}  # fmt: skip
