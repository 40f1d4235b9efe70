"""Requests made by hand, for what the SDK would hide: who waits, in which order, and what a crash leaves."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
from tinker.proto import tinker_public_pb2 as pb

from fixtures_engine import RunningEngine
from machine.engine import life


def started(folder: Path, state: Path) -> RunningEngine:
    """An engine process with this model and state folder."""
    info = life.start(folder, state=state)
    return RunningEngine(info.url, (state / "key").read_text(), state, info.model, info.model_path)


def new_session(engine: RunningEngine) -> str:
    return engine.request("POST", "/api/v1/create_session", {})[1]["session_id"]


class Model:
    """A model in training, whose requests are numbered as they are made."""

    def __init__(self, engine: RunningEngine, rank: int = 4, session: str | None = None, number: int = 0) -> None:
        self.engine, self.seq = engine, 0
        body = {"session_id": session or new_session(engine), "model_seq_id": number, "base_model": engine.model}
        created = engine.request("POST", "/api/v1/create_model", body | {"lora_config": {"rank": rank}})[1]
        self.id = created["model_id"]
        assert result(engine, created)["model_id"] == self.id

    def ask(self, endpoint: str, seq: int | None = None, **fields):
        """Status and body of a request, at its turn unless `seq` says otherwise."""
        self.seq = self.seq + 1 if seq is None else seq
        body = {"model_id": self.id, "seq_id": self.seq} | fields
        return self.engine.request("POST", f"/api/v1/{endpoint}", body)

    def learn(self, rows: int = 2, length: int = 16, seq: int | None = None, weight: float = 1.0):
        """Status and body of a forward_backward over random rows."""
        self.seq = self.seq + 1 if seq is None else seq
        request = pb.ForwardBackwardRequest(model_id=self.id, seq_id=self.seq, loss_fn="cross_entropy")
        tokens = np.random.default_rng(1).integers(3, 97, (rows, length + 1)).astype("<i4")
        for row in tokens:
            datum = request.data.add()
            datum.model_input.add().encoded_text.tokens = row[:-1].tobytes()
            for name, values, kind in (
                ("target_tokens", row[1:], pb.DTYPE_INT32),
                ("weights", np.full(length, weight, "<f4"), pb.DTYPE_FLOAT32),
            ):
                datum.loss_fn_inputs[name].dtype = kind
                datum.loss_fn_inputs[name].shape.append(length)
                datum.loss_fn_inputs[name].dense = values.tobytes()
        body, kind = request.SerializeToString(), "application/x-protobuf"
        return self.engine.request("POST", "/api/v1/forward_backward", body, Content_Type=kind)

    def step(self, **params):
        return self.ask("optim_step", adam_params=params)


def result(engine: RunningEngine, promised):
    """The result of a request: of training its metrics, of sampling the tokens of the first sequence."""
    body = json.dumps({"request_id": promised["request_id"]}).encode()
    headers = {"X-API-Key": engine.key, "Content-Type": "application/json"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"{engine.url}/api/v1/retrieve_future", body, headers)
    try:
        with opener.open(request, timeout=60) as answer:
            raw, kind = answer.read(), answer.headers["content-type"]
    except urllib.error.HTTPError as error:
        if error.code != 408:
            raise
        return result(engine, promised)
    if not kind.startswith("application/x-protobuf"):
        return json.loads(raw)
    if "sample_sequence_ids" in promised:
        return {"tokens": np.frombuffer(pb.SampleResponse.FromString(raw).sequences[0].tokens, "<i4").tolist()}
    return dict(pb.ForwardBackwardOutput.FromString(raw).metrics)
