"""Real boxes: what a job gets, what it cannot reach, and how each limit ends it."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from machine.errors import Refused
from machine.sandbox import choice, frame
from machine.sandbox.bubblewrap import Bubblewrap
from machine.sandbox.job import Door, Job, Limits

KEY = "sk-a-secret-of-the-host"
QUICK = Limits(seconds=10)


@pytest.fixture(scope="module")
def box():
    reason = choice.why_not(Bubblewrap())
    if reason:
        pytest.skip(f"bubblewrap does not work here: {reason}")
    return Bubblewrap()


def python(code, **more):
    return Job(["python3", "-c", code], **({"limits": QUICK} | more))


def test_files_go_in_and_come_out(box):
    command = "pwd; cat a/b; echo hi > new; ln -s /etc/passwd l; mkfifo f; exit 3"
    out = box.run(Job(["sh", "-c", command], {"a/b": b"x\n"}))
    assert (out.code, out.ended, out.stdout) == (3, "exited", b"/box/work\nx\n")
    assert out.files == {"a/b": b"x\n", "new": b"hi\n"}
    assert sorted(out.odd) == ["f", "l"]


def test_the_host_is_invisible(box, monkeypatch, tmp_path):
    monkeypatch.setenv("A_SECRET", KEY)
    (tmp_path / "other").write_text("other project")
    paths = [str(Path.home() / ".bashrc"), "/etc/shadow", "/var", "/srv", "/opt", str(tmp_path / "other"), __file__]
    out = box.run(python(f"import os; print([p for p in {paths!r} if os.path.exists(p)], dict(os.environ))"))
    assert out.stdout.startswith(b"[] ")
    assert KEY.encode() not in out.stdout


def test_the_kernel_s_settings_are_read_only(box):
    out = box.run(python("open('/proc/sys/vm/swappiness', 'w')"))
    assert b"Read-only file system" in out.stderr


def test_no_network(box):
    with socket.create_server(("127.0.0.1", 0)) as host:
        for address in (host.getsockname(), ("192.0.2.1", 80)):
            out = box.run(python(f"import socket; socket.create_connection({address!r}, 3)"))
            assert out.code == 1
            assert b"refused" in out.stderr or b"unreachable" in out.stderr
            assert out.seconds < 2


HOG = "a = []\nwhile True: a.append(bytearray(1 << 22))"


@pytest.mark.parametrize(
    ("command", "limits", "ended"),
    [
        (["python3", "-c", "while True: pass"], Limits(seconds=0.5), "time"),
        (["yes"], Limits(seconds=10, output=100_000), "output"),
        (["dd", "if=/dev/zero", "of=big", "bs=1M"], Limits(seconds=10, disk=4 << 20), "disk"),
        (["python3", "-c", HOG], Limits(seconds=10, memory=1 << 28), "memory"),
    ],
    ids=["time", "output", "disk", "memory"],
)
def test_each_limit_ends_the_box(box, command, limits, ended):
    out = box.run(Job(command, limits=limits))
    assert out.ended == ended
    assert len(out.stdout) <= limits.output


class Model(BaseHTTPRequestHandler):
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


ASK = """
import os, urllib.request as u, urllib.error
url = os.environ["MACHINE_MODEL_URL"]
print(u.urlopen(u.Request(url + "/chat/completions", b"{}")).read().decode())
try: u.urlopen(url + "/models")
except urllib.error.HTTPError as e: print(e.code)
try: open("/proc/1/environ")
except PermissionError: print("closed")
try: open("/proc/1/fd/1", "w")
except PermissionError: print("closed")
"""


def test_the_model_answers_through_the_relay_and_the_result_cannot_be_forged(box):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.keys = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    out = box.run(python(ASK, door=Door(f"http://127.0.0.1:{server.server_port}/v1", KEY)))
    server.shutdown()
    server.server_close()
    assert out.stderr == b""
    assert b"[DONE]" in out.stdout
    assert out.stdout.split()[-3:] == [b"403", b"closed", b"closed"]
    assert server.keys == [f"Bearer {KEY}"]
    assert [(r.status, r.prompt_tokens, r.completion_tokens) for r in out.requests] == [(200, 7, 2)]
    assert out.refused == ("GET /v1/models",)


def test_a_forged_result_is_refused():
    said = {"code": 0, "ended": "exited", "seconds": 1.0, "stdout": 0, "stderr": 0, "odd": [], "files": [["../x", 1]]}
    head = json.dumps(said).encode()
    with pytest.raises(frame.BrokenBox, match="leaves the work folder"):
        frame.unpack(len(head).to_bytes(8, "big") + head + b"x", Job(["true"]))


def test_no_box_is_a_refusal_unless_unsafe(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(Refused, match=r"docker is not installed.*bubblewrap is not installed"):
        choice.choose()
    assert choice.choose(unsafe=True).name == "none"


def test_the_key_stays_out():
    assert KEY not in repr(Door("http://x/v1", KEY))
    with pytest.raises(Refused, match="key"):
        Job(["true"], env={"K": KEY}, door=Door("http://x/v1", KEY))
