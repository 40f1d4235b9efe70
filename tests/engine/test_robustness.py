"""Engine processes that are asked for too much and told wrong things: the tiny model's, where that will do."""

import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from raw import Model, new_session, result, started

from machine.engine import life


@pytest.fixture(scope="module")
def tiny(tiny_smollm, tmp_path_factory):
    state = tmp_path_factory.mktemp("state")
    yield started(tiny_smollm, state)
    life.stop(state=state)


@pytest.fixture
def model(tiny):
    return Model(tiny)


def memory(pid, name):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def sample(engine, tokens=1):
    """The answer to a short prompt, in protobuf."""
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}
    asked = {"prompt": prompt, "sampling_params": {"max_tokens": tokens}, "base_model": engine.model}
    return result(engine, engine.request("POST", "/api/v1/asample", asked)[1])


def test_a_batch_that_does_not_fit_in_memory_fails_and_the_engine_goes_on(engine):
    model = Model(engine)
    pid = life.status(state=engine.home).pid
    assert result(engine, model.learn()[1])["loss:sum"] > 0
    before = resource.prlimit(pid, resource.RLIMIT_DATA)
    resource.prlimit(pid, resource.RLIMIT_DATA, (memory(pid, "VmData") + 100 * 2**20, before[1]))
    try:
        failed = [result(engine, model.learn(rows=8, length=126)[1]) for _ in range(2)]
    finally:
        resource.prlimit(pid, resource.RLIMIT_DATA, before)
    for answer in failed:
        assert answer["category"] == "user"
        assert "out of memory" in answer["error"]
    assert result(engine, model.step()[1])["metrics"]["grad_norm:mean"] > 0, "the first gradient is still there"
    assert "out of memory" in (engine.home / "engine.log").read_text()


def test_what_is_not_finite_is_a_user_error_and_changes_nothing(tiny, model):
    loss = result(tiny, model.learn()[1])["loss:sum"]
    bad = result(tiny, model.learn(weight=3e38)[1])
    assert (bad["category"], "loss is" in bad["error"]) == ("user", True)
    result(tiny, model.step(learning_rate=0.0)[1])
    result(tiny, model.learn(weight=1e30)[1])
    bad = result(tiny, model.step()[1])
    assert (bad["category"], "gradient is not finite" in bad["error"]) == ("user", True)
    assert result(tiny, model.learn()[1])["loss:sum"] == pytest.approx(loss)


def test_one_session_with_many_jobs_does_not_starve_another(tiny, model):
    other = Model(tiny)
    with ThreadPoolExecutor(16) as pool:
        promised = list(pool.map(lambda n: model.learn(rows=8, length=60, seq=n)[1], range(1, 65)))
        last = pool.submit(result, tiny, promised[-1])
        assert result(tiny, other.learn()[1])["loss:sum"] > 0
        assert len(sample(tiny)["tokens"]) == 1
        assert not last.done()
        assert last.result()["loss:sum"] > 0


def test_a_request_that_waits_can_be_cancelled(tiny, model):
    promised = [model.learn(rows=300, length=60)[1], *[model.learn()[1] for _ in range(2)]]
    cancelled = tiny.request("POST", "/api/v1/cancel_future", {"request_id": promised[1]["request_id"]})
    assert cancelled[0] == 204
    assert "cancelled" in result(tiny, promised[1])["error"]
    assert result(tiny, promised[2])["loss:sum"] > 0


def test_a_session_that_ends_takes_its_jobs_with_it(tiny):
    session = new_session(tiny)
    model = Model(tiny, session=session)
    promised = [model.learn(rows=1000, length=60)[1] for _ in range(3)] + [model.learn(seq=9)[1]]
    began = time.monotonic()
    assert tiny.request("POST", f"/api/v1/sessions/{session}/finish")[0] == 204
    assert [result(tiny, each)["error"] for each in promised] == ["the session has ended"] * 4
    assert result(tiny, Model(tiny).learn()[1])["loss:sum"] > 0
    assert time.monotonic() - began < 30


def test_the_log_has_a_line_for_each_failure_and_no_secret(tiny, model):
    failed = result(tiny, model.ask("load_weights", path="tinker://nowhere/weights/x", optimizer=False)[1])
    assert failed["category"] == "user"
    log = (tiny.home / "engine.log").read_text()
    assert f"{model.id}:1 failed: path: there is no checkpoint tinker://nowhere/weights/x" in log
    assert f"serving {tiny.model} (torch.float32, cpu) at {tiny.url}" in log
    assert tiny.key not in log
    assert "Traceback" not in log
