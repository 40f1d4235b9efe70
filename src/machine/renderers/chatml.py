"""The renderer of ChatML models whose own template knows no tools, such as SmolLM2.

`<|im_start|>role\\n...<|im_end|>` as their template writes it, its default system prompt included, with Qwen's syntax
for tools. Thinking stays in history, so that every prompt of a conversation is a prefix of the next one.
"""

import re
from collections.abc import Sequence
from typing import Any

from tinker_cookbook.renderers import TrainOnWhat
from tinker_cookbook.renderers.qwen3 import Qwen3InstructRenderer


class ChatmlRenderer(Qwen3InstructRenderer):  # type: ignore[misc]
    """See the module's head."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer, strip_thinking_from_history=False)
        self.default_system = _default_system(tokenizer)

    def build_generation_prompt(
        self, messages: Sequence[Any], role: str = "assistant", prefill: str | None = None
    ) -> Any:
        """The cookbook's, with the default system prompt where `messages` begin with none."""
        return super().build_generation_prompt(self._begun(messages), role, prefill)

    def build_supervised_example(
        self, messages: Sequence[Any], train_on_what: Any = TrainOnWhat.LAST_ASSISTANT_MESSAGE
    ) -> Any:
        """The cookbook's, after the same prompt as `build_generation_prompt` writes."""
        return super().build_supervised_example(self._begun(messages), train_on_what)

    def create_conversation_prefix_with_tools(self, tools: Sequence[Any], system_prompt: str = "") -> Any:
        """The cookbook's, after the default system prompt where there is no other."""
        return super().create_conversation_prefix_with_tools(tools, system_prompt or self.default_system or "")

    def _begun(self, messages: Sequence[Any]) -> list[Any]:
        if self.default_system is None or (messages and messages[0]["role"] == "system"):
            return list(messages)
        return [{"role": "system", "content": self.default_system}, *messages]


def _default_system(tokenizer: Any) -> str | None:
    """The system prompt that the tokenizer's template writes when it is given none."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    text = tokenizer.apply_chat_template([{"role": "user", "content": ""}], tokenize=False)
    found = re.match(r"<\|im_start\|>system\n(.*?)<\|im_end\|>\n<\|im_start\|>user\n", text, re.DOTALL)
    return found[1] if found else None
