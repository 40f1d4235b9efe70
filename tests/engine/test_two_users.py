"""Two users of one machine: what a process of another user sees of an engine, its files and its port.

The other user is a process that has given up root for the user id 65534, so these tests need root.
"""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from raw import Model, new_session, result, started

from machine.engine import life
from machine.engine.server import load_key
from machine.errors import MachineError

NOBODY = 65534
as_root = pytest.mark.skipif(not hasattr(os, "setuid") or os.getuid() != 0, reason="only root can become another user")
STRANGER = """
import encodings.idna, encodings.latin_1, json, os, sys, urllib.error, urllib.request  # before its files are out of reach
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
url, *paths = json.loads(sys.stdin.read())
def read(path):
    try:
        return repr(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read())
    except OSError as error:
        return type(error).__name__
def get(path, **headers):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url + path, headers=headers), timeout=20) as answer:
            return [answer.status, answer.read().decode()]
    except urllib.error.HTTPError as error:
        return [error.code, error.read().decode()]
asked = ["/api/v1/healthz", "/api/v1/get_server_capabilities", "/api/v1/sessions", "/api/v1/training_runs", "/api/v1/checkpoints",
         "/oai/api/v1/models", "/api/v1/downloads/x/adapter_model.safetensors", "/nowhere"]
print(json.dumps({"files": {path: read(path) for path in paths}, "port": {path: get(path) for path in asked},
                  "guess": get("/api/v1/sessions", **{"X-API-Key": "tml-guess"})}))
"""


@pytest.fixture(scope="module")
def shared(tiny_smollm):
    """An engine in a folder that all may enter, started by a user whose umask hides nothing; with a checkpoint."""
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        state = Path(base) / "engine"
        before = os.umask(0)
        try:
            engine = started(tiny_smollm, state)
            model = Model(engine, session=new_session(engine))
            result(engine, model.learn()[1])
            result(engine, model.step()[1])
            for kind in ("save_weights", "save_weights_for_sampler"):
                result(engine, model.ask(kind, path="mine")[1])
            yield engine
        finally:
            os.umask(before)
            life.stop(state=state)


def everything(folder):
    return [folder, *sorted(folder.rglob("*"))]


def test_every_file_is_private_whatever_the_umask(shared):
    kinds = {path.name for path in everything(shared.home)}
    assert {
        "key",
        "engine.json",
        "engine.log",
        "engine.lock",
        "start.lock",
        "last.json",
        "adapter_model.safetensors",
        "run.json",
        "optimizer.safetensors",
    } <= kinds
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in everything(shared.home)}
    assert {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if Path(path).is_dir() else 0o600)} == {}


def as_stranger(url, paths):
    """What a process of another user reads at these paths, and is told at the port."""
    given = json.dumps([url, *map(str, paths)])
    done = subprocess.run(
        [sys.executable, "-I", "-c", STRANGER], input=given, capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


@as_root
def test_another_user_reads_no_file_and_learns_nothing_at_the_port(shared, tmp_path):
    pid = json.loads((shared.home / "engine.json").read_bytes())["pid"]
    open_to_all = shared.home.parent / "open"
    open_to_all.write_bytes(b"seen")
    seen = as_stranger(
        shared.url, [*everything(shared.home), open_to_all, f"/proc/{pid}/environ", f"/proc/{pid}/cmdline"]
    )
    files = seen["files"]
    assert files.pop(str(open_to_all)) == "b'seen'"
    command = files.pop(f"/proc/{pid}/cmdline")
    assert shared.key not in command
    assert set(files.values()) == {"PermissionError"}
    assert seen["port"].pop("/api/v1/healthz") == [200, '{"status":"ok"}']
    assert {path: status for path, (status, _) in seen["port"].items()} == {
        path: 410 if "downloads" in path else 401 for path in seen["port"]
    }
    told = json.dumps([seen["port"], seen["guess"]])
    for secret in (shared.model, shared.key, str(shared.home), str(shared.model_path), "tiny"):
        assert secret not in told


@as_root
def test_the_folder_hides_even_a_file_that_is_open_to_all(shared):
    (shared.home / "probe").write_bytes(b"x")
    (shared.home / "probe").chmod(0o644)
    assert as_stranger(shared.url, [shared.home / "probe"])["files"] == {str(shared.home / "probe"): "PermissionError"}
    (shared.home / "probe").unlink()


def test_the_engine_listens_on_loopback_alone(shared):
    psutil = pytest.importorskip("psutil")
    pid = json.loads((shared.home / "engine.json").read_bytes())["pid"]
    listening = [each.laddr for each in psutil.Process(pid).net_connections("all") if each.status == psutil.CONN_LISTEN]
    assert listening == [("127.0.0.1", urlsplit(shared.url).port)]
    assert [each for each in psutil.Process(pid).net_connections("unix") if each.laddr] == []


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"tml-", b"tml-short\n", b"\xff\xfe", b"x" * 40, b"tml-" + b"a" * 40 + b"\ntml-b"]
)
def test_a_key_that_could_be_guessed_is_refused(tmp_path, content):
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(MachineError, match="does not hold a key") as raised:
        load_key(tmp_path)
    assert "remove it" in raised.value.next_step


def test_a_key_is_made_once_and_made_private_again(tmp_path):
    key = load_key(tmp_path)
    (tmp_path / "key").chmod(0o644)
    assert load_key(tmp_path) == key
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


@as_root
def test_a_key_of_another_user_or_behind_a_link_is_refused(tmp_path):
    load_key(tmp_path)
    (tmp_path / "key").rename(tmp_path / "other")
    (tmp_path / "key").symlink_to(tmp_path / "other")
    with pytest.raises(MachineError):
        load_key(tmp_path)
    (tmp_path / "key").unlink()
    (tmp_path / "other").rename(tmp_path / "key")
    os.chown(tmp_path / "key", NOBODY, NOBODY)
    with pytest.raises(MachineError, match="another user"):
        load_key(tmp_path)
