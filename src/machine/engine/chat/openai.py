"""OpenAI's API, as far as chat and plain completions share it: options, model ids, choices, usage, errors.

It is served at the path that hosted Tinker has too. `system_fingerprint` names the weights that answered: the SHA-256
of the adapter's weights file, or "base"; `model` is the tinker path that they were read from.
"""

import abc
import bisect
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from machine.engine.core import CHAT, Engine
from machine.engine.faults import RETRY_SECONDS, Busy, Fault, NotFound
from machine.engine.samplers import Source
from machine.engine.sampling.requests import Draw, SampleRequest, SamplingParams
from machine.engine.wire import requests as wire
from machine.engine.work.futures import Answer, Future
from machine.errors import Refused

MAX_CHOICES = 16
MAX_TOP = 20
_LOOK_SECONDS = 0.25  # how often a client that waits is looked after
_SMALL = 2**16  # bytes of text that are made tokens in no time


class StreamOptions(msgspec.Struct):
    """How to stream."""

    include_usage: bool = False


class Options(msgspec.Struct, kw_only=True):
    """What both kinds of request may say; `top_k` is not OpenAI's.

    Fields that are not here are ignored, as OpenAI's clients expect; those that would change the answer and are not
    done are here to be refused.
    """

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: wire.Positive | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] | None = None
    top_k: int | None = None
    seed: wire.Seed | None = None
    stop: wire.StopText | Annotated[list[wire.StopText], msgspec.Meta(max_length=wire.MAX_STOPS)] | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHOICES)] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None

    def check(self) -> None:
        """Refuses what is not done.

        Raises:
            Fault: it names the field.
        """
        for name in ("presence_penalty", "frequency_penalty", "logit_bias"):
            if getattr(self, name):
                raise Fault(f"{name}: this engine does not do that", next_step="leave it out")
        if self.stream and (self.n or 1) > 1:
            raise Fault("n: a stream has one choice", next_step="ask without stream, or several times")


class ContextOverflow(Fault):
    """The prompt does not fit; worded as OpenAI words it, since clients look for these words."""

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__(
            f"This model's maximum context length is {context} tokens. "
            f"However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
        )


@dataclass(frozen=True)
class Words:
    """What a sequence says up to the first stop text: its text, and the tokens that it takes."""

    text: str
    tokens: Sequence[int]
    finish_reason: str


