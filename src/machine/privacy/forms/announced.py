"""Announced: secrets that a program or a person says are coming: "a temporary password is generated for root: X",
"this is the only time it is shown", "I replaced the placeholder with X"; and lists whose columns say that they hold
some.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from machine.privacy.forms.columns import line_around, read_cells
from machine.privacy.forms.given import decoded, is_given
from machine.privacy.forms.rule import LEFT, LINE_END, Form, Rule
from machine.privacy.forms.values import is_chosen, is_made

_MARGIN = r"(?:(?:\x1b|\\+u001b)\[[0-9;]{0,8}m|[│┃|>+-]|[0-9]{1,6}(?:\t|→|\\+t)|[ \t]){0,16}"
"""What stands before a line's text: a number, a mail's or a diff's mark, a terminal's edge."""
_END = rf"(?:[ \t]*{LINE_END}{_MARGIN})"
_STOP = r"(?=[ \t]*(?:\r|\n|\\+[rn]|\\*\"|\x1b|\\+u001b|$))"
_VALUE = r"(?P<secret>[^\s\\\"'`<>\x1b]{8,400})"
_BETWEEN = r"(?:[\s\"'|│┃,:=+]|=>|-{2,80}|\\+[nrt\"']|(?:\x1b|\\+u001b)\[[0-9;]{0,8}m)"
_SHOWN = (
    *(
        "the only time",
        "only time the",
        "only time this",
        "only time you",
        "only time it",
        "shown only once",
        "only shown once",
        "be shown once",
        "be shown again",
        "see it again",
    ),
    *("displayed again", "displayed once", "not be able to view", "nur einmal angezeigt", "copy it now", "save it now"),
    *("store it now", "store it safely", "store it securely", "keep it safe"),
)
_KEEPS = re.compile(r"rotated|expir|service|account|secret|permissions|keyname|credential", re.IGNORECASE)


def _rule(name: str, pattern: str, *anchors: str, real: Callable[[str], bool]) -> Rule:
    return Rule(name, Form(pattern, re.ASCII | re.IGNORECASE), anchors, leading=True, view="lower", real=real)


@dataclass(frozen=True)
class Listed(Rule):
    """The column `value` of a list that has a column such as `rotated`, which none but a list of secrets has."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The cells below the head."""
        begin, end, _ = line_around(match.string, match.start())
        line = match.string[begin:end]
        if len(_KEEPS.findall(line)) > 1 and (head := _HEAD.search(match.string, begin, end)):
            yield from filter(is_chosen, read_cells(head, made=False))


_HEAD = re.compile(r"(?<![A-Za-z_])(?:value|wert|valeur|valor)(?![A-Za-z_])", re.IGNORECASE)


def _is_answer(value: str) -> bool:
    """Whether base64 stands for a word that is no question of the server's."""
    text = decoded(value)
    return text is not None and is_given(text.strip())


def announced() -> list[Rule]:
    """All rules of this module."""
    return [
        _rule(
            "password",
            rf"(?:temporary|initial|new|random|root|admin|one-time) password"
            rf" (?:is|was|has been) (?:generated|created|set)[^\n:\\]{{0,60}}:[ \t]+{_VALUE}{_STOP}",
            *("temporary password ", "initial password ", "new password ", "random password ", "root password "),
            *("admin password ", "one-time password "),
            real=is_given,
        ),
        _rule("password", rf"successfully reset\.?{_END}new value:[ \t]+{_VALUE}", "successfully reset", real=is_given),
        _rule(
            "secret",
            rf"(?:{'|'.join(_SHOWN)})[^\n:\\]{{0,80}}(?:[:.!]{_END}{{1,3}}|:[ \t]+)\\*[\"'`]?{_VALUE}\\*[\"'`]?{_STOP}",
            *_SHOWN,
            real=is_made,
        ),
        _rule(
            "secret",
            rf"{LEFT}(?:placeholder|changeme|change_me|dummy)\\*[\"'`]?(?: (?:value|password|key|token|secret))?"
            r"(?: (?:in|from|of|at|inside) \\*[\"'`]?[^\s\"'`\\]{1,120}\\*[\"'`]?)?[ ,]{1,2}"
            r"(?:with|by|to|für|durch|mit|for)"
            r" (?:the (?:new |real |actual )?(?:value|one|key|password|token|secret) )?"
            r"\\*[\"'`](?P<secret>[^\s\"'`\\]{8,400})",
            *("placeholder", "changeme", "change_me", "dummy"),
            real=is_chosen,
        ),
        _rule(
            "secret",
            rf"securestring{_BETWEEN}{{1,100}}?value{_BETWEEN}{{1,80}}(?P<secret>[^\s\\\"'`<>|\x1b]{{8,2000}})",
            "securestring",
            real=is_given,
        ),
        _rule(
            "password",
            rf"334 ugfzc3dvcmq6{_END}(?:[<>]{{1,2}}|C:|->|=>)?[ \t]{{0,4}}(?P<secret>[A-Za-z0-9+/]{{8,400}}={{0,2}})",
            "334 ugfzc3dvcmq6",
            real=_is_answer,
        ),
        _rule(
            "password",
            r"[,;] (?:admin|root|user|administrator)[,;] (?P<secret>[^\s,;\"'`\\<>]{8,80}?)\.?(?=[,;\s\\\"]|$)",
            *(f"{mark} {user}{mark} " for mark in ",;" for user in ("admin", "root", "user", "administrator")),
            real=_is_marked,
        ),
        _rule(
            "password",
            r"(?<![\w./:@-])(?:admin|root|administrator|pi)[/:](?P<secret>[^\s,;:/\"'`\\<>()]{8,80}?)\.?(?=[,;\s\\\")]|$)",
            *(f"{user}{mark}" for mark in "/:" for user in ("admin", "root", "administrator", "pi")),
            real=_is_marked,
        ),
        Rule(
            "password",
            re.compile(
                r" (?:LOGIN|login) \\*\"?[\w.@-]{2,60}\\*\"? \\*\"?"
                r"(?P<secret>[^\s\"\\<>]{8,200})(?=\\*\"?[ \t]*(?:\r|\n|\\|$))"
            ),
            (" LOGIN ", " login "),
            leading=True,
            real=_is_marked,
        ),
        Listed(
            "secret",
            re.compile("rotated|keyname|expires", re.IGNORECASE),
            ("rotated", "keyname", "expires"),
            leading=True,
            view="lower",
        ),
    ]


def _is_marked(value: str) -> bool:
    return is_chosen(value) and re.search(r"[!#$%^&*?~+=]", value) is not None
