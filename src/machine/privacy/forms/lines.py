"""Lines: secrets that a line announces: what a prompt was answered, and what stands on the line after a label. Line
ends may be spelt as in JSON text.
"""

import re
from collections.abc import Iterator

from machine.privacy.forms.columns import line_around
from machine.privacy.forms.passphrases import is_app_password
from machine.privacy.forms.rule import LINE_END, Rule
from machine.privacy.forms.shapes import UUID, is_unreadable
from machine.privacy.forms.values import is_chosen, is_entry, is_made, is_sure

_STOP = r"(?=[ \t]*(?:\r|\n|\\+[rn]|\\*\"|\x1b|$))"
_VALUE = r"(?P<value>[^\s\\\"'`<>]{8,400})"
_MARK = r"(?:\\*[\"'`]|\*\*|\x1b\[[0-9;]{0,8}m)?"
_COLOUR = r"(?:\x1b|\\+u001b)\[[0-9;]{0,8}m"
_EDGE = rf"(?:(?:{_COLOUR}){{1,3}}[│┃|](?:{_COLOUR}){{1,3}}[ ]?)?"
_NUMBER = rf"{_EDGE}(?:[ \t]*[0-9]{{1,6}}(?:\t|→|\\+t))?"
_BELOW = re.compile(
    rf"{LINE_END}(?:{_NUMBER}[+> \t-]{{0,12}}(?:`{{3,4}}[\w-]{{0,16}}|~~~|[-=─]{{3,80}})?[ \t]*{LINE_END}){{0,3}}"
    rf"{_NUMBER}(?:[+>](?=[ \t]))?[ \t]{{0,12}}{_MARK}{_VALUE}{_MARK}{_STOP}"
)
"""A value that has a line of its own, after empty lines and a fence."""
_REST = re.compile(
    r"(?!\()(?P<more>(?:[\w ./()'’@-]|:(?=\d)){0,60}?)(?P<mark>[:：=]|->|→| (?:is|ist|lautet|es|est|è)(?= *\Z))?"
    r"(?:\*\*|__|`|\\*\"|\))*[ \t]*"
)
_LABEL = re.compile(
    rf"{_EDGE}(?P<number>[ \t]*\d{{1,6}}(?:\t|→|\\+t))?"
    r"[+>* \t-]{0,8}(?P<heading>#{1,6} )?[\w .'’`/@&,()*-]{0,80}"
)
_ASKED = re.compile(
    r"(?P<more>(?:[ \t]+(?:for|of|on|again|für|vom|de|del|pour|para|per|voor)\b(?:'[^'\n]{1,160}'|[^\n:'\\]){0,80}"
    r"|[ ]?[\[(][^\])\n]{1,40}[\])]|[ ]\w{1,12})?)"
    rf"(?P<mark>[:：]|\?:?)[ \t]+{_VALUE}{_STOP}"
)
"""A prompt, what it asks for, and the answer, which goes to the end of the line."""
_NUMBERED = re.compile(rf"[ _-]?(?:[0-9]{{1,2}}|[iI][dD])\"?[ \t]{{0,20}}[:=][ \t]{{0,20}}{_VALUE}", re.ASCII)
_GROUPED = re.compile(
    r"[ \t]*[:：=][ \t]*(?P<value>(?=(?:[A-Za-z ]*[2-7]){2})(?:[a-z2-7]{4} ){3,15}[a-z2-7]{2,4}(?![a-z0-9]))",
    re.IGNORECASE,
)
"""A seed of one-time passwords, as pages show it to be typed."""
_WORDS_OF_FOUR = re.compile(
    r"[^\n\\]{0,60}?(?:[:：=(]|->|=>|→|➜|–|—|\bis|(?:(?:\\+r)?\\+n|\r?\n){1,3})[ \t]*\\*[\"'`]?"
    r"(?P<value>[a-z]{4}(?:[ \u00a0-][a-z]{4}){3})(?![\w-]| [a-z]{4}\b)"
)
"""A password for one program, as Google and Apple show it."""
_PAIRED = re.compile(
    rf"[\w.:-]{{0,60}}\\*\"{LINE_END}[ \t]{{0,8}}(?:\d{{1,4}}\) )\\*\"(?P<value>[^\s\"\\]{{8,2000}})\\*\""
)
"""What Redis prints of a hash: a name in quotes, and its value below."""
_VALUED = re.compile(
    rf"[\w.-]{{0,40}}\\*[\"']?[ \t]*[,|│]?{LINE_END}(?:[>+│|]|\x1b\[[0-9;]{{0,8}}m|[ \t]){{0,24}}"
    r"\\*[\"']?value\\*[\"']?[ \t]*[:=|│][ \t]*\\*[\"']?(?P<value>[^\s\\\"'`<>]{8,2000})",
    re.IGNORECASE,
)
"""The value of what the line above names: `name = x_password`, `value = ...`."""
_ARGUMENT = re.compile(r"\\*[\"'],[ \t]*\\*[\"'](?P<value>[^\s\"'\\]{8,400})\\*[\"'](?=[ \t]*[,\])])")
_OPTION = re.compile(r"[\"']--[\w-]{0,40}\Z")
_PASSED = re.compile(rf"[ ]+{_VALUE}{_STOP}")
_USERS = re.compile(r"USER[ ]+\S")


