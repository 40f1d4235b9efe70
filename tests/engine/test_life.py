import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from raw import Model, result, started

from fixtures_engine import RunningEngine
from machine import discovery
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


def test_start_status_stop_and_start_after_kill(tiny_smollm, state):
    folder = tiny_smollm
    assert life.status(state=state) is None
    info = life.start(folder, state=state)
    assert life.start(folder, state=state) == life.status(state=state) == info
    assert {file.stat().st_mode & 0o777 for file in state.iterdir()} <= {0o600, 0o700}
    assert os.getpriority(os.PRIO_PROCESS, info.pid) >= 10
    taken = life.use(info)
    assert 1e8 < taken.memory <= taken.peak < 1e10
    assert taken.seconds > 0
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
    logs = [(state / name).read_text() for name in ("engine.log", "engine.log.1")]
    assert f"process {again.pid}" in logs[0]
    assert "stopped" in logs[0]
    assert f"process {info.pid}" in logs[1]
    assert key not in "".join(logs)


def saves(model):
    """Some that replace each other, some that do not."""
    for n in range(40):
        model.ask("save_weights", path=f"s{n % 7}")


def loads(model):
    for _ in range(40):
        model.ask("load_weights", path=f"tinker://{model.id}/weights/first", optimizer=True)


def samples(model):
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}
    asked = {"prompt": prompt, "sampling_params": {"max_tokens": 100}, "base_model": model.engine.model}
    model.engine.request("POST", "/api/v1/asample", asked | {"num_samples": 16})


@pytest.mark.timeout(600)
def test_killed_in_any_phase_it_starts_clean_and_training_goes_on_from_the_last_checkpoint(tiny_smollm, state):
    phases = [lambda model: model.learn(rows=2000, length=60), saves, loads, samples]
    chance, paths = random.Random(1), []
    for phase in [*phases, None]:
        engine = started(tiny_smollm, state)
        model = Model(engine)
        listed = engine.request("GET", "/api/v1/checkpoints?limit=500")[1]["checkpoints"]
        assert {c["tinker_path"] for c in listed} >= set(paths)
        assert not [found for found in state.glob("checkpoints/*/*/.*")]
        for path in [c["tinker_path"] for c in listed]:
            loaded = result(engine, model.ask("load_weights", path=path, optimizer=True)[1])
            assert loaded.get("path") == path, loaded
        assert result(engine, model.learn()[1])["loss:sum"] > 0
        assert "metrics" in result(engine, model.step()[1])
        paths.append(result(engine, model.ask("save_weights", path="first")[1])["path"])
        if phase is not None:
            phase(model)
            time.sleep(chance.uniform(0.0, 0.3))
            os.kill(life.status(state=state).pid, signal.SIGKILL)
            assert soon(lambda: life.status(state=state) is None)

    waiting = [model.learn(rows=8000, length=60)[1], model.learn()[1]]
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(result, engine, each) for each in waiting]
        time.sleep(0.5)
        assert life.stop(state=state)
        assert [answer.result()["error"] for answer in answers] == ["the engine was stopped"] * 2
    assert "stopped" in (state / "engine.log").read_text()
    assert not [found for found in state.glob("checkpoints/*/*/.*")]


def test_an_engine_that_nobody_asks_anything_ends_and_comes_back_as_it_was(tiny_smollm, state):
    info = life.start(tiny_smollm, state=state, manner=life.Manner(idle=0.05))
    engine = RunningEngine(info.url, (state / "key").read_text(), state, info.model, info.model_path)
    for _ in range(5):  # longer than the 3 s, but never without a request for so long
        time.sleep(1)
        assert engine.request("POST", "/api/v1/create_session", {"tags": [], "sdk_version": "0"})[0] == 200
    assert life.status(state=state) == info
    deadline = time.monotonic() + 15
    while life.status(state=state) is not None and time.monotonic() < deadline:
        time.sleep(0.2)
        assert not discovery.proves(info.url, "tml-wrong")  # a look whether it is there is no use of it
    assert life.status(state=state) is None
    assert not (state / "engine.json").exists()
    assert "nobody asked anything for 0.05 minutes" in (state / "engine.log").read_text()
    again = life.start(state=state)
    assert (again.url, again.model_path, again.idle) == (info.url, info.model_path, 0.05)


def test_who_answers_proves_that_it_has_the_key_and_is_not_sent_it(tiny_smollm, state):
    info = life.start(tiny_smollm, state=state)
    key = discovery.key(state)
    assert discovery.proves(info.url, key)
    assert not discovery.proves(info.url, key + "x")
    os.kill(info.pid, signal.SIGKILL)
    assert soon(lambda: life.status(state=state) is None)
    heard = []

    class Impostor(BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append((self.path, dict(self.headers)))
            body = json.dumps({"status": "ok", "proof": "0" * 64}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", int(info.url.rpartition(":")[2])), Impostor) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        assert not discovery.proves(info.url, key)
        again = life.start(state=state)
        server.shutdown()
    assert again.url != info.url
    assert [path for path, _ in heard] == ["/api/v1/healthz"]
    assert key not in str(heard)


@pytest.mark.parametrize("kept", [b"{", b"[]", b'{"idle": "long"}', b'{"model": "/no/such/folder", "idle": 7}'])
def test_what_was_kept_of_the_last_start_is_believed_where_it_can_be(state, kept):
    state.mkdir()
    (state / "last.json").write_bytes(kept)
    assert life.last(state) == life.Manner()


def test_a_failed_start_tells_the_end_of_its_log(tmp_path, state):
    with pytest.raises(ServiceError, match=r"not a Hugging Face model folder.*config\.json"):
        life.start(tmp_path, state=state)


def test_a_taken_port_is_told(tiny_smollm, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "machine.engine.server", "--model", str(tiny_smollm)]
        done = subprocess.run([*command, "--state", str(tmp_path), "--port", port], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr
    assert "Traceback" not in done.stderr
