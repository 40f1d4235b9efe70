"""Requests that a client should not have made: each is answered at once, by name, through the whole application."""

import contextlib
import json
import string
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinker.proto import tinker_public_pb2 as pb

MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PROTOBUF = {"Content-Type": "application/x-protobuf"}
TEXT = {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]}


@pytest.fixture(scope="module")
def session(api):
    return api.post("/api/v1/create_session", json={}).json()["session_id"]


@pytest.fixture(scope="module")
def base(api):
    return api.app.state.engine.name


@pytest.fixture(scope="module")
def models(api, session, base):
    """Makes models, each with a number of its own."""
    numbers = iter(range(10**6, 2 * 10**6))  # all of one length

    def make():
        body = {"session_id": session, "model_seq_id": next(numbers), "base_model": base, "lora_config": {"rank": 2}}
        return result(api, api.post("/api/v1/create_model", json=body))["model_id"]

    return make


def result(api, promise):
    return api.post("/api/v1/retrieve_future", json={"request_id": promise.json()["request_id"]}).json()


def batch(model_id, seq_id=1, tokens=(1, 2, 3)):
    request = pb.ForwardBackwardRequest(model_id=model_id, seq_id=seq_id, loss_fn="cross_entropy")
    datum = request.data.add()
    datum.model_input.add().encoded_text.tokens = np.array(tokens, "<i4").tobytes()
    targets = datum.loss_fn_inputs["target_tokens"]
    targets.dtype, targets.dense = pb.DTYPE_INT64, np.array(tokens, "<i8").tobytes()
    return request.SerializeToString()


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("create_model", {"session_id": "x", "model_seq_id": 0, "base_model": "gpt"}, 400, "base_model: 'gpt'"),
        ("create_model", {"session_id": "x", "model_seq_id": 0, "base_model": "BASE"}, 410, "session_id"),
        (
            "create_model",
            {"session_id": "SESSION", "model_seq_id": 0, "base_model": "BASE", "lora_config": {"rank": 1000}},
            400,
            "lora_config.rank",
        ),
        (
            "create_model",
            {"session_id": "SESSION", "model_seq_id": 0, "base_model": "BASE", "optimizer_config": {"type": "dimuon"}},
            400,
            "dimuon",
        ),
        (
            "create_model",
            {
                "session_id": "SESSION", "model_seq_id": 0, "base_model": "BASE",
                "lora_config": {"train_attn": False, "train_mlp": False, "train_unembed": False},
            },
            400,
            "train_attn, train_mlp and train_unembed are all false",
        ),
        ("optim_step", {"model_id": "x", "seq_id": 1, "adam_params": {}}, 404, "model_id"),
        ("save_weights", {"model_id": "MODEL", "seq_id": 1, "path": "../x"}, 400, "path: '../x'"),
        ("save_weights", {"model_id": "MODEL", "seq_id": 1, "path": "a b"}, 400, "path: 'a b'"),
        ("save_weights_for_sampler", {"model_id": "MODEL", "seq_id": 1}, 400, "sampling_session_seq_id"),
        (
            "save_weights_external",
            {"model_id": "MODEL", "seq_id": 1, "path": "x", "age_encryption_recipients": ["age1"]},
            400,
            "age_encryption_recipients",
        ),
        ("load_weights", {"path": "tinker://../weights/x", "optimizer": True}, 400, "path: '..'"),
        ("load_weights", {"path": "tinker://a/weights/x", "optimizer": True}, 400, "model_id and seq_id"),
        (
            "load_weights",
            {"path": "tinker://a/weights/x", "optimizer": True, "weights_access_token": "t"},
            400,
            "weights_access_token",
        ),
        ("create_sampling_session", {"session_id": "SESSION", "sampling_session_seq_id": 0}, 400, "base_model"),
        (
            "create_sampling_session",
            {"session_id": "SESSION", "sampling_session_seq_id": 0, "model_path": "tinker://a/odd/b"},
            400,
            "path: 'odd'",
        ),
        ("asample", {"prompt": TEXT, "sampling_params": {}, "sampling_session_id": "x"}, 404, "sampling_session_id"),
        ("asample", {"prompt": TEXT, "sampling_params": {}, "base_model": "gpt"}, 400, "base_model"),
        ("weights_info", {"tinker_path": "x"}, 400, "path"),
        ("copy_weights", {"source_path": "tinker://a/weights/b"}, 404, "path"),
        ("retrieve_future", {"request_id": "x"}, 410, "request_id"),
        ("cancel_future", {"request_id": "x"}, 410, "request_id"),
        ("session_heartbeat", {"session_id": "x"}, 410, "session_id"),
        ("create_custom_loss", {}, 400, "create_custom_loss"),
        ("join_sampling_session", {}, 400, "join_sampling_session"),
        ("retrieve_futures", {}, 400, "retrieve_futures"),
        ("no_such_thing", {}, 404, "POST /api/v1/no_such_thing"),
    ],
)  # fmt: skip
def test_bad_requests_are_answered_by_name(api, session, base, models, path, body, status, words):
    text = json.dumps(body).replace("SESSION", session).replace("BASE", base)
    text = text.replace("MODEL", models()) if "MODEL" in text else text
    answer = api.post(f"/api/v1/{path}", content=text)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"Content-Encoding": "zstd"}, "zstd"),
        ({"Content-Encoding": "gzip"}, "content-encoding: 'gzip'"),
        ({}, "Request"),
    ],
)
def test_a_body_that_cannot_be_read(api, headers, words):
    answer = api.post("/api/v1/forward_backward", content=b"\x28\xb5garbage", headers=PROTOBUF | headers)
    assert (answer.status_code, words in answer.json()["detail"]) == (400, True)


