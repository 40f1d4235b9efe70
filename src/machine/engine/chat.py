"""OpenAI-compatible chat on the base model and on checkpoints, at the path that hosted Tinker has too.

The prompt is rendered as training rows are (`renderers.to_conversation`). `system_fingerprint` names the weights that
answered: the SHA-256 of the adapter's weights file, or "base"; `model` is the tinker path that they were read from.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from machine.engine import wire
from machine.engine.core import Engine, Source
from machine.engine.faults import Fault, NotFound
from machine.engine.futures import Answer, Future
from machine.engine.sampling import SampleRequest, SamplingParams
from machine.errors import Refused
from machine.renderers import to_conversation

if TYPE_CHECKING:
    from tinker_cookbook.renderers import Message

DEFAULT_MAX_TOKENS = 1024
_TAGS = ("<tool_call>", "<think>")
"""Where plain text ends in a stream: what begins so is sent when it is whole."""
_INCOMPLETE = "\ufffd"


class StreamOptions(msgspec.Struct):
    """How to stream."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct):
    """POST chat/completions; fields that this engine does not know are ignored, as OpenAI's clients expect."""

    model: str
    messages: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: wire.Positive | None = None
    max_completion_tokens: wire.Positive | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    n: int | None = None


@dataclass(frozen=True)
class Reply:
    """A parsed answer; `calls` are OpenAI tool calls."""

    text: str
    reasoning: str
    calls: list[dict[str, Any]]
    finish_reason: str

    def message(self) -> dict[str, Any]:
        """The reply as OpenAI's assistant message."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self.calls
        return message


class Conversation:
    """One chat request on its way: prompt, stops, and how to read the answer."""

    def __init__(self, engine: Engine, asked: ChatRequest) -> None:
        self.engine, self.asked = engine, asked
        self.id = f"chatcmpl-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.source = _source(engine, asked.model)
        self.model = str(self.source.path) if self.source.path else engine.name
        self.stops = [asked.stop] if isinstance(asked.stop, str) else [stop for stop in asked.stop or [] if stop]
        self.request = self._sample_request()

    def _sample_request(self) -> SampleRequest:
        asked, engine = self.asked, self.engine
        if asked.n not in (None, 1):
            raise Fault("n: only one choice is supported", next_step="ask several times")
        tools = [] if asked.tool_choice == "none" else asked.tools or []
        prompt = engine.renderer.build_generation_prompt(_conversation(engine, asked.messages, tools)).to_ints()
        room = engine.context - len(prompt)
        if room < 1:
            raise ContextOverflow(len(prompt), engine.context)
        limit = asked.max_completion_tokens or asked.max_tokens or DEFAULT_MAX_TOKENS
        params = SamplingParams(
            max_tokens=min(limit, room),
            temperature=1.0 if asked.temperature is None else asked.temperature,
            top_p=1.0 if asked.top_p is None else asked.top_p,
            seed=asked.seed,
            stop_tokens=frozenset(engine.renderer.get_stop_sequences()),
            stop_texts=tuple(self.stops),
        )
        return SampleRequest(prompt, params)

    def submit(self) -> Future:
        """Queues the request."""
        return self.engine.sample(self.id, self.request, self.source, lambda done: Answer(b""))

    def reply(self) -> Reply:
        """The finished answer."""
        draw = self.request.draws[0]
        tokens, reason = draw.tokens, "stop" if draw.finished == "stop" else "length"
        raw = self.text(tokens)
        if (cut := first_stop(raw, self.stops)) is not None:
            return Reply(raw[:cut], "", [], "stop")
        message, _ = self.engine.renderer.parse_response(tokens)
        text, reasoning = _read_parts(message)
        calls = [_openai_call(call) for call in message.get("tool_calls") or []]
        return Reply(text, reasoning, calls, "tool_calls" if calls else reason)

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text, without the control token that ends a message."""
        stops = self.request.params.stop_tokens
        return str(self.engine.tokenizer.decode([token for token in tokens if token not in stops]))

    def usage(self) -> dict[str, Any]:
        """How many tokens went in and came out."""
        prompt, completion = len(self.request.prompt), len(self.request.draws[0].tokens)
        details = {"cached_tokens": self.request.cached_tokens}
        counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        return {**counts, "prompt_tokens_details": details}

    def head(self, kind: str) -> dict[str, Any]:
        """What every object of the answer begins with."""
        facts = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**facts, "system_fingerprint": self.request.weights or None}


class ContextOverflow(Fault):
    """The prompt does not fit; worded as OpenAI words it, since clients look for these words."""

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__(
            f"This model's maximum context length is {context} tokens. "
            f"However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
        )


async def models(request: Request) -> Response:
    """The base model and every checkpoint made for sampling."""
    engine: Engine = request.app.state.engine
    store = engine.checkpoints
    found = [c for run in store.runs() for c in store.of_run(run) if c["checkpoint_type"] == "sampler"]
    names = [engine.name, *[checkpoint["tinker_path"] for checkpoint in found]]
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "local"} for name in names]
    return JSONResponse({"object": "list", "data": data})


async def completions(request: Request) -> Response:
    """A chat answer, whole or as a stream of server-sent events."""
    asked = wire.decode(await request.body(), ChatRequest)
    conversation = Conversation(request.app.state.engine, asked)
    if asked.stream:
        return StreamingResponse(_stream(conversation), media_type="text/event-stream")
    future = conversation.submit()
    answer = await _until_done_or_gone(request, future)
    conversation.engine.futures.fetched(future)
    if not conversation.request.done or answer is None or answer.body:
        return _failed(answer)
    reply = conversation.reply()
    choice = {"index": 0, "message": reply.message(), "finish_reason": reply.finish_reason, "logprobs": None}
    return JSONResponse(conversation.head("chat.completion") | {"choices": [choice], "usage": conversation.usage()})


