"""How each limit ends a real box. Whatever a test starts is bounded by its own text, and ends by itself in 20 s."""

import contextlib
import os
import threading
import time

import pytest
from boxed import groups, model, running

from machine.sandbox import cgroup
from machine.sandbox.job import MIB, Job, Limits

HOG = "import time\na = []\nfor _ in range(600): a.append(bytearray(1 << 22))\ntime.sleep(20)"
FLOOD = "import sys\nfor _ in range(64): sys.stdout.write('x' * (1 << 20))"
FILL = ["dd", "if=/dev/zero", "of=big", "bs=1M", "count=200"]
SWARM = """
import contextlib, subprocess, time
for n in range({children}):
    with contextlib.suppress(OSError): subprocess.Popen(["sleep", "{mark}"], start_new_session=n % 2 == 1)
time.sleep(20)
"""
THREADS = """
import contextlib, threading, time
for _ in range(200):
    with contextlib.suppress(RuntimeError): threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
time.sleep(0.7)
"""
ASK = """
import os, time, urllib.request as u, urllib.error
for _ in range(5):
    print(u.urlopen(u.Request(os.environ["MACHINE_MODEL_URL"] + "/chat/completions", b"{}")).status, flush=True)
time.sleep(20)
"""


def swarm(mark, limit, children):
    code = SWARM.format(mark=mark, children=children)
    return Job(["python3", "-I", "-c", code], limits=Limits(seconds=15, processes=limit))


@contextlib.contextmanager
def counted():
    """What the kernel counts of this process's groups, looked at until the end: (now, at most)."""
    seen, done = [], threading.Event()

    def look():
        while not done.wait(0.005):
            for group in groups():
                with contextlib.suppress(OSError, ValueError):
                    seen.append(tuple(int((group / name).read_text()) for name in ("pids.current", "pids.max")))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("command", "limits", "ended"),
    [
        (["sleep", "60"], Limits(seconds=0.5), "time"),
        (["python3", "-c", FLOOD], Limits(seconds=10, output=100_000), "output"),
        (FILL, Limits(seconds=10, disk=4 * MIB, file=400 * MIB), "disk"),
        (FILL, Limits(seconds=10, file=4 * MIB), "disk"),
        (["python3", "-c", HOG], Limits(seconds=10, memory=256 * MIB), "memory"),
    ],
    ids=["time", "output", "disk", "file", "memory"],
)
def test_each_limit_ends_the_box(any_box, tidy, command, limits, ended):
    out = any_box.run(Job(command, limits=limits))
    assert out.ended == ended
    assert out.seconds < 5
    assert len(out.stdout) <= limits.output
    assert sum(map(len, out.files.values())) <= limits.disk


def test_a_swarm_of_processes_ends_the_box(any_box, tidy):
    limit, children = (20, 60) if any_box.name == "none" else (40, 600)
    with counted() as seen:
        out = any_box.run(swarm(tidy, limit, children))
    assert out.ended == "processes"
    assert out.seconds < 5
    assert running(tidy) == []
    assert all(now <= most for now, most in seen)


@pytest.mark.parametrize("any_box", ["bubblewrap", "none"], indirect=True)
def test_the_watch_alone_ends_a_swarm(any_box, tidy, monkeypatch):
    """As where no control group can be had."""
    children = 60 if any_box.name == "none" else 300
    monkeypatch.setattr(cgroup, "group", lambda *_: contextlib.nullcontext(cgroup.Group()))
    out = any_box.run(swarm(tidy, 20, children))
    assert out.ended == "processes"
    assert running(tidy) == []


@pytest.mark.parametrize("any_box", ["bubblewrap", "none"], indirect=True)
def test_the_kernel_alone_ends_a_swarm(any_box, tidy):
    """Threads are no processes to the watch: what stops them is the control group."""
    if not (cgroup.MOUNT / "pids").is_dir() or os.getuid():
        pytest.skip("no control group of the first version here")
    with counted() as seen:
        out = any_box.run(Job(["python3", "-I", "-c", THREADS], limits=Limits(seconds=10, processes=5)))
    assert out.ended == "processes"
    assert max(seen) == (5 * 8 + 16, 5 * 8 + 16)


def test_the_last_question_ends_the_box(any_box, tidy):
    with model() as (door, keys):
        began = time.monotonic()
        out = any_box.run(Job(["python3", "-c", ASK], door=door, limits=Limits(seconds=15, requests=2)))
    assert out.ended == "requests"
    assert out.stdout == b"200\n200\n"
    assert len(keys) == len(out.requests) == 2
    assert time.monotonic() - began < 10
