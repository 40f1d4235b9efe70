"""A fake of hosted Tinker: its catalogue, its checkpoints, its chat, and its errors, on loopback.

The shapes come from public documentation and from the source of the SDK (tinker 0.38); they were NOT recorded from the
live service. What only the live service can tell, such as the wording of its errors, is made up here.

    with Hosted() as hosted:          # every request is answered
        hosted.fault = Fault(429, "slow down", retry_after=1)     # ... from now on all are refused

Every request that needs the key and lacks it is refused as a wrong key is. `hosted.chats` holds the bodies of the chat
requests. It trains nothing, and samples one fixed answer.
"""

import contextlib
import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar

KEY = "tml-a-secret-that-nobody-may-see"
RUN = "0034d8c9-0a88-52a9-b2b7-bce7cb1e6fef:train:0"
SAMPLER, STATE = f"tinker://{RUN}/sampler_weights/000080", f"tinker://{RUN}/weights/000080"
UNKNOWN_BASE = "tinker://11111111-0a88-52a9-b2b7-bce7cb1e6fef:train:0/sampler_weights/x"
ONLY_STATES = "tinker://22222222-0a88-52a9-b2b7-bce7cb1e6fef:train:0/weights/x"
BASES = {SAMPLER: "thinkingmachines/Inkling-Small", UNKNOWN_BASE: "nobody/knows-it"}
MODELS = [
    {
        "model_name": "thinkingmachines/Inkling-Small",
        "max_context_length": 65536,
        "trainable": True,
        "sampleable": True,
    },
    {"model_name": "thinkingmachines/Inkling-Small:peft:262144", "max_context_length": 262144},
    {"model_name": "Qwen/Qwen3.5-4B", "max_context_length": 65536, "trainable": True, "sampleable": True},
    {"model_name": "Qwen/Qwen3-8B", "max_context_length": 32768, "trainable": True, "sampleable": True},
    {"model_name": "nobody/knows-it", "max_context_length": 4096, "trainable": True, "sampleable": True},
    {"model_name": "nvidia/only-trains", "max_context_length": 4096, "trainable": True, "sampleable": False},
]
ANSWER = "Hello from the fake."


@dataclass(frozen=True)
class Fault:
    """How requests are refused: with a status, or, where it is 0, with `seconds` of silence. `path`: those it is for."""

    status: int
    message: str = "no"
    retry_after: float | None = None
    seconds: float = 60.0
    path: str = ""


class Hosted:
    """Serves until closed, at `url`, for the key `KEY`."""

    def __init__(self, models: list[dict[str, Any]] | None = None) -> None:
        self.models = MODELS if models is None else models
        self.fault: Fault | None = None
        self.chats: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.opened = SAMPLER
        handler = type("Bound", (_Handler,), {"owner": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> "Hosted":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Goes away: connections are refused from then on."""
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    owner: ClassVar[Hosted]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Keeps test output clean."""

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        self._answer(json.loads(raw) if raw[:1] == b"{" else {})

    def _answer(self, body: dict[str, Any]) -> None:
        path = self.path.partition("?")[0]
        self.owner.paths.append(path)
        fault = self.owner.fault
        if fault and fault.path in path:
            if not fault.status:
                time.sleep(fault.seconds)
                return
            self._refuse(fault.status, fault.message, fault.retry_after)
        elif not self._has_key():
            self._refuse(401, "invalid API key")
        elif path.endswith("/chat/completions"):
            self.owner.chats.append(body)
            self._chat(body)
        else:
            self._api(path.removeprefix("/api/v1/"), body)

    def _has_key(self) -> bool:
        return KEY in (self.headers.get("x-api-key"), (self.headers.get("authorization") or "").removeprefix("Bearer "))

    def _refuse(self, status: int, message: str, retry_after: float | None = None) -> None:
        said = {"detail": message, "error": {"message": message, "type": "error", "code": None}}
        self._send(status, said, {} if retry_after is None else {"retry-after": f"{retry_after:g}"})

    def _api(self, path: str, body: dict[str, Any]) -> None:
        match path:
            case "client/config" | "client/dynamic_config":
                self._send(200, {"refresh_interval_sec": 3600} if "dynamic" in path else {})
            case "healthz":
                self._send(200, {"status": "ok"})
            case "get_server_capabilities":
                self._send(200, {"supported_models": self.owner.models})
            case "create_session":
                self._send(200, {"session_id": "s1", "type": "create_session"})
            case "session_heartbeat":
                self._send(200, {"type": "session_heartbeat"})
            case "checkpoints":
                found = [_checkpoint(each) for each in (SAMPLER, STATE, UNKNOWN_BASE, ONLY_STATES)]
                self._send(
                    200, {"checkpoints": found, "cursor": {"offset": 0, "limit": 1000, "total_count": len(found)}}
                )
            case "weights_info" if body.get("tinker_path") in BASES:
                base = BASES[body["tinker_path"]]
                self._send(200, {"base_model": base, "is_lora": True, "lora_rank": 8})
            case "create_sampling_session":
                self.owner.opened = body.get("model_path") or SAMPLER
                self._send(200, {"sampling_session_id": "sampler1", "type": "create_sampling_session"})
            case "samplers/sampler1":
                about = {"base_model": BASES[self.owner.opened], "model_path": self.owner.opened}
                self._send(200, {"sampler_id": "sampler1", **about})
            case _ if path.startswith("sessions/") or path == "telemetry":
                self._send(200, {"status": "accepted"})
            case _:
                self._refuse(404, f"there is no {body.get('tinker_path', path)}")

    def _chat(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        usage = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000, "total_tokens": 1_100_000}
        chunks: list[dict[str, Any]] = [
            {"choices": [_delta({"role": "assistant", "reasoning_content": "It greets."})]},
            {"choices": [_delta({"content": ANSWER})]},
            {"choices": [_delta({}, "stop")]},
            {"choices": [], "usage": usage},
        ]
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for chunk in chunks:
                self.wfile.write(b"data: " + json.dumps(head | chunk).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            for name, value in {
                "content-type": "application/json",
                "content-length": str(len(data)),
                **(headers or {}),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)


def _checkpoint(path: str) -> dict[str, Any]:
    kind, name = path.split("/")[3:]
    return {
        "checkpoint_id": f"{kind}/{name}",
        "checkpoint_type": "sampler" if kind == "sampler_weights" else "training",
        "time": "2026-10-01T12:00:00Z",
        "tinker_path": path,
        "size_bytes": 1_000_000,
        "public": False,
    }


def _delta(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}
