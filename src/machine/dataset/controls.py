"""Controls: text that spells a control token of the renderer.

It is harmless where the renderer keeps it text. Whether it does is counted, not guessed: the example is written again
with other text in its place, and must have as many control tokens as before.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from machine.dataset.render import Example
from machine.dataset.targets import Target
from machine.renderers import to_conversation
from machine.tinker.students import Student


class Controls:
    """The control tokens of a student."""

    def __init__(self, student: Student) -> None:
        self._student = student
        self._ids = control_tokens(student.tokenizer)
        self._row = ""
        self._spelled: dict[int, list[str]] = {}

    def faults(self, target: Target, example: Example) -> Iterator[str]:
        """The target, if some text of it would be read as the renderer's own markup."""
        spelled = self._of(target)
        if not spelled:
            return
        quiet = [_quiet(message, spelled) for message in target.messages]
        tools = [_quiet(tool, spelled) for tool in target.tools]
        renderer, ids = self._student.renderer, set(self._ids.values())
        model_input, _ = renderer.build_supervised_example(to_conversation(renderer, quiet, tools))
        if sum(t in ids for t in example.tokens) != sum(t in ids for t in model_input.to_ints()):
            yield f"{target.id}: its text spells {' '.join(spelled)} and would be read as the renderer's own markup"

    def _of(self, target: Target) -> list[str]:
        """The control tokens that its text spells. A message of a row is looked through once for all its targets."""
        if self._row != target.row:
            self._row, self._spelled = target.row, {}
        found: dict[str, None] = {}
        for part in (*target.messages, target.tools):
            if id(part) not in self._spelled:
                text = json.dumps(part, ensure_ascii=False)
                self._spelled[id(part)] = [token for token in self._ids if token in text]
            found |= dict.fromkeys(self._spelled[id(part)])
        return list(found)


def control_tokens(tokenizer: Any) -> dict[str, int]:
    """The tokens that a tokenizer knows by their whole spelling, and their ids."""
    if hasattr(tokenizer, "tml_tokenizer"):
        inner = tokenizer.tml_tokenizer
        ids = [int(inner.encode_special(name)) for name in inner.special_tokens()]
        return {str(inner.decode([id])): id for id in ids}
    added = getattr(tokenizer, "added_tokens_decoder", None)
    if added is not None:
        return {str(token.content): int(id) for id, token in added.items()}
    return dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))


def special_tokens(tokenizer: Any) -> list[str]:
    """The control tokens that only the chat format may write: those that a tokenizer leaves out of a plain text."""
    added = getattr(tokenizer, "added_tokens_decoder", None)
    if added is None or hasattr(tokenizer, "tml_tokenizer"):
        return list(control_tokens(tokenizer))
    return [str(token.content) for token in added.values() if token.special]


def _quiet(value: Any, spelled: Sequence[str]) -> Any:
    match value:
        case str():
            for token in spelled:
                value = value.replace(token, "-")
            return value
        case list() | tuple():
            return [_quiet(item, spelled) for item in value]
        case dict():
            return {key: _quiet(item, spelled) for key, item in value.items()}
        case _:
            return value
