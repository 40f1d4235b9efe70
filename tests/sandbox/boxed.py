"""What the tests of boxes share: a model endpoint, and a look at what runs on this machine."""

import contextlib
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from machine.errors import Refused
from machine.sandbox import choice
from machine.sandbox.job import Door

KEY = "sk-a-secret-of-the-host"


def chosen(name):
    """The box of that name; skips where it does not work."""
    try:
        return choice.choose(only=name)
    except Refused as refused:
        pytest.skip(str(refused))


class _Model(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.keys.append(self.headers["Authorization"])
        usage = {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}
        body = b'data: {"choices": []}\n\ndata: ' + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def model():
    """An endpoint on this machine: its door, and the keys it was shown."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Model) as server:
        server.keys = []
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield Door(f"http://127.0.0.1:{server.server_port}/v1", KEY), server.keys
        finally:
            server.shutdown()
            thread.join()


def groups(pid=None):
    """The control groups that a process has made: this one, or `pid`."""
    mark = f"machine-box-{pid or os.getpid()}-"
    return [Path(folder) for folder, _, _ in os.walk("/sys/fs/cgroup") if Path(folder).name.startswith(mark)]


def running(mark):
    """The command lines on this machine that hold `mark`."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = file.read_bytes()
            if mark.encode() in line:
                found.append(line)
    return found