def test_what_fails_in_its_turn_lets_the_next_go_on(api, models):
    """Wrong in content (seen at once, and seen on the model's thread), then right."""
    model = models()
    bad = pb.ForwardBackwardRequest(model_id=model, seq_id=1, loss_fn="gspo")
    bad.data.add()
    refused = api.post("/api/v1/forward_backward", content=bad.SerializeToString(), headers=PROTOBUF)
    assert refused.status_code == 400
    long = result(api, api.post("/api/v1/forward_backward", content=batch(model, 2, [1] * 600), headers=PROTOBUF))
    assert long["category"] == "user"
    assert "600 tokens" in long["error"]
    assert api.post("/api/v1/optim_step", json={"model_id": model, "seq_id": 3, "adam_params": "?"}).status_code == 400
    save = api.post("/api/v1/save_weights", json={"model_id": model, "seq_id": 4, "path": "x"})
    assert result(api, save)["path"] == f"tinker://{model}/weights/x"


def test_a_name_is_taken_twice_only_if_it_may_be(api, models):
    model = models()
    save = {"model_id": model, "path": "x"}
    answers = [
        result(api, api.post("/api/v1/save_weights", json=save | {"seq_id": seq, "overwrite": overwrite}))
        for seq, overwrite in ((1, False), (2, False), (3, True))
    ]
    assert [answer.get("category") for answer in answers] == [None, "user", None]
    assert "there is a checkpoint" in answers[1]["error"]


