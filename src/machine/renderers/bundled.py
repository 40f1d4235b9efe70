"""Tokenizers of hosted models that tml-renderers brings along: what renders and counts rows with no model hub at hand.

They have the few methods of Hugging Face's tokenizers that renderers use.
"""

import re
from collections.abc import Sequence
from typing import Any

_FAMILIES = (
    (r"Qwen/Qwen3\.[568]-", "Qwen35Tokenizer"),
    (r"Qwen/Qwen3-(?!VL)", "Qwen3Tokenizer"),
    (r"deepseek-ai/DeepSeek-V3\.1$", "DeepSeekV31Tokenizer"),
    (r"deepseek-ai/DeepSeek-V4\.1", "DeepSeekV41Tokenizer"),
    (r"openai/gpt-oss-", "HarmonyTokenizer"),
    (r"moonshotai/Kimi-K2-Thinking", "KimiK2ThinkingTokenizer"),
    (r"moonshotai/Kimi-K2\.5", "KimiK25Tokenizer"),
    (r"moonshotai/Kimi-K2\.6", "KimiK26Tokenizer"),
    (r"zai-org/GLM-5\.", "GlmTokenizer"),
    (r"nvidia/.*Nemotron-3", "Nemotron3Tokenizer"),
)
"""Patterns of model names, and the class in `tml_renderers.tokenizers`."""


class BundledTokenizer:
    """The tokenizer of the model called `model`. As with Hugging Face's, the spelling of a special token is that token.

    Raises:
        KeyError: tml-renderers brings none for it.
    """

    def __init__(self, model: str) -> None:
        from tml_renderers import tokenizers

        family = next((name for pattern, name in _FAMILIES if re.match(pattern, model)), None)
        if family is None or not hasattr(tokenizers, family):
            raise KeyError(model)
        self.name_or_path = model
        self._inner = getattr(tokenizers, family)()
        named = {name: int(self._inner.encode_special(name)) for name in self._inner.special_tokens()}
        self._ids = {self.decode(id): id for id in named.values()}
        self.all_special_tokens, self.all_special_ids = list(self._ids), list(self._ids.values())
        self.bos_token_id, self.eos_token_id = named.get(self._inner.bos_token), named.get(self._inner.eos_token)
        self.bos_token, self.eos_token = (
            None if id is None else self.decode(id) for id in (self.bos_token_id, self.eos_token_id)
        )
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def encode(self, text: str, add_special_tokens: bool = False, **_: Any) -> list[int]:
        """Token ids of `text`.

        Raises:
            ValueError: tokens are to be put around it; only a renderer does that.
        """
        if add_special_tokens:
            raise ValueError("this tokenizer puts no special tokens around a text")
        ids: list[int] = []
        for piece in self._special.split(text):
            ids += [self._ids[piece]] if piece in self._ids else self._inner.encode_ordinary(piece)
        return ids

    def decode(self, token_ids: Sequence[int] | int, **_: Any) -> str:
        """The text of token ids."""
        return str(self._inner.decode([token_ids] if isinstance(token_ids, int) else list(token_ids)))

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """The id of a special token."""
        return self._ids.get(token)
