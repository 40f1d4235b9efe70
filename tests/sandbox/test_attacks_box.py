"""What runs in a box against its keeper, and against the one door: bounded stand-ins, each with its end."""

import json

import pytest
from boxed import model

from machine.sandbox.bubblewrap import Bubblewrap
from machine.sandbox.frame import BrokenBox
from machine.sandbox.job import Door, Job, Limits
from machine.sandbox.question import Unfit, fit

QUICK = Limits(seconds=8)
NAME = "tinker://a:train:0/sampler_weights/b"
LIMITED = """
import os, resource, time
resource.prlimit(1, resource.{limit}, (0, 0))
print("set", flush=True)
end = time.monotonic() + 4
while time.monotonic() < end: pass
"""


@pytest.mark.parametrize("limit", ["RLIMIT_NOFILE", "RLIMIT_CPU"])
def test_a_command_that_starves_the_first_process_has_broken_the_box(box, tidy, limit):
    """The kernel lets processes of one user take each other's limits: no fault of the machine, and not to be tried again."""
    out = box.run(Job(["python3", "-c", LIMITED.format(limit=limit)], limits=QUICK))
    assert out.ended in ("broken", "time")
    assert (out.code, out.files) == (None, {})


def test_a_box_that_does_not_start_is_the_machine_s_fault(monkeypatch):
    monkeypatch.setattr("machine.sandbox.view._START", "raise SystemExit('no')")
    with pytest.raises(BrokenBox, match="did not start: no"):
        Bubblewrap().run(Job(["true"], limits=QUICK))


ASK = """
import json, os, sys, urllib.request as u, urllib.error
url = os.environ["MACHINE_MODEL_URL"] + "/chat/completions"
for line in sys.argv[1:]:
    try: print(u.urlopen(u.Request(url, line.encode())).status)
    except urllib.error.HTTPError as e: print(e.code)
"""


def test_a_box_asks_its_own_model_alone(box):
    fine = {"model": NAME, "messages": [], "max_tokens": 10}
    bodies = [fine, fine | {"model": "a/much-better-one"}, fine | {"max_tokens": 100_000}, fine | {"n": 500}]
    with model() as (door, keys):
        own = Door(door.url, door.key, model=NAME, tokens=64)
        out = box.run(Job(["python3", "-c", ASK, *map(json.dumps, bodies)], door=own, limits=QUICK))
    assert out.stdout.split() == [b"200", b"403", b"403", b"403"], out.stderr
    assert len(keys) == len(out.requests) == 1
    assert len(out.refused) == 3
    assert NAME in out.refused[0]


SMUGGLE = """
import os, socket
host, port = "127.0.0.1", int(os.environ["MACHINE_MODEL_URL"].split(":")[2].split("/")[0])
body = b'{{"model": "{name}"}}'
length = b"Content-Length: %d\\r\\n" % len(body)
for head, last in (
    (b"POST //evil/chat/completions HTTP/1.1\\r\\n", length),
    (b"POST http://evil/v1/chat/completions HTTP/1.1\\r\\n", length),
    (b"POST /v1/chat/completions?x=/../models HTTP/1.1\\r\\n", length),
    (b"POST /v1/../v1/chat/completions HTTP/1.1\\r\\n", length),
    (b"CONNECT evil:443 HTTP/1.1\\r\\n", b""),
    (b"POST /v1/chat/completions HTTP/1.1\\r\\n", length + b"Transfer-Encoding: chunked\\r\\n"),
    (b"POST /v1/chat/completions HTTP/1.1\\r\\n", b"Content-Length: 99999999999\\r\\n"),
    (b"POST /v1/chat/completions HTTP/1.1\\r\\n", b"Content-Length: +5\\r\\n"),
    (b"POST /v1/chat/completions HTTP/1.1\\r\\n", b"Content-Length: 1\\r\\n" + length),
):
    with socket.create_connection((host, port), 3) as s:
        s.sendall(head + b"Host: x\\r\\n" + last + b"\\r\\n" + body + b"GET /v1/models HTTP/1.1\\r\\n\\r\\n")
        print(s.recv(12)[9:].decode(), end=" ")
"""


def test_nothing_is_smuggled_past_the_door(box):
    with model() as (door, keys):
        own = Door(door.url, door.key, model=NAME)
        out = box.run(Job(["python3", "-c", SMUGGLE.format(name=NAME)], door=own, limits=QUICK))
    assert out.stdout.split() == [b"403"] * 5 + [b"413"] * 3 + [b"403"], (out.stdout, out.stderr)
    assert keys == []
    assert all(line.isprintable() for line in out.refused)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"model": "NAME", "temperature": NaN}',
        b'{"model": "NAME", "temperature": 1e999}',
        b'{"model": "NAME", "model": "other"}',
        b'{"model": "NAME", "Model": "other"}',
        b'{"model": ["NAME"]}',
        b'{"model": "NAME", "models": ["other"]}',
        b'{"model": "NAME", "n": 2}',
        b'{"model": "NAME", "best_of": 2}',
        b'{"model": "NAME", "max_tokens": 65}',
        b'{"model": "NAME", "max_tokens": 64, "max_completion_tokens": 65}',
        b'{"model": "NAME", "max_tokens": -1}',
        b'{"model": "NAME", "max_tokens": true}',
        b'{"model": "NAME", "max_tokens": 1e3}',
        b'{"model": "NAME", "MAX_TOKENS": 1}',
    ],
)
def test_what_is_no_question_to_the_model_does_not_go_out(body):
    with pytest.raises(Unfit):
        fit(body.replace(b"NAME", NAME.encode()), Door("http://x/v1", model=NAME, tokens=64))


def test_a_question_means_to_the_service_what_it_meant_here():
    door = Door("http://x/v1", model=NAME, tokens=64)
    twice = b'{"model": "other", "model": "%b", "messages": [{"content": "\\ud83d \xc3\xa9"}]}' % NAME.encode()
    sent = fit(twice, door)
    assert sent.count(b'"model"') == 1
    assert json.loads(sent) == {"model": NAME, "messages": [{"content": "\ud83d é"}], "max_tokens": 64}
    assert fit(b"anything", Door("http://x/v1")) == b"anything"


NAMES = """
import os
for name in (b"bad\\xff", b"new\\nline", b"tab\\t", b"x" * 255, b"\\xe2\\x80\\xae"): open(name, "w").write("x")
os.symlink(".", "loop"); os.symlink("/etc", "out"); os.mkfifo("pipe")
here = "deep"
os.mkdir(here); os.chdir(here)
for _ in range(600): os.mkdir("d" * 50); os.chdir("d" * 50)
open("end", "w").write("x")
"""


def test_names_that_are_none_and_trees_without_end_are_told_not_followed(box, tidy):
    out = box.run(Job(["python3", "-c", NAMES], limits=QUICK))
    assert (out.code, out.ended) == (0, "exited"), out.stderr
    assert out.files == {"x" * 255: b"x"}
    assert {"loop", "out", "pipe"} <= set(out.odd)
    assert all(name.isprintable() for name in out.odd)


def test_very_many_files_end_it_as_a_full_disk(box, tidy):
    code = "[open(f'f{i}', 'w').close() for i in range(51_000)]"
    out = box.run(Job(["python3", "-c", code], limits=QUICK))
    assert out.ended == "disk"
    assert len(out.files) <= 20_000