@MANY
@given(data=st.data())
def test_mutated_batches_are_served_or_refused_and_nothing_else(api, models, data):
    """Bytes of a good batch replaced, dropped or doubled: never a fault of the engine (which would be raised here)."""
    body = bytearray(batch(models()))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "double", "insert"]))
        if kind == "set":
            body[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del body[at : at + data.draw(st.integers(1, 8))]
        elif kind == "double":
            body[at:at] = body[at : at + 8]
        else:
            body[at:at] = data.draw(st.binary(min_size=1, max_size=6))
        if not body:
            return
    answer = api.post("/api/v1/forward_backward", content=bytes(body), headers=PROTOBUF)
    assert answer.status_code in (200, 400, 404, 410), answer.text
    if answer.status_code == 200 and pb.ForwardBackwardRequest.FromString(bytes(body)).seq_id == 1:
        found = api.post("/api/v1/retrieve_future", json={"request_id": answer.json()["request_id"]})
        assert found.status_code == 200
        if found.headers["content-type"] == "application/json":
            assert found.json()["category"] == "user", found.text


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(string.printable, max_size=8)
    | st.sampled_from(["tinker://a/weights/b", "..", "SESSION", "", "\x00", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
GOOD = {
    "create_session": {"user_metadata": {"a": 1}, "display_name": "x", "project_id": None},
    "create_model": {"session_id": "SESSION", "model_seq_id": 7, "base_model": "BASE", "lora_config": {"rank": 2}},
    "get_info": {"model_id": "x"},
    "optim_step": {"model_id": "x", "seq_id": 1, "adam_params": {"learning_rate": 0.1}},
    "save_weights_for_sampler": {"model_id": "x", "seq_id": 1, "path": "p", "ttl_seconds": 5},
    "load_weights": {"path": "tinker://a/weights/b", "optimizer": False, "session_id": "SESSION", "model_seq_id": 1},
    "create_sampling_session": {"session_id": "SESSION", "sampling_session_seq_id": 1, "base_model": "BASE"},
    "asample": {
        "prompt": TEXT, "base_model": "BASE", "num_samples": 2, "prompt_logprobs": True, "topk_prompt_logprobs": 2,
        "sampling_params": {"max_tokens": 2, "stop": ["x"], "top_k": 3, "top_p": 0.5, "seed": 1},
        "target_prompt_logprobs": {"data": [1, 2], "dtype": "int64", "shape": [2, 1]}, "prompt_alt_tokens_k": 1,
    },
    "weights_info": {"tinker_path": "tinker://a/weights/b"},
    "copy_weights": {"source_path": "tinker://a/weights/b", "session_id": "SESSION", "ttl_seconds": 5},
    "retrieve_future": {"request_id": "x"},
    "cancel_future": {"request_id": "x"},
    "telemetry": {"events": []},
}  # fmt: skip
CHAT = {
    "model": "BASE", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "n": 1, "stop": ["x"],
    "logprobs": True, "top_logprobs": 2, "temperature": 0.5, "top_p": 0.5, "seed": 1, "tool_choice": "auto",
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
}  # fmt: skip


def places(value, path=()):
    """The paths of every part of a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places(part, (*path, key))


def put(value, path, new):
    if not path:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = put(value[path[0]], path[1:], new)
    return changed


@MANY
@given(data=st.data())
def test_mutated_json_is_served_or_refused_and_nothing_else(api, session, base, data):
    path, good = data.draw(st.sampled_from([*GOOD.items()]))
    body = put(good, data.draw(st.sampled_from([*places(good)])), data.draw(JSON))
    text = json.dumps(body).replace("SESSION", session).replace("BASE", base)
    answer = api.post(f"/api/v1/{path}", content=text.encode())
    assert answer.status_code in (200, 204, 400, 404, 410), answer.text
    with contextlib.suppress(ValueError, TypeError, KeyError):
        if path == "asample" and (id := answer.json()["request_id"]):
            found = api.post("/api/v1/retrieve_future", json={"request_id": id})
            assert found.headers["content-type"] != "application/json" or found.json()["category"] == "user"


@MANY
@given(data=st.data())
def test_mutated_chats_are_served_or_refused_and_nothing_else(api, base, data):
    body = put(CHAT, data.draw(st.sampled_from([*places(CHAT)])), data.draw(JSON))
    answer = api.post("/oai/api/v1/chat/completions", content=json.dumps(body).replace("BASE", base).encode())
    assert answer.status_code in (200, 400, 404), answer.text
    if answer.status_code != 200:
        assert answer.json()["error"]["type"] == "invalid_request_error"


def test_sessions_models_and_samplers_are_bounded(api, session, base, monkeypatch):
    from machine.engine import core
    from machine.engine.api import routes

    made = api.post("/api/v1/create_session", json={}).json()["session_id"]
    monkeypatch.setattr(routes, "MAX_SESSIONS", len(api.app.state.engine.sessions))
    assert api.post("/api/v1/create_session", json={}).status_code == 429
    monkeypatch.setattr(core, "MAX_SAMPLERS", 2)
    monkeypatch.setattr(core, "MAX_MODELS", 1)

    def sampler(number):
        body = {"session_id": made, "sampling_session_seq_id": number, "base_model": base}
        return api.post("/api/v1/create_sampling_session", json=body).status_code

    assert [sampler(number) for number in (0, 1, 1, 0, 2)] == [200, 200, 200, 200, 400]
    assert len(api.get(f"/api/v1/sessions/{made}").json()["sampler_ids"]) == 2

    def model(number):
        body = {"session_id": made, "model_seq_id": number, "base_model": base, "lora_config": {"rank": 1}}
        return api.post("/api/v1/create_model", json=body).status_code

    assert [model(number) for number in (0, 0, 1)] == [200, 200, 400]
    assert api.post(f"/api/v1/sessions/{made}/finish").status_code == 204


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_text_that_cannot_fit_is_refused_before_it_is_made_tokens(api, base, path):
    engine = api.app.state.engine
    text = "0123456789abcdef" * (2 * engine.context * engine.longest_token // 16 + 8192)
    asked = {"messages": [{"role": "user", "content": text}]} if "chat" in path else {"prompt": text}
    began = time.process_time()
    answer = api.post(f"/oai/api/v1/{path}", json={"model": base, "max_tokens": 1} | asked)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert time.process_time() - began < 1
    words = "word " * (engine.context + 9)
    asked = {"messages": [{"role": "user", "content": words}]} if "chat" in path else {"prompt": words}
    assert (
        api.post(f"/oai/api/v1/{path}", json={"model": base, "max_tokens": 1} | asked).json()["error"]["code"]
        == "context_length_exceeded"
    )


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
@pytest.mark.parametrize("stop", ["", [""], ["", ""]])
def test_an_empty_stop_text_ends_nothing(api, base, path, stop):
    asked = {"messages": [{"role": "user", "content": "a"}]} if "chat" in path else {"prompt": "a"}
    body = {"model": base, "max_tokens": 4, "temperature": 0} | asked
    plain, empty = (api.post(f"/oai/api/v1/{path}", json=body | given).json() for given in ({}, {"stop": stop}))
    assert plain["usage"]["completion_tokens"] == empty["usage"]["completion_tokens"] > 1
