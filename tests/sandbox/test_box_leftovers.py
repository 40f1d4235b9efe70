"""What a box leaves behind is nothing but its outcome, however its command behaved."""

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from boxed import groups, running

from machine.sandbox import cgroup
from machine.sandbox.job import MIB, Job, Limits

DAEMON = """
import subprocess
subprocess.Popen(["sleep", "{mark}"], start_new_session=True)
subprocess.Popen(["sh", "-c", "trap '' TERM HUP; sleep {mark}"], process_group=0)
"""
MANY = """
import os
for folder in range(100):
    os.mkdir(f"d{folder}")
    for n in range(100):
        with open(f"d{folder}/f{n}", "w") as file: file.write(f"{folder}.{n}")
"""
TRAPS = """
ln -s /etc/passwd file-link; ln -s /etc folder-link; ln -s . round; ln -s nowhere broken
mkfifo fifo; mkdir sub; ln -s ../../home/secret sub/home-link
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')"
ln "$HOME/secret" hard; echo plain > sub/plain; mkdir locked; echo in > locked/in; chmod 0 locked
"""


def test_background_processes_die_with_the_box(any_box, tidy):
    out = any_box.run(Job(["python3", "-c", DAEMON.format(mark=tidy)], limits=Limits(seconds=10)))
    assert (out.code, out.ended) == (0, "exited")
    assert out.seconds < 5
    assert running(tidy) == []


def test_ten_thousand_files_come_out(box, tidy):
    out = box.run(Job(["python3", "-c", MANY], limits=Limits(seconds=20, disk=64 * MIB)))
    assert out.ended == "exited"
    assert len(out.files) == 10_000
    assert out.files["d7/f42"] == b"7.42"
    assert out.odd == ()


def test_two_boxes_at_once_do_not_meet(any_box, tidy):
    outs = {}

    def one(name):
        command = f"echo {name} > mine; echo {name} > $TMPDIR/mine; sleep 0.5; cat mine $TMPDIR/mine; ls"
        outs[name] = any_box.run(Job(["sh", "-c", command], limits=Limits(seconds=10)))

    threads = [threading.Thread(target=one, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, out in outs.items():
        assert out.stdout.decode().split() == [name, name, "mine"]
        assert out.files == {"mine": f"{name}\n".encode()}


def test_what_is_no_file_is_named_and_never_followed(any_box, tidy):
    out = any_box.run(Job(["sh", "-c", TRAPS], home={"secret": b"of the home"}, limits=Limits(seconds=10)))
    assert out.stderr == b""
    assert sorted(out.odd) == ["broken", "fifo", "file-link", "folder-link", "round", "socket", "sub/home-link"]
    assert out.files == {"hard": b"of the home", "sub/plain": b"plain\n", "locked/in": b"in\n"}


@pytest.mark.parametrize("any_box", ["bubblewrap", "none"], indirect=True)
def test_a_box_that_does_not_end_by_itself_is_ended_from_outside(any_box, tidy, monkeypatch):
    monkeypatch.setattr("machine.sandbox.running.GRACE", -9.5)
    began = time.monotonic()
    out = any_box.run(Job(["sleep", tidy], limits=Limits(seconds=10)))
    assert out.ended == "time"
    assert time.monotonic() - began < 9


ALONE = """
import sys
from machine.sandbox.bare import Bare
from machine.sandbox.bubblewrap import Bubblewrap
from machine.sandbox.docker import Docker
from machine.sandbox.job import Job
kinds = {{"none": Bare, "bubblewrap": Bubblewrap, "docker": Docker}}
kinds["{name}"]().run(Job(["sh", "-c", "setsid sleep {mark} & sleep {mark}"]))
"""


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("any_box", ["bubblewrap", "none"], indirect=True)
def test_the_box_dies_with_the_one_who_runs_it(any_box, tidy, blow):
    caller = subprocess.Popen(
        [sys.executable, "-c", ALONE.format(name=any_box.name, mark=tidy)], stderr=subprocess.PIPE
    )
    until = time.monotonic() + 10
    while not any(line.startswith(b"sleep") for line in running(tidy)) and time.monotonic() < until:
        time.sleep(0.02)
    assert running(tidy)
    caller.send_signal(blow)
    caller.communicate(timeout=10)
    until = time.monotonic() + 10
    while running(tidy) and time.monotonic() < until:
        time.sleep(0.02)
    assert running(tidy) == []
    if blow == signal.SIGKILL:
        for left in Path(tempfile.gettempdir()).iterdir():
            shutil.rmtree(left)
    assert [g for g in groups(caller.pid) if blow == signal.SIGINT] == []
    for group in groups(caller.pid):
        cgroup._remove(group)
