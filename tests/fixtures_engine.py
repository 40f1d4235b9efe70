"""One engine process for the whole test session, shared by every part that needs a Tinker service."""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class RunningEngine:
    """Where the engine is; `home` is its state folder (key, `engine.json`, checkpoints)."""

    url: str
    key: str
    home: Path
    model: str
    model_path: Path

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and decoded JSON of a request; `body` is sent as JSON, or as it is when it is bytes."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given = {"X-API-Key": self.key, "Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        request = urllib.request.Request(f"{self.url}{path}", data, given, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                raw, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            raw, status = error.read(), error.code
        return status, json.loads(raw) if raw else None

    def chat(self, **fields: Any) -> tuple[int, Any]:
        """A chat request to the base model, greedy and short unless said otherwise."""
        body = {"model": self.model, "temperature": 0, "max_tokens": 24} | fields
        return self.request("POST", "/oai/api/v1/chat/completions", body)


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """A running engine with the default model."""
    pytest.importorskip("torch")
    from machine.engine import life
    from machine.engine.models.convert import ensure_model

    state = tmp_path_factory.mktemp("engine")
    info = life.start(ensure_model(), state=state)
    try:
        yield RunningEngine(info.url, (state / "key").read_text(), state, info.model, info.model_path)
    finally:
        life.stop(state=state)
