"""The door, asked as no client of ours would: bytes on a socket to the running engine."""

import asyncio
import hashlib
import hmac
import json
from urllib.parse import urlsplit

import pytest
from doors import everything, reach, statuses, told

from machine import discovery
from machine.engine.api import auth
from machine.engine.api.auth import Guard
from machine.engine.api.tokens import API, Tokens
from machine.engine.wire import requests as wire

FACTS = "/api/v1/get_server_capabilities"


def raw(engine, line=f"GET {FACTS} HTTP/1.1", *headers, host="localhost", key=None, body=b""):
    """A request's bytes, with the right key unless `key` says otherwise, after which the server is to close."""
    lines = [line, *([f"Host: {host}"] if host is not None else []), *headers, "Connection: close"]
    lines += [f"X-API-Key: {engine.key if key is None else key}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "host",
    [
        "", "localhost.", "user@localhost", "localhost:", "localhost:x", "localhost:123456", "localhost/x", "localhost?x", "localhost#x", "localhost evil", "127.1",
        "2130706433", "0x7f.1", "0.0.0.0", "127.0.0.2", "[::]", "[::ffff:127.0.0.1]", "::1", "localhost.evil.example", "evil.example:80@localhost", "localhost,evil",
        "127.0.0.1.nip.io", "\xe9", "loc\xe4lhost", "localhost\xa0",
    ],
)  # fmt: skip
def test_a_host_that_is_not_exactly_this_machine_is_refused_with_the_right_key(engine, host):
    said = told(engine.url, raw(engine, host=host))
    assert statuses(said) in ([403], [400])
    assert engine.model.encode() not in said


def test_no_host_and_two_hosts_are_refused(engine):
    assert statuses(told(engine.url, raw(engine, host=None))) == [400]
    assert statuses(told(engine.url, raw(engine, f"GET {FACTS} HTTP/1.0", host=None))) == [403]
    assert statuses(told(engine.url, raw(engine, f"GET {FACTS} HTTP/1.1", "Host: localhost"))) == [400]
    assert statuses(told(engine.url, raw(engine))) == [200]
    assert statuses(told(engine.url, raw(engine, host="[::1]:{port}"))) == [200]