def read_lines(match: re.Match[str], made: bool) -> Iterator[str]:
    """The secrets that a line announces which holds a word that says secret.

    `made`: only those that a machine made count.
    """
    text = match.string
    if (asked := _ASKED.match(text, match.end())) and _is_answer(asked, made):
        yield asked["value"]
    if grouped := _GROUPED.match(text, match.end()):
        yield grouped["value"]
    if (
        match.group() == "PASS"
        and (passed := _PASSED.match(text, match.end()))
        and (_USERS.search(text, max(0, match.start() - 200), match.start()) or is_sure(passed["value"]))
    ):
        yield passed["value"]
    if numbered := _NUMBERED.match(text, match.end()):
        value = numbered["value"].rstrip(",;")
        if is_made(value) and ("key" in match.group().lower() or UUID.fullmatch(value)):
            yield value
    if (four := _WORDS_OF_FOUR.match(text, match.end())) and is_unreadable(re.sub(r"[\W_]", "", four["value"])):
        yield four["value"]
    for pattern in (_PAIRED, _VALUED):
        if (pair := pattern.match(text, match.end())) and _is_value(pair["value"], made):
            yield pair["value"]
    if (
        (argument := _ARGUMENT.match(text, match.end()))
        and _OPTION.search(text, max(0, match.start() - 44), match.start())
        and _is_value(argument["value"], made)
    ):
        yield argument["value"]
    begin, end, _ = line_around(text, match.start())
    if not (below := _BELOW.match(text, end)):
        return
    value, line = below["value"], text[begin:end]
    strength = _label(match, line, begin, end)
    if strength and (is_made(value) or (not made and (is_entry(value) if strength > 1 else is_chosen(value)))):
        yield value


def _is_value(value: str, made: bool) -> bool:
    return is_made(value) or is_app_password(value) or (not made and is_entry(value))


def _is_answer(asked: re.Match[str], made: bool) -> bool:
    value = asked["value"]
    if made:
        return bool(asked["more"]) and is_made(value)
    return is_entry(value) if asked["more"] else is_chosen(value) and not value.isalpha()


def _label(match: re.Match[str], line: str, begin: int, end: int) -> int:
    """Whether a line is nothing but a label: 2 if it says that a value follows, 1 if it might, 0 if it is none."""
    if end - match.end() > 80 or not (rest := _REST.fullmatch(match.string, match.end(), end)):
        return 0
    head = _LABEL.fullmatch(line[: match.start() - begin])
    if not head or line.lstrip().startswith(("-- ", "//", "import ", "from ", "return ")):
        return 0
    if rest["mark"] or (head["heading"] and len(rest["more"]) < 20):
        return 2
    return int(not rest["more"].strip() and len(line.split()) <= 5)


_AWS_PAIR = re.compile(
    r"A(?:KI|SI)A[A-Z0-9]{16}(?![A-Za-z0-9])[^\n]{0,80}?(?:\n(?:\n|[^\n]{0,60}?))?(?:(?<![A-Za-z0-9/+])|(?<=\\[nrt]))(?P<secret>[A-Za-z0-9/+]{40})"
    r"(?![A-Za-z0-9/+=])"
)
"""An id and the key that goes with it, on its line or the next."""
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_REDIS = (
    r"> (?:auth|config set (?:requirepass|masterauth))[ ]+(?:[\w.-]{1,40}[ ]+)?\\*[\"']?"
    rf"(?P<secret>[^\s\\\"'`<>]{{8,400}})\\*[\"']?{_STOP}"
)


def _is_of_aws(value: str) -> bool:
    return is_made(value) and not _HEX.fullmatch(value)


def lines() -> list[Rule]:
    """The rules of this module that have anchors of their own."""
    redis = re.compile(_REDIS, re.ASCII | re.IGNORECASE)
    return [
        Rule("aws", _AWS_PAIR, ("AKIA", "ASIA"), leading=True, real=_is_of_aws),
        Rule("password", redis, ("> auth ", "> config set "), leading=True, view="lower", real=is_entry),
    ]
