"""The only way out of a box: a Unix socket on this side that asks one model endpoint, and answers 403 to all else.

Only `POST /v1/chat/completions` is forwarded, always to the door's own host and path, with the door's key and none of
the box's headers but the content type, and only what `question` lets through; redirects are not followed, proxies of
the environment are not used. The answer is streamed back as it comes. Bodies are bounded both ways, questions are
counted, and what was turned away is noted.
"""

import contextlib
import http.client
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from machine.errors import Refused
from machine.sandbox.job import Door, Request
from machine.sandbox.question import Unfit, fit

QUESTION, ANSWER = 16 << 20, 64 << 20
"""Bytes of the largest body that goes out, and that comes back."""
SECONDS = 300.0
"""How long the endpoint, or the box, may be silent."""
NOTED = 200
"""How many refusals are kept."""
_CALLS = 16


class Relay:
    """Forwards a box's questions to `door` while it is open.

    `requests` and `refused` tell what was asked; `on_spent` is called once, when a question beyond `most` came.
    """

    def __init__(self, door: Door, path: Path, most: int, on_spent: Callable[[], None] = lambda: None) -> None:
        self.requests: list[Request] = []
        self.refused: list[str] = []
        self._split = urlsplit(door.url)
        if self._split.scheme not in ("http", "https") or not self._split.hostname:
            raise Refused(
                "the model endpoint's address is not one", next_step="give one such as http://127.0.0.1:8000/v1"
            )
        self.door, self._key, self._most, self._on_spent = door, door.key, most, on_spent
        self._asked = 0
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._closed = False
        self._server = _Server(path, self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "Relay":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            for opened in self._sockets:
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)
        until = time.monotonic() + 2
        while len(self.requests) < min(self._asked, self._most) and time.monotonic() < until:
            time.sleep(0.01)

    def refuse(self, what: str) -> None:
        """Notes that something was turned away."""
        plain = "".join(c if c.isprintable() else "?" for c in what)[:200]
        with self._lock:
            if len(self.refused) < NOTED:
                self.refused.append(plain)

    def admit(self) -> bool:
        """Whether one more question may go out."""
        with self._lock:
            self._asked += 1
            spent = self._asked - self._most
        if spent == 1:
            self._on_spent()
        return spent <= 0

    def note(self, request: Request) -> None:
        """Notes a question that went out."""
        with self._lock:
            self.requests.append(request)

    @contextlib.contextmanager
    def call(self, body: bytes) -> Iterator[http.client.HTTPResponse]:
        """Asks the endpoint; the answer's body is not read yet."""
        kind = http.client.HTTPSConnection if self._split.scheme == "https" else http.client.HTTPConnection
        call = kind(self._split.hostname or "", self._split.port, timeout=SECONDS)
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        call.connect()
        opened = call.sock
        with self._lock:
            self._sockets.add(opened)
        try:
            if self._closed:
                raise ConnectionError("the box has ended")
            call.request("POST", self._split.path.rstrip("/") + "/chat/completions", body, headers)
            yield call.getresponse()
        finally:
            with self._lock:
                self._sockets.discard(opened)
            call.close()

    def hide_key(self, data: bytes) -> bytes:
        """An endpoint's error without the key, should it repeat it."""
        return data.replace(self._key.encode(), b"[key]") if self._key else data


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, path: Path, relay: Relay) -> None:
        self.relay = relay
        self.slots = threading.BoundedSemaphore(_CALLS)
        super().__init__(str(path), _Handler)
        path.chmod(0o666)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.slots.acquire(blocking=False):
            self.relay.refuse("too many connections at once")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A box that hangs up is no fault."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SECONDS
    server: _Server

    def parse_request(self) -> bool:
        """Reads a request's head and turns away all but the one that may pass."""
        if not super().parse_request():
            self.server.relay.refuse(f"not HTTP: {self.requestline}")
            return False
        if (self.command, self.path) != ("POST", "/v1/chat/completions"):
            self.server.relay.refuse(f"{self.command} {self.path}")
            self._answer(403, "only POST /v1/chat/completions is open in this box")
            return False
        return True

    def do_POST(self) -> None:
        """Forwards one question."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > QUESTION or "Transfer-Encoding" in self.headers:
            self.server.relay.refuse(f"POST {self.path} with a body of {length or 'unknown'} bytes")
            self._answer(413, f"the body's length must be given, and be at most {QUESTION} bytes")
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            return
        try:
            body = fit(body, self.server.relay.door)
        except Unfit as unfit:
            self.server.relay.refuse(f"POST {self.path}: {unfit}")
            self._answer(403, str(unfit))
            return
        if not self.server.relay.admit():
            self._answer(429, "this box has used up its requests to the model")
        else:
            self._forward(body)

    def _forward(self, body: bytes) -> None:
        began, status, usage = time.monotonic(), 502, Usage()
        try:
            with self.server.relay.call(body) as answer:
                status = answer.status
                kind = answer.getheader("Content-Type", "application/json")
                if status == 200:
                    usage.streamed = "event-stream" in kind
                    self._stream(answer, kind, usage)
                else:
                    self._send(status, kind, self.server.relay.hide_key(answer.read(1 << 20)))
        except (OSError, http.client.HTTPException):
            self.close_connection = True
            if status == 502:
                self._answer(502, "the model endpoint cannot be reached")
        finally:
            self.server.relay.note(Request(time.monotonic() - began, status, usage.prompt, usage.completion))

    def _stream(self, answer: http.client.HTTPResponse, kind: str, usage: "Usage") -> None:
        self.send_response_only(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        size = 0
        while data := answer.read1(1 << 16):
            size += len(data)
            if size > ANSWER:
                self.server.relay.refuse(f"an answer of more than {ANSWER} bytes")
                self.close_connection = True
                return
            usage.feed(data)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        usage.end()
        self.wfile.write(b"0\r\n\r\n")

    def _answer(self, status: int, message: str) -> None:
        self.close_connection = True
        body = json.dumps({"error": {"message": message, "type": "sandbox", "code": status}}).encode()
        with contextlib.suppress(OSError):
            self._send(status, "application/json", body)

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: what was asked and refused is in the outcome."""


class Usage:
    """Reads the token counts from an answer's bytes as they pass: `data:` lines of a stream, or one JSON object."""

    def __init__(self) -> None:
        self.streamed = True
        self.prompt: int | None = None
        self.completion: int | None = None
        self._kept = bytearray()

    def feed(self, data: bytes) -> None:
        """Takes more of the answer; a line, or an object, of more than 16 MiB is not looked at."""
        *lines, rest = data.split(b"\n") if self.streamed else (data,)
        for line in lines:
            self._read(bytes(self._kept + line))
            self._kept.clear()
        if len(self._kept) <= QUESTION:
            self._kept += rest

    def end(self) -> None:
        """Reads what is left: the answer is whole."""
        self._read(bytes(self._kept))

    def _read(self, text: bytes) -> None:
        if b'"usage"' not in text:
            return
        with contextlib.suppress(ValueError, RecursionError):
            said = json.loads(text.removeprefix(b"data:"))
            usage = said.get("usage") if isinstance(said, dict) else None
            if isinstance(usage, dict):
                self.prompt = _count(usage.get("prompt_tokens"), self.prompt)
                self.completion = _count(usage.get("completion_tokens"), self.completion)


def _count(value: object, before: int | None) -> int | None:
    return value if type(value) is int and value >= 0 else before
