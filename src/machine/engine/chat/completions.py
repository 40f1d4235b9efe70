"""Plain completions: a prompt of text or tokens, continued without a chat template."""

import itertools
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from machine.engine.api.web import engine_of
from machine.engine.chat.openai import MAX_TOP, Exchange, Options, check_size, top_scores
from machine.engine.chat.streaming import streamed
from machine.engine.core import Engine
from machine.engine.faults import Fault
from machine.engine.sampling.requests import Draw
from machine.engine.wire import requests as wire
from machine.engine.wire.sampling import Chunk, Prompt, prompt_tokens

DEFAULT_MAX_TOKENS = 16
"""OpenAI's."""


class CompletionRequest(Options, kw_only=True):
    """POST completions."""

    prompt: str | list[str | wire.Token]
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=MAX_TOP)] | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None

    def check(self) -> None:
        """See `Options`."""
        super().check()
        if self.best_of not in (None, 1, self.n):
            raise Fault("best_of: this engine does not do that", next_step="leave it out")
        for name in ("echo", "suffix"):
            if getattr(self, name):
                raise Fault(f"{name}: this engine does not do that", next_step="leave it out")


class Completion(Exchange):
    """A completion request on its way."""

    kind = chunk_kind = "text_completion"
    prefix = "cmpl"

    def __init__(self, engine: Engine, asked: CompletionRequest) -> None:
        ends = frozenset(engine.model.config.end_tokens)
        limit = asked.max_tokens or DEFAULT_MAX_TOKENS
        super().__init__(engine, asked, _prompt(engine, asked.prompt), ends, limit, asked.logprobs)

    def choice(self, index: int, draw: Draw) -> dict[str, Any]:
        """See `Exchange`."""
        words = self.words(draw)
        said = {"index": index, "text": words.text, "finish_reason": words.finish_reason}
        return {**said, "logprobs": self.logprobs(draw, 0, len(words.tokens))}

    def delta(self, text: str, logprobs: Any) -> dict[str, Any]:
        """See `Exchange`."""
        return {"index": 0, "text": text, "finish_reason": None, "logprobs": logprobs}

    def closing(self, draw: Draw, sent: str, told: int) -> list[dict[str, Any]]:
        """See `Exchange`."""
        words = self.words(draw)
        last = self.delta(words.text[len(sent) :], self.logprobs(draw, told, len(words.tokens)))
        return [last | {"finish_reason": words.finish_reason}]

    def logprobs(self, draw: Draw, start: int, stop: int) -> Any:
        """See `Exchange`."""
        if self.top is None or start >= stop:
            return None
        texts = [self.text([token]) for token in draw.tokens[:stop]]
        offsets = list(itertools.accumulate(map(len, texts), initial=0))[start:stop]
        tops = [
            {score["token"]: score["logprob"] for score in top_scores(self.engine, draw, i, self.top)}
            for i in range(start, stop)
        ]
        scores = {"tokens": texts[start:], "token_logprobs": draw.logprobs[start:stop], "text_offset": offsets}
        return {**scores, "top_logprobs": tops if self.top else None}


async def completions(request: Request) -> Response:
    """A continued prompt, whole or as a stream of server-sent events."""
    engine, asked = engine_of(request), wire.decode(await request.body(), CompletionRequest)
    completion = await engine.write(lambda: Completion(engine, asked))
    return streamed(completion) if completion.asked.stream else await completion.whole(request)


def _prompt(engine: Engine, prompt: str | list[str | int]) -> list[int]:
    """The tokens of a prompt: of one text, or given as they are.

    Raises:
        Fault: there are several prompts, none, or a token that the model does not have.
    """
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if isinstance(prompt, str):
        check_size(engine, len(prompt.encode()))
    tokens = engine.writer.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    if not all(isinstance(token, int) for token in tokens):
        raise Fault("prompt: one text, or the tokens of one", next_step="ask several times")
    chunk = Chunk("encoded_text", [token for token in tokens if isinstance(token, int)])
    return prompt_tokens(Prompt([chunk]), engine.model.config.vocabulary)


routes = [Route("/oai/api/v1/completions", completions, methods=["POST"])]
