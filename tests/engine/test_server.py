import asyncio
import threading
import time

import httpx
import pytest
import uvicorn

from machine.engine.core import Engine
from machine.engine.server import build_app
from machine.engine.wire import requests as wire
from machine.engine.work.intake import Limits
from tinker import Datum, ModelInput, SamplingParams, ServiceClient


def test_unknown_endpoints_are_named(engine):
    for method, path in (("POST", "/api/v1/no_such_thing"), ("GET", "/api/v1/asample"), ("GET", "/nope")):
        status, body = engine.request(method, path)
        assert status == 404
        assert path in body["detail"]


def test_a_body_that_is_too_large_is_refused(engine):
    status, body = engine.request("POST", "/api/v1/create_session", bytes(wire.MAX_BODY + 1))
    assert (status, "larger" in body["detail"]) == (413, True)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("create_session", b"{", "not valid"),
        ("create_model", {"session_id": "x", "model_seq_id": 0, "base_model": "gpt"}, "base_model"),
        ("optim_step", {"model_id": "x", "seq_id": 1, "adam_params": {"learning_rate": "fast"}}, "learning_rate"),
        ("forward_backward", b"\xff\xff", "ForwardBackwardRequest"),
        ("load_weights", {"path": "tinker://../weights/x", "optimizer": True}, "path"),
        ("asample", {"prompt": {"chunks": []}, "sampling_params": {}}, "prompt"),
        ("asample", {"prompt": {"chunks": [{"type": "image"}]}, "sampling_params": {}}, "image"),
        (
            "asample",
            {"prompt": {"chunks": [{"type": "encoded_text", "tokens": [49152]}]}, "sampling_params": {}},
            "49152",
        ),
        (
            "asample",
            {"prompt": {"chunks": [{"type": "encoded_text", "tokens": [2**70]}]}, "sampling_params": {}},
            "tokens",
        ),
        ("create_session", b'{"user_metadata": {"a": ' + b"[" * 99999 + b"]" * 99999 + b"}}", "not valid"),
    ],
)
def test_bad_requests_name_the_field(engine, path, body, field):
    status, answer = engine.request("POST", f"/api/v1/{path}", body)
    assert status == 400
    assert field in answer["detail"]


def test_things_that_are_not_here(engine):
    assert engine.request("POST", "/api/v1/get_info", {"model_id": "x"})[0] == 404
    assert engine.request("POST", "/api/v1/retrieve_future", {"request_id": "x"})[0] == 410
    assert engine.request("GET", "/api/v1/samplers/x")[0] == 404
    assert engine.request("GET", "/api/v1/training_runs/..%2f..")[0] == 404
    assert engine.request("DELETE", "/api/v1/training_runs/a/checkpoints/weights/b")[0] == 404


def test_a_time_to_live_beyond_all_calendars_is_refused(engine):
    path = "/api/v1/training_runs/a/checkpoints/weights/b/ttl"
    assert engine.request("PUT", path, {"ttl_seconds": 10**18})[0] == 400


def test_a_fault_of_the_engine_is_told_and_not_worth_a_retry():
    async def ask(path):
        transport = httpx.ASGITransport(build_app(object(), "tml-x"), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, headers={"X-API-Key": "tml-x"}) as client:
            return await client.get(f"http://localhost{path}")

    answer = asyncio.run(ask("/api/v1/sessions"))
    assert answer.status_code == 422
    assert "AttributeError" in answer.json()["detail"]
    assert asyncio.run(ask("/oai/api/v1/models")).status_code == 500


@pytest.fixture
def crowded(tiny_smollm, tmp_path):
    """An engine in this process that takes three requests at a time, its URL, and the number of its 429s."""
    engine = Engine(tiny_smollm, tmp_path, limits=Limits(open=3))
    refused = []

    async def counting(scope, receive, send):
        async def counted(message):
            if message.get("status") == 429:
                refused.append(dict(message["headers"])[b"retry-after"])
            await send(message)

        await app(scope, receive, counted)

    app = build_app(engine, "tml-x")
    config = uvicorn.Config(counting, port=0, log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield engine, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", refused
    server.should_exit = True
    thread.join()


def test_the_sdk_comes_back_when_too_much_is_waiting(crowded):
    engine, url, refused = crowded
    service = ServiceClient(base_url=url, api_key="tml-x")
    client = service.create_lora_training_client(engine.name, rank=4).result(timeout=60)
    tokens = list(range(3, 60))
    weights = [1.0] * (len(tokens) - 1)
    datum = Datum(ModelInput.from_ints(tokens[:-1]), {"target_tokens": tokens[1:], "weights": weights})
    sampler = service.create_sampling_client(base_model=engine.name).result(timeout=60)
    params = SamplingParams(max_tokens=40, stop=[])
    sampled = [sampler.sample(ModelInput.from_ints(tokens[:5]), 1, params) for _ in range(8)]
    trained = [client.forward_backward([datum] * 4, "cross_entropy") for _ in range(6)]
    losses = [future.result(timeout=120).metrics["loss:sum"] for future in trained]
    assert all(loss == pytest.approx(losses[0]) for loss in losses)
    assert [len(future.result(timeout=120).sequences[0].tokens) for future in sampled] == [40] * 8
    assert len(refused) > 0
    assert set(refused) == {b"2"}
    service.close("success").result()