@pytest.mark.parametrize(
    "headers",
    [
        ("Origin: null",), ("Origin: ",), ("Origin: http://localhost.evil.example",), ("Origin: http://127.0.0.1.evil.example:80",), ("Origin: http://evil@localhost",),
        ("Origin: http://evil.example",), ("Origin: localhost",), ("Origin: file://",), ("Origin: chrome-extension://localhost",), ("Origin: http://localhost/",),
        ("Origin: http://localhost http://evil.example",), ("Origin: http://localhost", "Origin: http://evil.example"), ("Sec-Fetch-Site: cross-site",),
        ("Sec-Fetch-Site: same-site",), ("Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"), ("Origin: http://localhost", "Sec-Fetch-Site: same-site"), ("Sec-Fetch-Site: x",),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", [FACTS, discovery.HEALTH])
def test_a_web_page_is_refused_with_the_right_key_and_at_what_needs_none(engine, path, headers):
    assert statuses(told(engine.url, raw(engine, f"GET {path} HTTP/1.1", *headers))) == [403]


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_user_of_a_browser_is_no_web_page(engine, site):
    assert statuses(told(engine.url, raw(engine, f"GET {FACTS} HTTP/1.1", f"Sec-Fetch-Site: {site}"))) == [200]


@pytest.mark.parametrize("headers", [("Origin: http://localhost:3000",), ("Origin: http://evil.example",), ()])
@pytest.mark.parametrize("key", [None, ""])
def test_a_preflight_is_granted_nothing(engine, headers, key):
    asks = (
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: x-api-key",
        "Access-Control-Request-Private-Network: true",
    )
    said = told(engine.url, raw(engine, "OPTIONS /api/v1/asample HTTP/1.1", *asks, *headers, key=key))
    assert statuses(said)[0] in (401, 403, 404)
    assert b"access-control" not in said.lower()


def test_there_are_no_websockets_and_no_echo(engine):
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
    lines = [
        line
        for line in raw(engine, f"GET {FACTS} HTTP/1.1", *upgrade).split(b"\r\n")
        if not line.startswith(b"Connection")
    ]
    said = told(engine.url, b"\r\n".join([*lines[:-2], b"Connection: Upgrade, close", b"", b""]))
    assert 101 not in statuses(said)
    for method in ("TRACE", "CONNECT", "DEBUG"):
        said = told(engine.url, raw(engine, f"{method} {FACTS} HTTP/1.1"))
        assert statuses(said) == [404]
        assert engine.key.encode() not in said
    assert not told(engine.url, raw(engine, f"HEAD {FACTS} HTTP/1.1")).partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "path",
    [
        "//api/v1/get_server_capabilities", "/api/v1/healthz/../get_server_capabilities", "/api/v1/healthz/", "/api/v1/healthz%2f..%2fsessions", "/api/v1/healthz%00",
        "/api/v1/downloads/../get_server_capabilities", "/api/v1/downloads/..%2fsessions", "/api/v1/downloads/%2e%2e/sessions", "/api/v1/downloads/..%2f..%2f..%2fkey/x",
        "/api/v1/downloads//sessions", "/api/v1/downloads/a/..%5c..%5ckey", "http://localhost/api/v1/healthz", "http://localhost/api/v1/sessions", "/API/V1/sessions", "*",
        "/api/v1/healthz;/../sessions", "/./api/v1/sessions", "/oai/api/v1/models", "/oai/../api/v1/healthz", "/", "/engine.json", "/key", "/docs", "/openapi.json",
    ],
)  # fmt: skip
def test_no_path_leads_round_the_key(engine, path):
    said = told(engine.url, raw(engine, f"GET {path} HTTP/1.1", key=""))
    assert statuses(said)[0] in (307, 400, 401, 404, 410)
    for secret in (engine.model, engine.key, str(engine.home), str(engine.model_path)):
        assert secret.encode() not in said


@pytest.mark.parametrize(
    "given", ["\xff\xfe", "tml-\u00e9", "x" * 8000, "tml-", "Bearer", "..", "a.b.c", "\xe9.\xe9.\xe9"]
)
def test_an_odd_key_is_just_a_wrong_one_and_is_not_echoed(engine, given):
    for headers in ((f"X-API-Key: {given}",), (f"Authorization: Bearer {given}",)):
        said = told(engine.url, raw(engine, f"GET {FACTS} HTTP/1.1", *headers, key="")[:-2] + b"\r\n")
        assert statuses(said) == [401]
        assert json.loads(said.partition(b"\r\n\r\n")[2])["detail"] == "the API key is missing or wrong"


def test_the_key_is_compared_in_constant_time(monkeypatch):
    compared = []

    def spying(a, b):
        compared.append((a, b))
        return hmac.compare_digest(a, b)

    class Spy:
        compare_digest = staticmethod(spying)

    monkeypatch.setattr(auth, "hmac", Spy)
    assert asked(Guard(_reached, "tml-right"), (b"x-api-key", b"tml-wrong")) == 401
    assert asked(Guard(_reached, "tml-right"), (b"x-api-key", b"tml-right")) == 200
    assert compared == [(b"tml-wrong", b"tml-right"), (b"tml-right", b"tml-right")]


async def _reached(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})


