"""Real boxes: what a job gets, and what it cannot reach."""

import json
import socket
from pathlib import Path

import pytest
from boxed import KEY, model

from machine.errors import Refused
from machine.sandbox import choice, frame
from machine.sandbox.job import Door, Job, Limits

QUICK = Limits(seconds=10)


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
    with model() as (door, keys):
        out = box.run(python(ASK, door=door))
    assert out.stderr == b""
    assert b"[DONE]" in out.stdout
    assert out.stdout.split()[-3:] == [b"403", b"closed", b"closed"]
    assert keys == [f"Bearer {KEY}"]
    assert [(r.status, r.prompt_tokens, r.completion_tokens) for r in out.requests] == [(200, 7, 2)]
    assert out.refused == ("GET /v1/models",)


FDS = "import os; print(sorted(os.listdir('/proc/self/fd'))); os.write(1, bytes(8) + b'{}')"


def test_the_command_has_no_stream_but_its_own(any_box):
    out = any_box.run(python(FDS))
    assert out.ended == "exited"
    assert out.stdout == bytes(8) + b"{}['0', '1', '2', '3']\n"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"files": [["../x", 1]]}, "leaves the work folder"),
        ({"files": [["/x", 1]]}, "leaves the work folder"),
        ({"files": [["a/../../x", 1]]}, "leaves the work folder"),
        ({"files": [["x", -1], ["y", 2]]}, "a size is not a number"),
        ({"files": [["x", True]]}, "a size is not a number"),
        ({"files": [["x", 1 << 40]]}, "too much data"),
        ({"files": [["x", 0]] * 2 + [["y", 1]]}, "leaves the work folder"),
        ({"files": [["x", 2]]}, "cut off"),
        ({"stdout": 1 << 40}, "too much output"),
        ({"files": [], "stdout": 1, "ended": "won"}, "its end is not one"),
        ({"files": [], "stdout": 1, "code": "0"}, "exit code"),
        ({"odd": ["x"] * 2000}, "too many files"),
        ({"files": 7}, "cannot be read"),
    ],
)
def test_a_forged_result_is_refused(change, why):
    said = {"code": 0, "ended": "exited", "seconds": 1.0, "stdout": 0, "stderr": 0, "odd": [], "files": [["x", 1]]}

    def frame_of(said):
        head = json.dumps(said).encode()
        return frame.BEGUN + len(head).to_bytes(8, "big") + head + b"x"

    assert frame.unpack(frame_of(said), Job(["true"])).files == {"x": b"x"}
    with pytest.raises(frame.BrokenBox, match=why):
        frame.unpack(frame_of(said | change), Job(["true"]))


SEEN = """
import os, pathlib
own = pathlib.Path("/proc/self")
others = [p for p in pathlib.Path("/proc").glob("[0-9]*") if os.environ["MACHINE_WORK"] == "/box/work"]
for folder in [own, *others]:
    for name in ("environ", "cmdline"):
        try: print((folder / name).read_bytes())
        except OSError as error: print(error)
print(sorted(os.environ))
"""


def test_the_environment_is_the_box_s_own_and_without_the_key(any_box, monkeypatch):
    for name in ("OPENAI_API_KEY", "TINKER_API_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, KEY)
    with model() as (door, _):
        out = any_box.run(python(SEEN, door=door, env={"GIVEN": "yes"}))
    names = ["GIVEN", "HOME", "LANG", "MACHINE_MODEL_URL", "MACHINE_WORK", "PATH", "TMPDIR"]
    assert out.stdout.splitlines()[-1].decode() == str(names)
    assert KEY.encode() not in out.stdout


def test_no_box_is_a_refusal_unless_unsafe(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.prefix", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"docker is not installed.*bubblewrap is not installed"):
        choice.choose()
    assert choice.choose(unsafe=True).name == "none"


def test_the_key_stays_out():
    assert KEY not in repr(Door("http://x/v1", KEY))
    with pytest.raises(Refused, match="key"):
        Job(["true"], env={"K": KEY}, door=Door("http://x/v1", KEY))