class Exchange(abc.ABC):
    """A request on its way: where it goes, and how to read what comes back. `Chat` and `Completion` are its kinds."""

    kind, chunk_kind, prefix = "", "", ""
    """What the objects of the answer are called, whole and in a stream, and how their id begins."""
    tags: tuple[str, ...] = ()
    """Where plain text ends in a stream: what begins so is sent when it is whole."""

    def __init__(
        self, engine: Engine, asked: Options, prompt: list[int], ends: frozenset[int], limit: int, top: int | None
    ) -> None:
        """Checks the request.

        Args:
            engine: that answers.
            asked: the options.
            prompt: its tokens.
            ends: tokens that end an answer.
            limit: tokens of the answer; less if the context ends before.
            top: log-probabilities are wanted, and so many likeliest tokens; None: they are not.

        Raises:
            Fault: an option is not done, the model is not here, or the prompt does not fit.
        """
        asked.check()
        self.engine, self.asked, self.top = engine, asked, top
        self.id = f"{self.prefix}-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.source = source_of(engine, asked.model)
        self.model = str(self.source.path) if self.source.path else engine.name
        self.stops = [stop for stop in ([asked.stop] if isinstance(asked.stop, str) else asked.stop or []) if stop]
        room = engine.context - len(prompt)
        if room < 1:
            raise ContextOverflow(len(prompt), engine.context)
        params = SamplingParams(
            max_tokens=min(limit, room),
            temperature=1.0 if asked.temperature is None else asked.temperature,
            top_k=-1 if asked.top_k is None else asked.top_k,
            top_p=1.0 if asked.top_p is None else asked.top_p,
            seed=asked.seed,
            stop_tokens=ends,
            stop_texts=tuple(self.stops),
        )
        self.request = SampleRequest(prompt, params, count=asked.n or 1, topk=top or 0)

    def submit(self) -> Future:
        """Queues the request.

        Raises:
            Busy: too much is waiting.
        """
        return self.engine.sample(self.id, self.request, self.source, lambda done: Answer(b""), CHAT)

    @abc.abstractmethod
    def choice(self, index: int, draw: Draw) -> dict[str, Any]:
        """A finished sequence."""

    def opening(self) -> list[dict[str, Any]]:
        """What a stream begins with."""
        return []

    @abc.abstractmethod
    def delta(self, text: str, logprobs: Any) -> dict[str, Any]:
        """A piece of text in a stream."""

    @abc.abstractmethod
    def closing(self, draw: Draw, sent: str, told: int) -> list[dict[str, Any]]:
        """What is left to stream of a finished sequence after the text `sent` and the scores of `told` tokens."""

    @abc.abstractmethod
    def logprobs(self, draw: Draw, start: int, stop: int) -> Any:
        """The scores of the tokens from `start` to `stop`; None if they are not wanted."""

    def words(self, draw: Draw) -> Words:
        """What a sequence says, without the token that ended it and from no stop text on."""
        ends = self.request.params.stop_tokens
        tokens = [token for token in draw.tokens if token not in ends]
        text = self.text(tokens)
        if (cut := first_stop(text, self.stops)) is None:
            return Words(text, tokens, "stop" if draw.finished == "stop" else "length")
        kept = bisect.bisect_left(range(len(tokens)), cut, key=lambda n: len(self.text(tokens[:n])))
        return Words(text[:cut], tokens[:kept], "stop")

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text, without those that end an answer."""
        ends = self.request.params.stop_tokens
        return str(self.engine.tokenizer.decode([token for token in tokens if token not in ends]))

    def usage(self) -> dict[str, Any]:
        """How many tokens went in and came out."""
        prompt, completion = len(self.request.prompt), sum(len(draw.tokens) for draw in self.request.draws)
        details = {"cached_tokens": self.request.cached_tokens}
        counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        return {**counts, "prompt_tokens_details": details}

    def head(self, kind: str) -> dict[str, Any]:
        """What every object of the answer begins with."""
        facts = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**facts, "system_fingerprint": self.request.weights or None}

    async def whole(self, request: Request) -> Response:
        """Queues the request and answers when it is done; if the client hangs up first, its slot is freed."""
        futures, future = self.engine.futures, self.submit()
        while (answer := await future.wait(_LOOK_SECONDS)) is None:
            if await request.is_disconnected():
                futures.cancel(future)
                return Response(status_code=499)
        futures.fetched(future)
        if not self.request.done or answer.body:
            body, status = failed(answer)
            return JSONResponse(body, status_code=status)
        choices = [self.choice(i, draw) for i, draw in enumerate(self.request.draws)]
        return JSONResponse(self.head(self.kind) | {"choices": choices, "usage": self.usage()})


def check_size(engine: Engine, size: int) -> None:
    """Refuses `size` bytes of text that cannot fit the context, before they are made tokens, which takes long.

    Raises:
        ContextOverflow: they are twice what the longest tokens would need.
    """
    if size > 2 * engine.context * engine.longest_token + _SMALL:
        raise ContextOverflow(size // engine.longest_token, engine.context)


def source_of(engine: Engine, model: str) -> Source:
    """The weights that a model id names: the base, a tinker path, or `<base>;<tinker path>`.

    Raises:
        NotFound: they are not here.
    """
    base, _, path = model.rpartition(";")
    if path.startswith("tinker://") and (not base or engine.known_model(base)):
        return engine.source(path)
    if engine.known_model(model):
        return engine.source(None)
    raise NotFound(f"the model {model!r} is not here; this engine serves {engine.name} and its checkpoints")


def token_score(engine: Engine, token: int, logprob: float) -> dict[str, Any]:
    """A token with its log-probability; its bytes are left out where it is but a part of a character."""
    text = str(engine.tokenizer.decode([token]))
    return {"token": text, "logprob": logprob, "bytes": None if "\ufffd" in text else list(text.encode())}


def top_scores(engine: Engine, draw: Draw, i: int, top: int) -> list[dict[str, Any]]:
    """The likeliest tokens where the i-th token was drawn."""
    if not top:
        return []
    values, ids = draw.tops[i]
    pairs = zip(ids.tolist(), values.tolist(), strict=True)
    return [token_score(engine, token, value) for token, value in pairs]


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first of the stop texts begins, if one is there."""
    found = [text.find(stop) for stop in stops if stop in text]
    return min(found) if found else None


def error(fault: Refused) -> Response:
    """A fault in OpenAI's form."""
    if isinstance(fault, Busy):
        body = {"message": fault.whole, "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}
        return JSONResponse({"error": body}, status_code=fault.status, headers={"Retry-After": RETRY_SECONDS})
    code = {ContextOverflow: "context_length_exceeded", NotFound: "model_not_found"}.get(type(fault))
    parameter = {ContextOverflow: "messages", NotFound: "model"}.get(type(fault))
    body = {"message": fault.whole, "type": "invalid_request_error", "param": parameter, "code": code}
    return JSONResponse({"error": body}, status_code=fault.status if isinstance(fault, Fault) else 400)


def failed(answer: Answer) -> tuple[dict[str, Any], int]:
    """The body and status of an answer that did not come to be."""
    told = (
        msgspec.json.decode(answer.body) if answer.body else {"error": "the request was given up", "category": "user"}
    )
    user = told["category"] == "user"
    kind = "invalid_request_error" if user else "server_error"
    return {"error": {"message": told["error"], "type": kind, "param": None, "code": None}}, 400 if user else 500
