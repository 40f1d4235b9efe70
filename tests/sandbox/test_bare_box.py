"""No box: what is ended all the same, and the group that bounds it."""

import os
import subprocess
import time

import pytest
from boxed import running

from machine.sandbox import cgroup
from machine.sandbox.bare import Bare, sweep
from machine.sandbox.job import Job, Limits

STRAY = """
import os, subprocess
subprocess.Popen(["sleep", "{mark}"], start_new_session=True)
os.kill(os.getppid(), 9)
"""


ORPHANS = """
import subprocess
for _ in range(20): subprocess.Popen(["sh", "-c", "setsid setsid sleep {mark} & exit"], start_new_session=True)
"""


def test_the_first_process_alone_ends_orphans_of_many_sessions(tidy, monkeypatch):
    monkeypatch.setattr(cgroup, "_own_groups", list)
    monkeypatch.setattr("machine.sandbox.bare.sweep", lambda folder: None)
    out = Bare().run(Job(["python3", "-c", ORPHANS.format(mark=tidy)], limits=Limits(seconds=10)))
    assert out.ended == "exited"
    assert running(tidy) == []


@pytest.mark.parametrize("grouped", [True, False])
def test_a_job_that_kills_its_keeper_is_ended_too(tidy, monkeypatch, grouped):
    if not grouped:
        monkeypatch.setattr(cgroup, "_own_groups", list)
    out = Bare().run(Job(["python3", "-c", STRAY.format(mark=tidy)], limits=Limits(seconds=10)))
    assert (out.ended, out.code, out.files) == ("broken", None, {})
    assert running(tidy) == []


def test_the_sweep_ends_what_works_in_the_folder_and_nothing_else(tmp_path):
    (tmp_path / "in").mkdir()
    inside = subprocess.Popen(["sleep", "20"], cwd=tmp_path / "in", env={})
    named = subprocess.Popen(["sleep", "20"], env={"X": f"{tmp_path}/in"})
    other = subprocess.Popen(["sleep", "20"], cwd=tmp_path, env={})
    try:
        time.sleep(0.1)
        sweep(tmp_path / "in")
        assert (inside.wait(2), named.wait(2), other.poll()) == (-9, -9, None)
    finally:
        for process in (inside, named, other):
            process.kill()
            process.wait()


def test_a_group_is_emptied_when_it_ends():
    if not cgroup.MOUNT.joinpath("pids").exists() or os.getuid():
        pytest.skip("no control group of the first version here")
    with cgroup.group(1 << 30, 10) as group:
        sleeper = subprocess.Popen(group.around(["sleep", "20"]), start_new_session=True)
        time.sleep(0.2)
    assert sleeper.wait(2) == -9
