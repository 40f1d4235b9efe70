"""The renderer of models that bring a chat template of their own: prompts are what that template writes.

A trained answer is what the template writes after the prompt, up to the token that ends a message; where the template
writes another prompt before an answer than before its generation, the row is refused. Text that spells a control token
stays text. Answers are read back in the syntax of Qwen (`<think>`, `<tool_call>`) and Llama 3 (bare JSON).
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import torch
from jinja2 import TemplateError
from tinker_cookbook.renderers import Renderer, TrainOnWhat
from tinker_cookbook.renderers.base import ParseTermination, ToolCall, parse_content_blocks

from machine.errors import Refused, UsageError
from tinker import ModelInput

_BREAK = "\ufdd0"  # no character of any text: where the encoding of a text is broken up
_ANSWER = "\ufdd1"
_NEXT = "leave the row out, or choose another model"


class TemplateRenderer(Renderer):  # type: ignore[misc]
    """See the module's head.

    Raises:
        UsageError: the template ends an answer with no token of its own.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self.template: str = tokenizer.get_chat_template()
        controls = {t.content: id for id, t in tokenizer.added_tokens_decoder.items() if t.special}
        self._controls = re.compile("|".join(re.escape(t) for t in sorted(controls, key=len, reverse=True)) or r"(?!)")
        self._ids = controls if _encodes_apart(tokenizer) else {}
        self._parted = re.compile(f"({self._controls.pattern})") if self._ids else None
        answered = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _ANSWER}]
        ends = self._controls.search(self._text(answered, generate=False).rpartition(_ANSWER)[2])
        if ends is None:
            raise UsageError("the model's chat template ends an answer with no token of its own",
                             next_step="use an instruct model whose template does")  # fmt: skip
        self.end: str = ends[0]
        self.stops = sorted({controls[self.end], tokenizer.eos_token_id} - {None})

    def get_stop_sequences(self) -> list[int]:
        """The tokens that end an answer: the template's, and the tokenizer's end of text."""
        return list(self.stops)

    def build_generation_prompt(
        self, messages: Sequence[Any], role: str = "assistant", prefill: str | None = None
    ) -> ModelInput:
        """What the template writes before an answer, and `prefill` behind it.

        Raises:
            Refused: the template does not take such a conversation.
        """
        return ModelInput.from_ints(self._encoded(self._text(messages, generate=True) + (prefill or "")))

    def build_supervised_example(
        self, messages: Sequence[Any], train_on_what: Any = TrainOnWhat.LAST_ASSISTANT_MESSAGE
    ) -> tuple[ModelInput, torch.Tensor]:
        """The prompt before the last message, which is an answer, then that answer: tokens [T] and weights [T].

        Raises:
            Refused: the template does not take such a conversation, or writes it otherwise than its prompt.
        """
        if train_on_what != TrainOnWhat.LAST_ASSISTANT_MESSAGE or not messages or messages[-1]["role"] != "assistant":
            raise Refused("a chat template can train the last answer of a conversation only", next_step=_NEXT)
        prompt, whole = self._text(messages[:-1], generate=True), self._text(messages, generate=False)
        answer, end, _ = whole.removeprefix(prompt).rpartition(self.end)
        if not whole.startswith(prompt) or not end:
            raise Refused("the model's chat template writes another prompt at training than at sampling",
                          next_step=_NEXT)  # fmt: skip
        given, trained = self._encoded(prompt), self._encoded(answer + end)
        weights = torch.cat([torch.zeros(len(given)), torch.ones(len(trained))])
        return ModelInput.from_ints(given + trained), weights

    def render_message(self, message: Any, ctx: Any) -> Any:
        """A template has no messages apart.

        Raises:
            Refused: always.
        """
        raise Refused("a chat template writes whole conversations, not single messages", next_step=_NEXT)

    def create_conversation_prefix_with_tools(self, tools: Sequence[Any], system_prompt: str = "") -> list[Any]:
        """A system message that carries the tools to the template.

        Raises:
            Refused: the template knows no tools.
        """
        if "tools" not in self.template:
            raise Refused("this model's chat template knows no tools", next_step="leave the tools out")
        return [{"role": "system", "content": system_prompt, "tools": list(tools)}]

    def parse_response(self, response: list[int]) -> tuple[Any, ParseTermination]:
        """The message of sampled tokens; MALFORMED where no stop token ends it."""
        length = next((i for i, token in enumerate(response) if token in self.stops), None)
        text = str(self.tokenizer.decode(response[:length]))
        if "</think>" in text and "<think>" not in text:
            text = "<think>" + text  # the prompt had opened it
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if (call := _bare_call(text)) is not None:
            message |= {"content": "", "tool_calls": [call]}
        elif (blocks := parse_content_blocks(text)) is not None:
            parts, calls = blocks
            message["content"] = [{**part, part["type"]: part[part["type"]].strip("\n")} for part in parts]
            for key, whole in (("tool_calls", True), ("unparsed_tool_calls", False)):
                if found := [call for call in calls if isinstance(call, ToolCall) is whole]:
                    message[key] = found
        return message, ParseTermination.MALFORMED if length is None else ParseTermination.STOP_SEQUENCE

    def _text(self, messages: Sequence[Any], *, generate: bool) -> str:
        """What the template writes; the spelling of a control token within a message is broken up by `_BREAK`."""
        tools = [tool for message in messages for tool in message.get("tools", ())]
        written = [self._openai(message) for message in messages if message["content"] or "tools" not in message]
        wrapped = [{"type": "function", "function": tool} for tool in tools] or None
        try:
            text = self.tokenizer.apply_chat_template(
                self._quiet(written), tools=self._quiet(wrapped), add_generation_prompt=generate, tokenize=False
            )
        except (TemplateError, TypeError) as error:
            raise Refused(f"the model's chat template does not take it: {error}", next_step=_NEXT) from error
        return str(text)

    def _openai(self, message: Any) -> dict[str, Any]:
        parts = message["content"]
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        thinking = "".join(part["thinking"] for part in parts if part["type"] == "thinking")
        written = {"role": message["role"], "content": text}
        if thinking and "reasoning_content" in self.template:
            written["reasoning_content"] = thinking
        elif thinking:
            written["content"] = f"<think>\n{thinking}\n</think>\n\n{text}"
        if calls := message.get("tool_calls"):
            written["tool_calls"] = [_openai_call(call) for call in calls]
        return written | {key: message[key] for key in ("name", "tool_call_id") if message.get(key)}

    def _quiet(self, value: Any) -> Any:
        match value:
            case str():
                return self._controls.sub(lambda found: found[0][0] + _BREAK + found[0][1:], value)
            case list():
                return [self._quiet(item) for item in value]
            case dict():
                return {key: self._quiet(item) for key, item in value.items()}
        return value

    def _encoded(self, text: str) -> list[int]:
        """Token ids; what stands between control tokens is encoded by itself, so that it can be remembered."""
        ids: list[int] = []
        for piece in text.split(_BREAK):
            for part in self._parted.split(piece) if self._parted else [piece]:
                ids += [self._ids[part]] if part in self._ids else self.tokenizer.encode(part, add_special_tokens=False)
        return ids


def _encodes_apart(tokenizer: Any) -> bool:
    """Whether a text has the tokens of its parts, where control tokens part it: nothing is added or stripped there."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    strips = any(token[side] for token in backend["added_tokens"] for side in ("lstrip", "rstrip", "single_word"))
    return not strips and not re.search(
        r'"(Prepend|Metaspace|Strip)"|"add_prefix_space": ?true',
        json.dumps([backend["normalizer"], backend["pre_tokenizer"]]),
    )


def _openai_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": json.loads(call.function.arguments)}
    return {"type": "function", "id": call.id, "function": function}


def _bare_call(text: str) -> ToolCall | None:
    """Llama 3's tool call: an answer that is one JSON object with a name and parameters."""
    try:
        call = json.loads(text)
    except ValueError:
        return None
    match call:
        case {"name": str(name), "parameters": dict(parameters), **rest} if not rest:
            return ToolCall(function=ToolCall.FunctionBody(name=name, arguments=json.dumps(parameters)))
    return None