def error(fault: Refused) -> Response:
    """A fault in OpenAI's form."""
    message = f"{fault.message} ({fault.next_step})" if fault.next_step else fault.message
    code = {ContextOverflow: "context_length_exceeded", NotFound: "model_not_found"}.get(type(fault))
    parameter = {ContextOverflow: "messages", NotFound: "model"}.get(type(fault))
    body = {"message": message, "type": "invalid_request_error", "param": parameter, "code": code}
    status = fault.status if isinstance(fault, Fault) else 400
    headers = {"Retry-After": "2"} if status == 429 else None
    return JSONResponse({"error": body}, status_code=status, headers=headers)


async def _until_done_or_gone(request: Request, future: Future) -> Answer | None:
    """The answer; if the client hangs up first, the request is given up and its slot freed."""
    while (answer := await future.wait(0.25)) is None:
        if await request.is_disconnected():
            future.cancelled = True
            return None
    return answer


def _failed(answer: Answer | None) -> Response:
    reason = msgspec.json.decode(answer.body)["error"] if answer and answer.body else "the request was given up"
    return JSONResponse({"error": {"message": reason, "type": "server_error", "code": None}}, status_code=500)


def _stream(conversation: Conversation) -> AsyncIterator[bytes]:
    """Queues the request and gives its chunks; tokens cross from the model's thread one by one."""
    tokens: asyncio.Queue[int | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hear(token: int) -> None:
        loop.call_soon_threadsafe(tokens.put_nowait, token)

    conversation.request.on_token = hear
    return _events(conversation, conversation.submit(), tokens)


async def _events(
    conversation: Conversation, future: Future, tokens: "asyncio.Queue[int | None]"
) -> AsyncIterator[bytes]:
    """The answer as chunks: text as it comes, tool calls and reasoning when they are whole."""
    done = asyncio.create_task(_announce(future, tokens))
    try:
        yield _chunk(conversation, {"role": "assistant", "content": ""})
        seen: list[int] = []
        sent = ""
        while (token := await tokens.get()) is not None:
            seen.append(token)
            text = conversation.text(seen)
            safe = len(sent) + safe_length(text[len(sent) :], conversation.stops)
            if safe > len(sent) and not any(tag in text for tag in _TAGS):
                yield _chunk(conversation, {"content": text[len(sent) : safe]})
                sent = text[:safe]
        answer = await done
        if not conversation.request.done or answer is None or answer.body:
            reason = msgspec.json.decode(answer.body)["error"] if answer and answer.body else "given up"
            yield _event({"error": {"message": reason, "type": "server_error", "code": None}})
            return
        reply = conversation.reply()
        if reply.reasoning:
            yield _chunk(conversation, {"reasoning_content": reply.reasoning})
        if rest := reply.text[len(sent) :] if reply.text.startswith(sent) else "":
            yield _chunk(conversation, {"content": rest})
        for i, call in enumerate(reply.calls):
            yield _chunk(conversation, {"tool_calls": [{"index": i, **call}]})
        yield _chunk(conversation, {}, reply.finish_reason)
        if conversation.asked.stream_options and conversation.asked.stream_options.include_usage:
            usage = {"choices": [], "usage": conversation.usage()}
            yield _event(conversation.head("chat.completion.chunk") | usage)
        yield b"data: [DONE]\n\n"
    finally:
        future.cancelled = True
        done.cancel()
        conversation.engine.futures.fetched(future)


async def _announce(future: Future, tokens: "asyncio.Queue[int | None]") -> Answer | None:
    answer = await future.wait()
    tokens.put_nowait(None)
    return answer


def _chunk(conversation: Conversation, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event(conversation.head("chat.completion.chunk") | {"choices": [choice]})


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first of the stop texts begins, if one is there."""
    found = [text.find(stop) for stop in stops if stop in text]
    return min(found) if found else None


def safe_length(text: str, stops: Sequence[str]) -> int:
    """How much of `text` can be sent: nothing that may yet become a stop text, a tag, or another character."""
    if (cut := first_stop(text, stops)) is not None:
        return cut
    end = len(text.rstrip(_INCOMPLETE))
    for marker in (*stops, *_TAGS):
        for length in range(min(len(marker) - 1, end), 0, -1):
            if text.endswith(marker[:length], 0, end):
                end -= length
                break
    return end


def _source(engine: Engine, model: str) -> Source:
    """The weights that a model id names: the base, a tinker path, or `<base>;<tinker path>`."""
    base, _, path = model.rpartition(";")
    if path.startswith("tinker://") and (not base or engine.known_model(base)):
        return engine.source(path)
    if engine.known_model(model):
        return engine.source(None)
    raise NotFound(f"the model {model!r} is not here; this engine serves {engine.name} and its checkpoints")


def _conversation(engine: Engine, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> "list[Message]":
    try:
        return to_conversation(engine.renderer, messages, tools)
    except Refused:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Fault(f"messages or tools are malformed: {type(error).__name__} {error}") from error


def _read_parts(message: "Message") -> tuple[str, str]:
    """Text and reasoning of a parsed message; calls that do not parse stay in the text, as the model wrote them."""
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    text += "".join(call.raw_text for call in message.get("unparsed_tool_calls") or [] if call.raw_text not in text)
    return text, "".join(part["thinking"] for part in parts if part["type"] == "thinking")


def _openai_call(call: Any) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id or f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


routes = [
    Route("/oai/api/v1/models", models),
    Route("/oai/api/v1/chat/completions", completions, methods=["POST"]),
]
