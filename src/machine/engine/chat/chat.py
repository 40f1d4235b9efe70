"""Chat on the base model and on checkpoints: tools in and out, reasoning, log-probabilities; and the list of models.

The prompt is rendered as training rows are (`renderers.to_conversation`), with the renderer of the model.
"""

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from machine.engine.api.web import engine_of
from machine.engine.chat.openai import MAX_TOP, Exchange, Options, check_size, first_stop, token_score, top_scores
from machine.engine.chat.streaming import streamed
from machine.engine.checkpoints import Checkpoints
from machine.engine.core import Engine
from machine.engine.faults import Fault
from machine.engine.sampling.requests import Draw
from machine.engine.wire import requests as wire
from machine.errors import Refused
from machine.renderers import to_conversation

if TYPE_CHECKING:
    from tinker_cookbook.renderers import Message

DEFAULT_MAX_TOKENS = 1024


class ResponseFormat(msgspec.Struct):
    """What form the answer is to have."""

    type: str = "text"


class ChatRequest(Options, kw_only=True):
    """POST chat/completions."""

    messages: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    max_completion_tokens: wire.Positive | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=MAX_TOP)] | None = None
    response_format: ResponseFormat | None = None

    def check(self) -> None:
        """See `Options`."""
        super().check()
        if self.tool_choice not in (None, "auto", "none"):
            raise Fault("tool_choice: this engine cannot force a call", next_step='use "auto" or "none"')
        if self.response_format is not None and self.response_format.type != "text":
            raise Fault(f"response_format: {self.response_format.type!r} is not supported", next_step='use "text"')
        if self.top_logprobs and not self.logprobs:
            raise Fault("top_logprobs: it needs logprobs", next_step="set logprobs to true")


@dataclass(frozen=True)
class Reply:
    """A parsed answer; `calls` are OpenAI tool calls, `tokens` those that it was read from."""

    text: str
    reasoning: str
    calls: list[dict[str, Any]]
    finish_reason: str
    tokens: int

    def message(self) -> dict[str, Any]:
        """The reply as OpenAI's assistant message."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self.calls
        return message


class Chat(Exchange):
    """A chat request on its way."""

    kind, chunk_kind, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl"
    tags = ("<tool_call>", "<think>")

    def __init__(self, engine: Engine, asked: ChatRequest) -> None:
        tools = [] if asked.tool_choice == "none" else asked.tools or []
        check_size(engine, len(msgspec.json.encode([asked.messages, tools])))
        prompt = engine.writer.build_generation_prompt(_conversation(engine, asked.messages, tools)).to_ints()
        ends = frozenset(stop for stop in engine.writer.get_stop_sequences() if isinstance(stop, int))
        limit = asked.max_completion_tokens or asked.max_tokens or DEFAULT_MAX_TOKENS
        super().__init__(engine, asked, prompt, ends, limit, (asked.top_logprobs or 0) if asked.logprobs else None)

    def reply(self, draw: Draw) -> Reply:
        """The finished answer."""
        words = self.words(draw)
        if first_stop(self.text(draw.tokens), self.stops) is not None:
            return Reply(words.text, "", [], "stop", len(words.tokens))
        message, _ = self.engine.renderer.parse_response(draw.tokens)
        text, reasoning = _read_parts(message)
        calls = [_openai_call(call) for call in message.get("tool_calls") or []]
        return Reply(text, reasoning, calls, "tool_calls" if calls else words.finish_reason, len(words.tokens))

    def choice(self, index: int, draw: Draw) -> dict[str, Any]:
        """See `Exchange`."""
        reply = self.reply(draw)
        said = {"index": index, "message": reply.message(), "finish_reason": reply.finish_reason}
        return {**said, "logprobs": self.logprobs(draw, 0, reply.tokens)}

    def opening(self) -> list[dict[str, Any]]:
        """See `Exchange`."""
        return [_delta({"role": "assistant", "content": ""})]

    def delta(self, text: str, logprobs: Any) -> dict[str, Any]:
        """See `Exchange`."""
        return _delta({"content": text}, logprobs=logprobs)

    def closing(self, draw: Draw, sent: str, told: int) -> list[dict[str, Any]]:
        """See `Exchange`."""
        reply = self.reply(draw)
        choices = [_delta({"reasoning_content": reply.reasoning})] if reply.reasoning else []
        if rest := reply.text[len(sent) :] if reply.text.startswith(sent) else "":
            choices.append(_delta({"content": rest}))
        choices += [_delta({"tool_calls": [{"index": i, **call}]}) for i, call in enumerate(reply.calls)]
        return [*choices, _delta({}, reply.finish_reason, self.logprobs(draw, told, reply.tokens))]

    def logprobs(self, draw: Draw, start: int, stop: int) -> Any:
        """See `Exchange`."""
        if self.top is None or start >= stop:
            return None
        content = [
            token_score(self.engine, draw.tokens[i], draw.logprobs[i])
            | {"top_logprobs": top_scores(self.engine, draw, i, self.top)}
            for i in range(start, stop)
        ]
        return {"content": content, "refusal": None}


async def completions(request: Request) -> Response:
    """A chat answer, whole or as a stream of server-sent events."""
    engine, asked = engine_of(request), wire.decode(await request.body(), ChatRequest)
    chat = await engine.write(lambda: Chat(engine, asked))
    return streamed(chat) if chat.asked.stream else await chat.whole(request)


async def models(request: Request) -> Response:
    """The base model and every checkpoint made for sampling."""
    engine = engine_of(request)
    names = [engine.name, *await run_in_threadpool(_sampler_paths, engine.checkpoints)]
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "local"} for name in names]
    return JSONResponse({"object": "list", "data": data})


def _sampler_paths(store: Checkpoints) -> list[str]:
    return [checkpoint["tinker_path"] for checkpoint in store.all() if checkpoint["checkpoint_type"] == "sampler"]


def _delta(delta: dict[str, Any], finish_reason: str | None = None, logprobs: Any = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return choice if logprobs is None else {**choice, "logprobs": logprobs}


def _conversation(engine: Engine, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> "list[Message]":
    try:
        return to_conversation(engine.writer, messages, tools)
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
