"""Fuzzed: the engine's whole application in this process, with two sessions, and what must hold of every answer.

Session A is made once and holds a canary in all that it says: its metadata, prompts and checkpoints. Session B is made
anew again and again, and sends what `malformed` makes. `Fuzzed.attack` sends one such request and raises
`AssertionError` where the answer is not a 2xx or 4xx, takes too long, holds A's canary, or where work that was promised
fails as a fault of the engine. What A is answered is compared, to the last bit, by `again`.
"""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

from machine.engine.chat import chat, completions
from machine.engine.core import Engine
from machine.engine.server import build_app
from machine.engine.wire import requests as wire
from machine.engine.wire import sampling as wire_sampling
from machine.engine.wire import training as wire_training
from machine.errors import Refused
from malformed import Edit, Request, attacks, read, spoil
from rightful import JSON, PROTOBUF, batch, right

KEY = "tml-fuzz"
SLOWEST = 10.0
"""Seconds that an answer, the next piece of a stream, or promised work that nothing holds back may take when busy."""
OTHER = ("", "text/event-stream", "application/x-protobuf", "application/x-tar", "application/octet-stream")
"""What an answer may be beside JSON."""
TOGETHER, PER_ROUND = 20, 500
PHASES = (Phase.generate, Phase.shrink)
PER_SESSION = 200
"""Requests after which session B is ended and made anew."""
LISTS = ("/api/v1/training_runs", "/api/v1/checkpoints", "/api/v1/sessions", "/oai/api/v1/models")
"""What lists all that the key's owner has, whatever session made it: names and ids, and the metadata of checkpoints."""


@dataclass(frozen=True)
class Answer:
    """An answer: `body` in one piece, `seconds` the longest that its client had to wait for a part of it."""

    status: int
    kind: str
    body: bytes
    seconds: float

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


