"""Doors: bytes sent to a server as they are, and a server of an application in this process."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import uvicorn

from machine.engine.api.connections import Connection


def reach(url: str) -> socket.socket:
    """A connection to the server at `url`."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def everything(connection: socket.socket) -> bytes:
    """What comes until the other end closes."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def told(url: str, request: bytes) -> bytes:
    """What a server says to these bytes until it closes; `{port}` is put in."""
    with reach(url) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request.replace(b"{port}", str(urlsplit(url).port).encode()))
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        return everything(connection)


def statuses(said: bytes) -> list[int]:
    """The statuses of the answers in it."""
    return [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]


@contextlib.contextmanager
def served(app) -> Iterator[str]:
    """The URL of an application that is served as the engine is."""
    config = uvicorn.Config(
        app, port=0, log_level="warning", timeout_graceful_shutdown=1, http=Connection, ws="none", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
