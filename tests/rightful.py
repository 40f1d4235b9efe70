"""Rightful: a right request of each endpoint of the engine, for `malformed` to spoil."""

from typing import Any

import numpy as np
from tinker.proto import tinker_public_pb2 as pb

from malformed import Request

JSON, PROTOBUF = (b"content-type", b"application/json"), (b"content-type", b"application/x-protobuf")


def batch(model: str, seq: int, tokens: Any, loss: str = "cross_entropy") -> pb.ForwardBackwardRequest:
    """A forward_backward over two rows."""
    request = pb.ForwardBackwardRequest(model_id=model, seq_id=seq, loss_fn=loss)
    inputs = (
        {"weights": pb.DTYPE_FLOAT32}
        if loss == "cross_entropy"
        else {"logprobs": pb.DTYPE_FLOAT32, "advantages": pb.DTYPE_FLOAT32}
    )
    for _ in range(2):
        datum = request.data.add()
        datum.model_input.add().encoded_text.tokens = np.asarray(tokens[:-1], "<i4").tobytes()
        n = len(tokens) - 1
        for name, values, kind in (
            ("target_tokens", np.asarray(tokens[1:], "<i8"), pb.DTYPE_INT64),
            *((name, np.full(n, 0.5, "<f4"), kind) for name, kind in inputs.items()),
        ):
            tensor = datum.loss_fn_inputs[name]
            tensor.dtype = kind
            tensor.shape.append(n)
            tensor.dense = values.tobytes()
    return request


def right(name: str, session: str, model: str, path: str, sampler: str, future: str, link: str) -> dict[str, Request]:
    """A right request of each endpoint (the model's next turn is 2), by a name of its own."""

    def post(endpoint: str, **body: Any) -> Request:
        return Request("POST", f"/api/v1/{endpoint}", body, headers=(JSON,))

    prompt = {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7, 8]}]}
    params = {"max_tokens": 2, "seed": 1, "stop": ["x", 7], "temperature": 0.5, "top_k": 5, "top_p": 0.9}
    scored = {
        "data": [5, -1, 7], "dtype": "int64", "shape": [3, 1],
    }  # fmt: skip
    sparse = scored | {
        "data": [5, 6],
        "shape": [3, 4],
        "sparse_crow_indices": [0, 1, 1, 2],
        "sparse_col_indices": [0, 3],
    }
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "description": "d",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
    }
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": "b"}'}}
    talk = [
        {"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "t"},
    ]  # fmt: skip
    options = {
        "model": name,
        "max_tokens": 2,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "seed": 1,
        "stop": ["zz"],
        "n": 1,
        "logit_bias": {},
    }
    checkpoint = f"/api/v1/training_runs/{model}/checkpoints/weights/own"
    adam = {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.0, "grad_clip_norm": 1.0}
    return {
        "healthz": Request("GET", "/api/v1/healthz", headers=((b"x-machine-challenge", b"c"),)),
        "capabilities": Request("GET", "/api/v1/get_server_capabilities"),
        "client/config": post("client/config", sdk_version="0"),
        "create_session": post("create_session", user_metadata={"a": "b", "c": [1, {"d": 2.5}]}, display_name="d", project_id=None, tags=["t"]),
        "session_heartbeat": post("session_heartbeat", session_id=session),
        "sessions/finish": Request("POST", f"/api/v1/sessions/{session[:-1]}x/finish"),
        "telemetry": post("telemetry", events=[{"a": 1}]),
        "retrieve_future": post("retrieve_future", request_id=future),
        "cancel_future": post("cancel_future", request_id=future),
        "create_model": post("create_model", session_id=session, model_seq_id=1, base_model=name, lora_config={"rank": 1, "seed": 3, "train_unembed": False}, optimizer_config={"type": "adamw"}, user_metadata={"a": "b"}),
        "get_info": post("get_info", model_id=model),
        "forward_backward": Request("POST", "/api/v1/forward_backward", batch(model, 2, range(5, 12)), headers=(PROTOBUF,)),
        "forward_backward/ppo": Request("POST", "/api/v1/forward_backward", batch(model, 2, range(5, 12), "ppo"), headers=(PROTOBUF,)),
        "optim_step": post("optim_step", model_id=model, seq_id=2, adam_params=adam),
        "save_weights": post("save_weights", model_id=model, seq_id=2, path="p", kind="snapshot", overwrite=True, ttl_seconds=60, user_metadata={"a": "b"}),
        "save_weights_for_sampler": post("save_weights_for_sampler", model_id=model, seq_id=2, sampling_session_seq_id=5, kind="inflight"),
        "save_weights_external": post("save_weights_external", model_id=model, seq_id=2, path="e"),
        "load_weights": post("load_weights", path=path, optimizer=True, model_id=model, seq_id=2),
        "load_weights/new": post("load_weights", path=path, optimizer=False, session_id=session, model_seq_id=3, base_model=name),
        "create_sampling_session": post("create_sampling_session", session_id=session, sampling_session_seq_id=1, base_model=name, model_path=path),
        "samplers": Request("GET", f"/api/v1/samplers/{sampler}"),
        "asample": post("asample", prompt=prompt, sampling_params=params, num_samples=2, sampling_session_id=sampler, topk_sample_logprobs=2, prompt_alt_tokens_k=2),
        "asample/scored": post("asample", prompt=prompt, sampling_params=params, base_model=name, prompt_logprobs=True, topk_prompt_logprobs=2, prompt_logprobs_last_n=2, target_prompt_logprobs=scored),
        "asample/sparse": post("asample", prompt=prompt, sampling_params=params, model_path=path, prompt_logprobs=True, target_prompt_logprobs=sparse),
        "training_runs": Request("GET", "/api/v1/training_runs", query=b"limit=5&offset=0"),
        "training_run": Request("GET", f"/api/v1/training_runs/{model}"),
        "run_checkpoints": Request("GET", f"/api/v1/training_runs/{model}/checkpoints"),
        "checkpoints": Request("GET", "/api/v1/checkpoints", query=b"limit=5"),
        "delete": Request("DELETE", f"{checkpoint}x"),
        "publish": Request("POST", f"{checkpoint}/publish"),
        "ttl": Request("PUT", f"{checkpoint}/ttl", {"ttl_seconds": 1000}, headers=(JSON,)),
        "urls": Request("GET", f"{checkpoint}/external_weights_urls"),
        "archive": Request("GET", f"{checkpoint}/archive"),
        "downloads": Request("GET", link),
        "weights_info": post("weights_info", tinker_path=path),
        "copy_weights": post("copy_weights", source_path=path, session_id=session, model_seq_id=4, ttl_seconds=60),
        "sessions": Request("GET", "/api/v1/sessions"),
        "session": Request("GET", f"/api/v1/sessions/{session}"),
        "auth/token": post("auth/token"),
        "auth/apikey": Request("GET", "/api/v1/auth/apikey/me"),
        "chat": Request("POST", "/oai/api/v1/chat/completions", {**options, "messages": talk, "tools": [tool], "tool_choice": "auto", "logprobs": True, "top_logprobs": 2}, headers=(JSON,)),
        "chat/stream": Request("POST", "/oai/api/v1/chat/completions", {**options, "messages": talk[:2], "stream": True, "stream_options": {"include_usage": True}}, headers=(JSON,)),
        "completions": Request("POST", "/oai/api/v1/completions", {**options, "prompt": [5, 6], "logprobs": 2, "best_of": 1}, headers=(JSON,)),
        "models": Request("GET", "/oai/api/v1/models"),
    }  # fmt: skip
