"""With the engine nothing leaves: the whole loop, and the count of what its processes send to anywhere but loopback.

Where the system lets a process have a network of its own, the kernel counts (`enclosed`): that holds for whatever
library sends, and for those that are not Python too. Elsewhere the processes are watched, which is weaker: their
connections are looked at some twenty times a second, so that a short one may be missed, and Python's own sockets are
audited (`watch`). Neither sees what goes through another program's Unix socket.
"""

import ipaddress
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).parent
FAR = "203.0.113.1"
UNSHARE = ["unshare", "--map-root-user", "--net", "--mount"]
LOOP = {"validate": "SMOKE ONLY", "trained": 1, "cases": 1, "chat": 2}


def environment(home: Path) -> dict[str, str]:
    """As a user has it: nothing tells libraries to keep still."""
    told = {"HF_HUB_OFFLINE", "TINKER_TELEMETRY", "TRANSFORMERS_OFFLINE", "DO_NOT_TRACK"}
    kept = {name: value for name, value in os.environ.items() if name not in told and "proxy" not in name.lower()}
    return kept | {"MACHINE_DATA_DIR": str(home), "PYTHONPATH": str(HERE)}


def enclosed(command: Sequence[str], folder: Path, env: dict[str, str]) -> tuple[str, dict]:
    """What a command prints in a network of its own, and the counts (see `enclosed.py`)."""
    file = folder / "counts.json"
    words = [*UNSHARE, sys.executable, str(HERE / "enclosed.py"), str(file), *command]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text())


def watched(command: Sequence[str], folder: Path, env: dict[str, str]) -> tuple[str, set[str]]:
    """What a command prints, and the far ends that it or a process of its own was seen to reach for."""
    file, printed = folder / "watched", folder / "printed"
    env = env | {"WATCH_FILE": str(file), "PYTHONPATH": os.pathsep.join([str(HERE / "watch"), str(HERE)])}
    seen = set[str]()
    with printed.open("w") as out, subprocess.Popen(command, env=env, stdout=out) as child:
        while child.poll() is None:
            seen |= far_ends(child.pid)
            time.sleep(0.05)
    assert child.returncode == 0
    return printed.read_text(), seen | set(file.read_text().splitlines() if file.exists() else ())


def far_ends(pid: int) -> set[str]:
    found = set[str]()
    try:
        tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for each in tree:
            found |= {c.raddr.ip for c in each.net_connections("inet") if c.raddr}
    except psutil.Error:
        pass
    return {host for host in found if not ipaddress.ip_address(host.partition("%")[0]).is_loopback}


@pytest.fixture(scope="module")
def has_network_of_its_own(tmp_path_factory):
    """Skips where no process can have one, or where its counts miss what is sent on purpose."""
    if not all(map(shutil.which, ("unshare", "ip", "mount"))) or not Path("/proc/net/snmp6").exists():
        pytest.skip("unshare, ip, mount and Linux's counters are needed")
    file = tmp_path_factory.mktemp("enclosed") / "tried.json"
    words = [*UNSHARE, sys.executable, str(HERE / "enclosed.py"), str(file), "true"]
    tried = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if tried.returncode:
        pytest.skip(f"no network of its own can be had here: {tried.stderr.strip().splitlines()[-1:]}")
    if 0 in json.loads(file.read_text())["control"]:
        pytest.skip("the counts miss what is sent on purpose")


@pytest.fixture
def at_home(tmp_path, home):
    """A project's folder, and the words and the environment of the loop in it."""
    pytest.importorskip("torch")
    from machine.engine.models.convert import ensure_model

    ensure_model()
    project = tmp_path / "app"
    project.mkdir()
    return [sys.executable, str(HERE / "home_loop.py"), str(project)], environment(home)


def test_the_whole_loop_sends_nothing_to_anywhere(has_network_of_its_own, at_home, tmp_path):
    printed, counts = enclosed(*at_home[:1], tmp_path, at_home[1])
    assert json.loads(printed.splitlines()[-1]) == LOOP
    assert counts["quiet"] == 0
    assert min(counts["control"]) > 0
    assert counts["command"] == 0


def test_where_there_is_no_such_network_the_processes_of_the_loop_are_watched(request, at_home, tmp_path):
    try:
        request.getfixturevalue("has_network_of_its_own")
    except pytest.skip.Exception:
        printed, seen = watched(*at_home[:1], tmp_path, at_home[1])
        assert json.loads(printed.splitlines()[-1]) == LOOP
        assert seen == set()
    else:
        pytest.skip("the kernel counts here")


@pytest.mark.parametrize("command", ["curl", "python"])
def test_what_is_sent_is_counted_whoever_sends_it(has_network_of_its_own, tmp_path, home, command):
    words = {
        "python": [sys.executable, "-c", connecting(FAR)],
        "curl": ["sh", "-c", f"curl -s -m 1 http://{FAR}/ || true"],
    }[command]
    if command == "curl" and not shutil.which("curl"):
        pytest.skip("there is no curl")
    _, counts = enclosed(words, tmp_path, environment(home))
    assert counts["command"] > 0


def test_a_process_that_is_watched_is_seen_to_reach_out_and_not_to_talk_to_itself(tmp_path, home):
    env = environment(home)
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {connecting(FAR)!r}])"
    assert watched([sys.executable, "-c", child], tmp_path, env)[1] >= {f"socket.connect {FAR}"}
    (tmp_path / "watched").unlink()
    here = (
        "import socket, time; server = socket.create_server(('127.0.0.1', 0)); "
        "held = socket.create_connection(('localhost', server.getsockname()[1])); time.sleep(0.3)"
    )
    assert watched([sys.executable, "-c", here], tmp_path, env)[1] == set()


def connecting(host: str) -> str:
    """A program that tries to connect to a host, and ends well whatever comes of it."""
    return (
        "import contextlib, socket\n"
        f"with contextlib.suppress(OSError): socket.create_connection(({host!r}, 443), timeout=0.3)"
    )
