"""RPC: JSON-RPC 2.0, both ways, over two pipes.

A frame is one line of ASCII-escaped JSON ended by the byte LF, so that no character of the content (U+2028, a lone
surrogate) can break one. Each request is served in a thread of its own, notifications one after another as they come;
`serve` returns when the other end is gone.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

GONE = -32001
UNKNOWN_METHOD = -32601
INTERNAL = -32603

Handler = Callable[[str, dict[str, Any]], Any]


class RpcError(Exception):
    """What the other end said when it refused a request, with its JSON-RPC error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Reply:
    """The answer to one request, once it is there."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.result: Any = None
        self.error: RpcError | None = None


class Peer:
    """One conversation. `call` and `notify` may be used from any thread."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader = reader
        self._writer = writer
        self._writing = threading.Lock()
        self._waiting: dict[str, _Reply] = {}
        self._sent = 0

    def call(self, method: str, **params: Any) -> Any:
        """Asks the other end and waits for its answer, for as long as a person may take.

        Raises:
            RpcError: it refused, or the context that the call was for is gone (`code == GONE`).
        """
        reply = _Reply()
        with self._writing:
            self._sent += 1
            name = f"p{self._sent}"
            self._waiting[name] = reply
        self._send({"id": name, "method": method, "params": params})
        reply.arrived.wait()
        if reply.error is not None:
            raise reply.error
        return reply.result

    def fail_waiting(self, message: str) -> None:
        """Fails every call that still waits: what it asked can no longer be answered."""
        for name in list(self._waiting):
            self._settle({"id": name, "error": {"code": GONE, "message": message}})

    def serve(self, handler: Handler) -> None:
        """Reads frames until the other end closes the pipe, and answers its requests with `handler`.

        What `handler` does on a notification, which has no answer, must not wait for the other end.
        """
        for line in self._reader:  # of bytes: they end at LF, and nowhere else
            if line.endswith(b"\n"):
                self._receive(line, handler)

    def _receive(self, line: bytes, handler: Handler) -> None:
        frame = json.loads(line)
        if "method" not in frame:
            self._settle(frame)
        elif "id" not in frame:
            self._answer(frame, handler)
        else:
            threading.Thread(target=self._answer, args=(frame, handler), daemon=True).start()

    def _answer(self, frame: dict[str, Any], handler: Handler) -> None:
        try:
            outcome = {"result": handler(frame["method"], frame.get("params") or {})}
        except RpcError as error:
            outcome = {"error": {"code": error.code, "message": str(error)}}
        except (Exception, SystemExit) as error:  # the other end waits: it must hear of any fault
            traceback.print_exc(file=sys.stderr)
            outcome = {"error": {"code": INTERNAL, "message": f"{type(error).__name__}: {error}"}}
        if "id" in frame:
            self._send({"id": frame["id"], **outcome})

    def _settle(self, frame: dict[str, Any]) -> None:
        reply = self._waiting.pop(frame["id"], None)
        if reply is None:
            return
        if "error" in frame:
            reply.error = RpcError(frame["error"]["code"], frame["error"]["message"])
        reply.result = frame.get("result")
        reply.arrived.set()

    def _send(self, frame: dict[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **frame}).encode("ascii") + b"\n"
        with self._writing:
            self._writer.write(line)
            self._writer.flush()


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keeps stdin and stdout for the protocol; from here on a `print`, or a child process, writes to stderr."""
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return reader, writer
