"""Clients that take their time: what they may hold, and what they cost those who ask."""

import asyncio
import contextlib
import http.client
import logging
import os
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from doors import everything, reach, served, statuses
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from machine.engine.api import bodies, connections
from machine.engine.api.auth import Guard
from machine.engine.api.bodies import BodyLimit
from machine.engine.server import _http_error, _hung_up

KEY = "tml-slow"
HEAD = f"POST /body HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {KEY}\r\n".encode()


async def body(request: Request):
    return JSONResponse(len(await request.body()))


async def wait(request: Request):
    await asyncio.sleep(1.5)
    return JSONResponse("waited")


@pytest.fixture
def url(monkeypatch):
    """A server behind the real guard that gives a head half a second and a body one."""
    for name, seconds in (("HEAD_SECONDS", 0.5), ("BODY_SECONDS", 1.0), ("_LOOK_SECONDS", 0.05)):
        monkeypatch.setattr(connections, name, seconds)
    app = Starlette(
        routes=[Route("/body", body, methods=["POST"]), Route("/wait", wait)],
        middleware=[Middleware(Guard, key=KEY), Middleware(BodyLimit)],
        exception_handlers={ClientDisconnect: _hung_up, HTTPException: _http_error},
    )
    with served(app) as url:
        yield url


def ask(url, path="/body", method="POST", data=b"{}", key=KEY):
    """Status and seconds of a request."""
    began, parts = time.monotonic(), urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    with contextlib.closing(connection):
        connection.request(method, path, data, {"X-API-Key": key})
        return connection.getresponse().status, time.monotonic() - began


def lasts(connection, send=b"", every=0.1):
    """Seconds until the other end closes, and what it says, while a client trickles `send`."""
    began, said = time.monotonic(), b""
    connection.settimeout(every)
    while time.monotonic() - began < 15:
        try:
            part = connection.recv(65536)
            if not part:
                break
            said += part
        except TimeoutError:
            with contextlib.suppress(OSError):
                connection.sendall(send)
        except ConnectionError:
            break
    return time.monotonic() - began, said


@pytest.mark.parametrize("head", [b"", b"GET / HT", b"POST /body HTTP/1.1\r\nHost: localhost\r\n"])
@pytest.mark.parametrize("trickle", [b"", b"x"])
def test_a_head_that_does_not_come_is_not_waited_for(url, head, trickle):
    with reach(url) as connection:
        connection.sendall(head)
        seconds, said = lasts(connection, trickle)
        assert 0.4 < seconds < 4
        assert said in (b"",) or statuses(said) == [400]


def test_a_body_that_does_not_come_is_not_waited_for(url, caplog):
    with reach(url) as connection, caplog.at_level(logging.ERROR):
        connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
        seconds, said = lasts(connection, b"x")
        assert 0.9 < seconds < 5
        assert said == b""
        assert ask(url)[0] == 200
    assert caplog.records == []


def test_who_has_no_key_cannot_go_on_with_a_body(url):
    with reach(url) as connection:
        connection.sendall(HEAD.replace(KEY.encode(), b"tml-no") + b"Content-Length: 100000\r\n\r\n")
        seconds, said = lasts(connection, b"x")
        assert statuses(said) == [401]
        assert 0.4 < seconds < 4


def test_who_waits_for_an_answer_is_waited_for(url):
    assert ask(url, "/wait", "GET")[0] == 200


def test_slow_clients_cost_the_others_nothing(url):
    with contextlib.ExitStack() as opened:
        for _ in range(40):
            slow = opened.enter_context(reach(url))
            slow.sendall(HEAD + b"Content-Length: 1000\r\n\r\nx")
        assert max(ask(url)[1] for _ in range(5)) < 1


def test_the_longest_silent_connection_makes_room(url, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 60.0)
    monkeypatch.setattr(connections, "MAX_SILENT", 5)
    with contextlib.ExitStack() as opened:
        silent = []
        for _ in range(9):
            silent.append(opened.enter_context(reach(url)))
            time.sleep(0.02)
        assert [everything(each) for each in silent[:4]] == [b""] * 4
        silent[-1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            silent[-1].recv(1)
        assert ask(url)[0] == 200


def test_a_client_that_opens_a_thousand_at_once_is_heard_on_each(url, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 60.0)
    connections.allow_files()
    with contextlib.ExitStack() as opened:
        crowd = [opened.enter_context(reach(url)) for _ in range(1000)]
        for each in crowd[::50]:
            each.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
        assert [statuses(each.recv(65536)) for each in crowd[::50]] == [[200]] * 20


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits there")
def test_silent_connections_leave_half_of_the_files_to_the_others(monkeypatch):
    import resource

    for soft, most in ((256, 128), (1024, 512), (1 << 20, 2048), (resource.RLIM_INFINITY, 2048)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert connections.most_silent() == most


def test_bodies_are_bounded_together(url, monkeypatch):
    monkeypatch.setattr(bodies.wire, "MAX_BODIES", 1000)
    with reach(url) as slow:
        slow.sendall(HEAD + b"Content-Length: 1000\r\n\r\n" + bytes(900))
        time.sleep(0.2)
        assert ask(url, data=bytes(90))[0] == 200
        assert ask(url, data=bytes(200))[0] == 429
        slow.sendall(bytes(100))
        assert statuses(slow.recv(65536)) == [200]
    assert ask(url, data=bytes(900))[0] == 200


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits there")
def test_the_process_asks_for_more_open_files():
    code = "import resource as r\nfrom machine.engine.api.connections import allow_files\nr.setrlimit(r.RLIMIT_NOFILE, (100, 500))\nallow_files()\nprint(r.getrlimit(r.RLIMIT_NOFILE))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True).stdout
        == "(500, 500)\n"
    )


def test_a_client_that_hangs_up_in_the_middle_is_no_fault(url, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            with reach(url) as connection:
                connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\nx")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert ask(url)[0] == 200
    assert caplog.records == []