def asked(guard, *headers, kind="http"):
    """The status that a guard's answer has, or the code that it closes a WebSocket with."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "path": FACTS, "headers": [(b"host", b"localhost"), *headers]}
    asyncio.run(guard(scope, None, send))
    return sent[0].get("status", sent[0].get("code"))


def test_the_guard_needs_no_help_of_the_server():
    guard = Guard(_reached, "tml-right")
    right = (b"x-api-key", b"tml-right")
    assert asked(guard, right) == 200
    assert asked(guard, right, kind="websocket") == 1008
    assert asked(guard, right, (b"host", b"localhost")) == 403
    assert asked(guard, right, (b"host", b"evil.example")) == 403
    with pytest.raises(ValueError, match="empty key"):
        Guard(_reached, "")


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 2\r\nContent-Length: 90\r\n\r\n{}", b"Content-Length: -1\r\n\r\n{}", b"Content-Length: +2\r\n\r\n{}", b"Content-Length: 0x2\r\n\r\n{}",
        b"Transfer-Encoding: xchunked\r\n\r\n{}", b"Transfer-Encoding: chunked, identity\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n{}", b"X: a\r\n b\r\nContent-Length: 1e1\r\n\r\n", b"Content-Length : 2\r\n\r\n{}", b"X\x00Y: 1\r\n\r\n",
        b"X: " + b"y" * 1_000_000,
    ],
)  # fmt: skip
def test_a_request_whose_end_is_in_doubt_is_refused_and_what_follows_it_is_not_read(engine, framing):
    second = raw(engine)
    head = f"POST /api/v1/create_session HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {engine.key}\r\n".encode()
    assert statuses(told(engine.url, head + framing + (second if framing.endswith((b"\n", b"}")) else b""))) in (
        [400],
        [],
    )  # it is cut off while it still sends


def test_a_chunked_length_wins_over_a_stated_one(engine):
    head = f"POST /api/v1/create_session HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {engine.key}\r\n".encode()
    both = b"Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert statuses(told(engine.url, head + both + raw(engine, "GET /nowhere HTTP/1.1"))) == [200, 404]


def test_a_chunked_body_is_refused_at_the_limit(engine):
    head = f"POST /api/v1/create_session HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {engine.key}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    with reach(engine.url) as connection:
        connection.sendall(head.encode() + chunk * (wire.MAX_BODY >> 20) + b"1\r\nx\r\n0\r\n\r\n" + raw(engine))
        assert statuses(everything(connection))[0] == 413


def test_json_has_a_lower_limit_than_a_batch(engine):
    status, body = engine.request(
        "POST", "/api/v1/create_session", b'{"user_metadata": {"a": [' + b"{}," * (wire.MAX_JSON // 3) + b"1]}}"
    )
    assert (status, "JSON" in body["detail"]) == (413, True)
    assert engine.request("POST", "/api/v1/create_session", {"user_metadata": {"a": "x" * wire.MAX_METADATA}})[0] == 400
    assert engine.request("POST", "/api/v1/create_session", {"display_name": "x" * 2000})[0] == 400


def test_the_health_of_an_engine_tells_no_stranger_anything_and_proves_only_to_who_asked_it(engine):
    port = urlsplit(engine.url).port
    for headers in (
        {},
        {"X_Machine_Challenge": "abc"},
        {"X_Machine_Challenge": f"abc@{port + 1}"},
        {"X_Machine_Challenge": f"{'a' * 70}@{port}"},
    ):
        assert engine.request("GET", discovery.HEALTH, X_API_Key="", **headers) == (200, {"status": "ok"})
    challenge = f"abc@{port}"
    _, proven = engine.request("GET", discovery.HEALTH, X_API_Key="", X_Machine_Challenge=challenge)
    assert proven["proof"] == discovery.proof(engine.key, challenge)
    assert discovery.proves(engine.url, engine.key)


def test_a_proof_is_no_key_of_tokens():
    """What an engine says to a challenge must never be what it signs tokens with, whatever the challenge."""
    tokens = Tokens("tml-k")
    assert tokens.read(tokens.sign(API, 60), API) is not None
    signing = hmac.new(b"tml-k", b"tokens of the engine", hashlib.sha256).hexdigest()
    assert all(
        discovery.proof("tml-k", said) != signing for said in ("tokens of the engine", "", "\0", "s of the engine")
    )


def test_a_forwarding_header_changes_nothing(engine):
    _, session = engine.request("POST", "/api/v1/create_session", {})
    said = told(
        engine.url,
        raw(
            engine,
            f"GET {FACTS}/ HTTP/1.1",
            "X-Forwarded-Proto: javascript",
            "X-Forwarded-Host: evil.example",
            "X-Forwarded-For: 8.8.8.8",
        ),
    )
    assert b"evil" not in said
    assert b"javascript" not in said
    assert session["session_id"]