def save_model(folder: Path, tokenizer: Path) -> Path:
    """A random model of two narrow layers, with a row for each token of a tokenizer."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=32, vocab_size=49152,
        max_position_embeddings=320, eos_token_id=2, pad_token_id=0, initializer_range=0.2, tie_word_embeddings=True,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    for source in tokenizer.glob("tokenizer*"):
        (folder / source.name).symlink_to(source)
    return folder


class Fuzzed:
    """The application with its sessions; `with Fuzzed(model, state) as fuzzed`."""

    def __init__(self, model: Path, state: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.engine = Engine(model, state)
        self.app = build_app(self.engine, KEY)
        self.state, self.canary = state, f"canary{secrets.token_hex(8)}"
        self.counts: Counter[tuple[str, str, int]] = Counter()
        self.slowest: Counter[str] = Counter()
        self.promised = self.looked = 0
        self._sent = 0

    def __enter__(self) -> "Fuzzed":
        self._life = self.app.router.lifespan_context(self.app)
        self.loop.run_until_complete(self._life.__aenter__())
        self.names = self._plant()
        self.before = self.again()
        self._new_session()
        return self

    def __exit__(self, *error: object) -> None:
        self.loop.run_until_complete(self._life.__aexit__(None, None, None))
        self.loop.close()

    def ask(self, request: Request) -> Answer:
        """Sends a request to the application, with the key; what it does not foresee is raised here."""
        return self.loop.run_until_complete(self._ask(request))

    def attack(self, endpoint: str, kind: str, changes: list[Edit]) -> None:
        """Sends a spoilt request of session B and judges what comes of it."""
        if self._sent % PER_SESSION == 0:
            self._new_session()
        self._sent += 1
        request = spoil(self.right[endpoint], kind, changes)
        answer = self.ask(request)
        self.counts[endpoint, kind, answer.status] += 1
        self.slowest[endpoint] = max(self.slowest[endpoint], answer.seconds)  # type: ignore[assignment]
        self._judge(request, answer)

    def _judge(self, request: Request, answer: Answer) -> None:
        assert 200 <= answer.status < 300 or 400 <= answer.status < 500 or answer.status in (302, 307), answer
        assert answer.seconds < SLOWEST, answer.seconds
        if answer.kind.startswith("application/json"):
            answer.json()
        else:
            assert answer.kind.partition(";")[0] in OTHER, answer
        self.look(request.path, answer.body)
        if answer.status == 200 and answer.kind.startswith("application/json"):
            said = answer.json()
            if isinstance(said, dict) and isinstance(said.get("request_id"), str) and said.get("type") != "try_again":
                self._fetch(said["request_id"])

    def look(self, path: str, body: bytes) -> None:
        """Raises if an answer holds what is A's; lists of all that there is may name A's checkpoints."""
        self.looked += 1
        for secret in self.secrets:
            assert secret not in body, "the canary of another session"
        if path not in LISTS:
            assert self.canary.encode() not in body, "a name of another session"

    def _fetch(self, id: str) -> None:
        """Waits for promised work unless it waits itself for a request before it."""
        future, turns = self.engine.futures.get(id), self.engine.futures._turns.values()
        if any(job.future is future for each in turns for job in each.held.values()):
            return
        self.promised += 1
        result = self.loop.run_until_complete(future.wait(SLOWEST))
        assert result is not None, f"{id} takes longer than {SLOWEST} seconds"
        self.engine.futures.fetched(future)
        self.look("", result.body)
        if result.media_type == "application/json":
            assert json.loads(result.body).get("category") != "server", result.body

    async def _ask(self, request: Request) -> Answer:
        given = [(b"host", b"localhost"), (b"x-api-key", KEY.encode()), *request.headers]
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
            "scheme": "http", "method": request.method, "root_path": "", "path": request.path, "raw_path": request.path.encode(), "query_string": request.query,
            "headers": given, "state": {},
        }  # fmt: skip
        incoming = [{"type": "http.request", "body": request.data, "more_body": False}]
        parts: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return incoming.pop() if incoming else await asyncio.Event().wait()  # type: ignore[return-value]

        async def send(message: Any) -> None:
            nonlocal before, longest
            parts.append(message)
            longest, before = max(longest, time.monotonic() - before), time.monotonic()

        before, longest = time.monotonic(), 0.0
        await asyncio.wait_for(self.app(scope, receive, send), 10 * SLOWEST)
        headers = {key.lower(): value.decode("latin-1") for key, value in parts[0]["headers"]}
        body = b"".join(part.get("body", b"") for part in parts[1:])
        return Answer(parts[0]["status"], headers.get(b"content-type", ""), body, longest)

    def good(self, endpoint: str, **body: Any) -> Any:
        """The JSON of an answer to a right request that is posted."""
        answer = self.ask(Request("POST", f"/api/v1/{endpoint}", body, headers=(JSON,)))
        assert answer.status == 200, answer
        return answer.json()

    def result(self, promised: Any) -> bytes:
        """The body of what was promised."""
        future = self.engine.futures.get(promised["request_id"])
        answer = self.loop.run_until_complete(future.wait(60))
        assert answer is not None
        self.engine.futures.fetched(future)
        return answer.body

    def _plant(self) -> dict[str, str]:
        """Session A: a model, a checkpoint that samples, prompts; its ids by what they are."""
        mark, named = f"secret{secrets.token_hex(8)}", self.canary
        tokens = np.random.default_rng(1).integers(1000, 40000, 8).astype("<i4")
        self.secrets = (mark.encode(), tokens.tobytes(), json.dumps(tokens.tolist())[1:-1].encode())
        session = self.good("create_session", user_metadata={"m": mark}, display_name=mark)["session_id"]
        model = self.good(
            "create_model", session_id=session, model_seq_id=0, base_model=self.engine.name, lora_config={"rank": 2}
        )
        self.result(model)
        learnt = self.ask(
            Request("POST", "/api/v1/forward_backward", batch(model["model_id"], 1, tokens), headers=(PROTOBUF,))
        )
        self.result(learnt.json())
        self.result(self.good("optim_step", model_id=model["model_id"], seq_id=2, adam_params={"learning_rate": 0.1}))
        saved = self.good("save_weights", model_id=model["model_id"], seq_id=3, path=named, user_metadata={"m": named})
        path = json.loads(self.result(saved))["path"]
        sampler = self.good("create_sampling_session", session_id=session, sampling_session_seq_id=0, model_path=path)[
            "sampling_session_id"
        ]
        chat = {"model": self.engine.name, "messages": [{"role": "user", "content": mark}], "max_tokens": 2}
        assert self.ask(Request("POST", "/oai/api/v1/chat/completions", chat, headers=(JSON,))).status == 200
        self.tokens = tokens.tolist()
        return {"session": session, "model": model["model_id"], "sampler": sampler, "path": path}

    def again(self) -> tuple[bytes, ...]:
        """What A is answered to the same questions: of its sampler, of the base, and by chat."""
        prompt = {"chunks": [{"type": "encoded_text", "tokens": self.tokens}]}
        asked = {
            "prompt": prompt,
            "sampling_params": {"temperature": 0.0, "max_tokens": 5, "stop": []},
            "prompt_logprobs": True,
        }
        own = self.result(self.good("asample", **asked, sampling_session_id=self.names["sampler"]))
        base = self.result(self.good("asample", **asked, base_model=self.engine.name))
        chat = {
            "model": self.engine.name,
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": 5,
            "temperature": 0,
        }
        said = self.ask(Request("POST", "/oai/api/v1/chat/completions", chat, headers=(JSON,))).json()["choices"]
        facts = self.good("get_info", model_id=self.names["model"])
        return own, base, json.dumps(said).encode(), json.dumps(facts).encode()

    def _new_session(self) -> None:
        """Ends session B, with what it left on disk, and makes another."""
        if hasattr(self, "session"):
            assert self.ask(Request("POST", f"/api/v1/sessions/{self.session}/finish")).status == 204
        for id in [id for id in self.engine.sessions if id != self.names["session"]]:
            self.engine.end_session(id)
        for folder in (self.state / "checkpoints").iterdir():
            if folder.name != self.names["model"]:
                shutil.rmtree(folder)
        self.session = self.good("create_session")["session_id"]
        model = self.good(
            "create_model",
            session_id=self.session,
            model_seq_id=0,
            base_model=self.engine.name,
            lora_config={"rank": 1},
        )
        self.result(model)
        path = json.loads(self.result(self.good("save_weights", model_id=model["model_id"], seq_id=1, path="own")))[
            "path"
        ]
        sampler = self.good(
            "create_sampling_session", session_id=self.session, sampling_session_seq_id=0, base_model=self.engine.name
        )["sampling_session_id"]
        future = self.good(
            "asample",
            prompt={"chunks": [{"type": "encoded_text", "tokens": [5]}]},
            sampling_params={"max_tokens": 1},
            sampling_session_id=sampler,
            seq_id=0,
        )
        self.result(future)
        links = self.ask(
            Request("GET", f"/api/v1/training_runs/{model['model_id']}/checkpoints/weights/own/external_weights_urls")
        )
        link = links.json()["urls"]["adapter_config.json"].removeprefix("http://localhost")
        self.right = right(self.engine.name, self.session, model["model_id"], path, sampler, future["request_id"], link)


def storm(fuzzed: Fuzzed, number: int, seed: int = 0) -> None:
    """Sends so many spoilt requests, the endpoints and kinds alike often; hypothesis makes them from the seed."""
    endpoints = sorted(fuzzed.right)

    def send(data: bytes) -> None:
        for endpoint, kind, changes in read(data, endpoints):
            with _named(endpoint, kind, changes):
                fuzzed.attack(endpoint, kind, changes)

    _rounds(send, number, seed)


def decode_all(fuzzed: Fuzzed, number: int, seed: int = 0) -> dict[str, tuple[int, int]]:
    """Gives so many spoilt bodies to the decoders alone, which may raise `Refused` only; bodies and refusals by kind."""
    asked, refused = Counter[str](), Counter[str]()

    def decode(data: bytes) -> None:
        for endpoint, kind, changes in read(data, sorted(DECODERS), ("json", "protobuf", "bytes", "noise")):
            asked[kind] += 1
            try:
                request = spoil(fuzzed.right[endpoint], kind, changes)
                zipped = (b"content-encoding", b"zstd") in request.headers
                with _named(endpoint, kind, changes):
                    DECODERS[endpoint](wire.decompress(request.data) if zipped else request.data, fuzzed.engine)
            except Refused:
                refused[kind] += 1

    _rounds(decode, number, seed)
    return {kind: (asked[kind], refused[kind]) for kind in sorted(asked)}


def _rounds(test: Callable[[bytes], None], number: int, start: int) -> None:
    """Hypothesis in rounds, since it keeps what it has tried; an example is `TOGETHER` attacks."""
    examples = -(-number // TOGETHER)
    for first in range(0, examples, PER_ROUND):
        size = min(PER_ROUND, examples - first)
        quiet = settings(
            max_examples=size, database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES
        )
        seed(1_000_000 * start + first)(quiet(given(attacks(TOGETHER))(test)))()


@contextlib.contextmanager
def _named(endpoint: str, kind: str, changes: list[Edit]) -> Iterator[None]:
    """Says what was sent when it fails."""
    try:
        yield
    except Refused:
        raise
    except BaseException as error:
        error.add_note(f"{endpoint}, {kind}: {changes}")
        raise


def _sampling(body: bytes, engine: Engine) -> None:
    config = engine.model.config
    wire_sampling.sampling(wire.decode(body, wire_sampling.Sample), config.vocabulary, config.context, frozenset({2}))


def _training(body: bytes, engine: Engine) -> None:
    asked = wire_training.decode_forward_backward(body)
    wire_training.datums(asked, engine.model.config.vocabulary, engine.context)


def _of(kind: Any) -> Callable[[bytes, Engine], Any]:
    return lambda body, engine: wire.decode(body, kind)


DECODERS: dict[str, Callable[[bytes, Engine], Any]] = {
    "asample": _sampling, "asample/scored": _sampling, "asample/sparse": _sampling, "forward_backward": _training, "forward_backward/ppo": _training,
    "create_session": _of(wire.CreateSession), "create_model": _of(wire.CreateModel), "optim_step": _of(wire.OptimStep), "save_weights": _of(wire.SaveWeights),
    "load_weights": _of(wire.LoadWeights), "copy_weights": _of(wire.CopyWeights), "ttl": _of(wire.Ttl), "create_sampling_session": _of(wire.CreateSamplingSession),
    "chat": _of(chat.ChatRequest), "completions": _of(completions.CompletionRequest),
}  # fmt: skip


def resident() -> int:
    """Bytes of memory that this process holds, where the system says."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
