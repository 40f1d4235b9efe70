"""A tokenizer that remembers what it has encoded.

The targets of a row have their beginning in common, and the prompt of each is written twice, at training and at
sampling. Renderers encode message by message, so that a text which comes again is encoded once.
"""

from typing import Any

MOST = 32 << 20
"""Characters of text that are remembered; beyond it, everything is forgotten and remembered anew."""


class RememberedTokenizer:
    """`tokenizer` in all respects, with its `encode` remembered."""

    def __init__(self, tokenizer: Any) -> None:
        self._inner = tokenizer
        self._known: dict[tuple[str, tuple[tuple[str, Any], ...]], list[int]] = {}
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def encode(self, text: Any, **options: Any) -> list[int]:
        """Token ids of `text`; the list is the caller's own."""
        if not isinstance(text, str):
            return list(self._inner.encode(text, **options))
        key = (text, tuple(sorted(options.items())))
        if key not in self._known:
            ids = list(self._inner.encode(text, **options))
            self._size += len(text)
            if self._size > MOST:
                self._known.clear()
                self._size = len(text)
            self._known[key] = ids
        return self._known[key].copy()
