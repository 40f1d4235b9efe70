"""Slash: what is typed in Pi and what is typed in a shell, one turned into the other.

People type prose after a slash command, so quotes are only quotes where they look like it: `/good it's great` is three
words and no syntax error.
"""

import re

OWN = ("good", "correction", "corrections", "tagged", "train", "tinker", "release")
"""Commands with a slash of their own; every other one is a word of `/machine`."""

SPACE = " \t\r\n"
QUOTES = "\"'"


def argv(name: str, text: str) -> list[str]:
    """The shell's words for `/name text`: `/train run` is `machine train run`, `/machine data` is `machine data`."""
    words = split(text)
    return words if name == "machine" else [name, *words]


def as_typed_in_pi(advice: str) -> str:
    """A shell's advice (`machine train run`), as it is typed in Pi (`/train run`)."""
    return re.sub(r"(?<![\w./-])machine (?=[a-z])(\w+)", lambda found: _slash(found[1]), advice)


def _slash(word: str) -> str:
    return f"/{word}" if word in OWN else f"/machine {word}"


def split(text: str) -> list[str]:
    r"""The words of `text`.

    A quote opens at the start of a word or right after `=`, and closes at the next of its kind that ends a word; one
    that never closes is a character like any other. Inside double quotes `\"` and `\\` stand for `"` and `\`;
    everywhere else a backslash is itself.
    """
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in SPACE:
            at += 1
            continue
        word, at = _word(text, at)
        words.append(word)
    return words


def _word(text: str, start: int) -> tuple[str, int]:
    """The word that starts at `start`, and where it ends."""
    word, at = "", start
    while at < len(text) and text[at] not in SPACE:
        opens = text[at] in QUOTES and (at == start or text[at - 1] == "=")
        quoted = _quoted(text, at) if opens else None
        if quoted:
            return word + quoted[0], quoted[1]
        word += text[at]
        at += 1
    return word, at


def _quoted(text: str, start: int) -> tuple[str, int] | None:
    """What the quote at `start` holds and where it ends; None if it never closes."""
    quote, content, at = text[start], "", start + 1
    while at < len(text):
        if quote == '"' and text[at] == "\\" and text[at + 1 : at + 2] in ('"', "\\"):
            content += text[at + 1]
            at += 2
            continue
        if text[at] == quote and (at + 1 == len(text) or text[at + 1] in SPACE):
            return content, at + 1
        content += text[at]
        at += 1
    return None
