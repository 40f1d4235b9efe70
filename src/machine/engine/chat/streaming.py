"""Answers as streams of server-sent events.

Text goes out as it is drawn, but for what may yet become something else: the beginning of a stop text or of a tag
(a tool call, reasoning), or part of a character. Tokens cross from the model's thread to the event loop one by one.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from machine.engine.chat.openai import Exchange, failed, first_stop
from machine.engine.work.futures import Answer, Future

_INCOMPLETE = "\ufffd"
DONE = b"data: [DONE]\n\n"


def streamed(exchange: Exchange) -> Response:
    """Queues the request and answers with its events.

    Raises:
        Busy: too much is waiting.
    """
    tokens: asyncio.Queue[int | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hear(token: int) -> None:
        loop.call_soon_threadsafe(tokens.put_nowait, token)

    exchange.request.on_token = hear
    return StreamingResponse(_events(exchange, exchange.submit(), tokens), media_type="text/event-stream")


class Transcript:
    """The text of a sequence as it grows, each token decoded a bounded number of times.

    A token's text depends on those before it (spaces, parts of characters), so the last few are decoded again with it.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.text = ""
        self._tokens: list[int] = []
        self._before, self._read = 0, 0  # the tokens [before, read) are in `text` already

    def add(self, token: int) -> None:
        """Takes a token; its text is there once its last character is whole."""
        self._tokens.append(token)
        known = self._exchange.text(self._tokens[self._before : self._read])
        text = self._exchange.text(self._tokens[self._before :])
        if len(text) > len(known) and not text.endswith(_INCOMPLETE):
            self.text += text[len(known) :]
            self._before, self._read = self._read, len(self._tokens)


async def _events(exchange: Exchange, future: Future, tokens: "asyncio.Queue[int | None]") -> AsyncIterator[bytes]:
    done = asyncio.create_task(_announce(future, tokens))
    try:
        for choice in exchange.opening():
            yield _chunk(exchange, choice)
        transcript, sent, told, count = Transcript(exchange), "", 0, 0
        while (token := await tokens.get()) is not None:
            transcript.add(token)
            count += 1
            text, draw = transcript.text, exchange.request.draws[0]
            safe = len(sent) + safe_length(text[len(sent) :], exchange.stops, exchange.tags)
            if safe > len(sent) and not any(tag in text for tag in exchange.tags):
                upto = count if safe == len(text) else told  # the scores of tokens that are held back wait too
                yield _chunk(exchange, exchange.delta(text[len(sent) : safe], exchange.logprobs(draw, told, upto)))
                sent, told = text[:safe], upto
        answer = await done
        if not exchange.request.done or answer is None or answer.body:
            yield _event(failed(answer or Answer(b""))[0])
            return
        for choice in exchange.closing(exchange.request.draws[0], sent, told):
            yield _chunk(exchange, choice)
        if exchange.asked.stream_options is not None and exchange.asked.stream_options.include_usage:
            yield _event(exchange.head(exchange.chunk_kind) | {"choices": [], "usage": exchange.usage()})
        yield DONE
    finally:
        done.cancel()
        exchange.engine.futures.cancel(future)
        exchange.engine.futures.fetched(future)


async def _announce(future: Future, tokens: "asyncio.Queue[int | None]") -> Answer | None:
    answer = await future.wait()
    tokens.put_nowait(None)
    return answer


def _chunk(exchange: Exchange, choice: dict[str, Any]) -> bytes:
    return _event(exchange.head(exchange.chunk_kind) | {"choices": [choice]})


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def safe_length(text: str, stops: Sequence[str], tags: Sequence[str] = ()) -> int:
    """How much of `text` can be sent: nothing that may yet become a stop text, a tag, or another character."""
    if (cut := first_stop(text, stops)) is not None:
        return cut
    end = len(text.rstrip(_INCOMPLETE))
    for marker in (*stops, *tags):
        for length in range(min(len(marker) - 1, end), 0, -1):
            if text.endswith(marker[:length], 0, end):
                end -= length
                break
    return end
