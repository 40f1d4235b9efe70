import os
import signal
import subprocess
import sys
import time

import pytest

from machine.engine import life
from machine.errors import ServiceError


@pytest.fixture
def state(tmp_path):
    yield tmp_path / "state"
    life.stop(state=tmp_path / "state")


def soon(condition):
    """Whether it holds within 5 s: a killed process takes a moment to free what it held."""
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.fixture
def folder(tiny_folder, small_folder, tmp_path):
    """The tiny model with the small one's tokenizer: starts at once."""
    made = tmp_path / "tiny-smollm"
    made.mkdir()
    for source in (*small_folder.glob("tokenizer*"), *tiny_folder.glob("*.safetensors"), tiny_folder / "config.json"):
        (made / source.name).symlink_to(source)
    return made


def test_start_status_stop_and_start_after_kill(folder, state):
    assert life.status(state=state) is None
    info = life.start(folder, state=state)
    assert life.start(folder, state=state) == life.status(state=state) == info
    assert {file.stat().st_mode & 0o777 for file in state.iterdir()} <= {0o600, 0o700}
    key = (state / "key").read_text()
    assert key.startswith("tml-")
    with pytest.raises(ServiceError, match="running"):
        life.start(folder.parent, state=state)

    os.kill(info.pid, signal.SIGKILL)
    assert soon(lambda: life.status(state=state) is None)
    assert (state / "engine.json").exists()
    again = life.start(folder, state=state)
    assert again.pid != info.pid
    assert (state / "key").read_text() == key

    assert life.stop(state=state)
    assert not (state / "engine.json").exists()
    assert life.status(state=state) is None
    assert not life.stop(state=state)
    assert key not in (state / "engine.log").read_text()


def test_a_failed_start_tells_the_end_of_its_log(tmp_path, state):
    with pytest.raises(ServiceError, match=r"not a Hugging Face model folder.*config\.json"):
        life.start(tmp_path, state=state)


def test_a_taken_port_is_told(engine, tmp_path):
    port = engine.url.rpartition(":")[2]
    command = [sys.executable, "-m", "machine.engine.server", "--model", str(engine.model_path)]
    done = subprocess.run([*command, "--state", str(tmp_path), "--port", port], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr
    assert "Traceback" not in done.stderr
