"""Printed: what a command that shows a secret prints on the line below it: of a file that holds one, of a safe, of a
variable whose name says so, of dice.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from machine.privacy.forms.commands import Given
from machine.privacy.forms.given import decoded, is_given
from machine.privacy.forms.rule import LEFT, LINE_END, Rule

_SAYS = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|cookie|credential|api[_.-]?key|private|signing|encrypt\w*"
    r"|vault[_-]?pass)"
)
_END = r"(?=[ \t]*(?:\r?\n|(?:\\+r)?\\+[n\"']|[\"'`]|$))"
NEXT = rf"[ \t]*{LINE_END}(?:[ ]{{0,6}}[0-9]{{1,6}}(?:\t|→|\\+t)|[+>|])?[ \t]{{0,8}}"
"""The end of a line, spelt or not, and what stands before the next one in lists of lines."""
_ALONE = rf"{NEXT}(?P<bare>[^\s\"'`\\<>{{}}]{{8,2000}}){_END}"
_REST = r"(?:(?!\\+n)[^\n|;&]){0,200}"
_SAFES = (
    *("op read", "op item get", "pass show", "gopass show", "bw get", "lpass show", "secret-tool lookup"),
    *("find-generic-password", "find-internet-password", "secrets versions access", "get-secret-value"),
    *("get-login-password", "get-access-token", "print-access-token", "print-identity-token", "print-refresh-token"),
    *("auth token", "auth:token", "kv get", "secret show", "openssl rand", "pwgen", "secrets get", "chamber read"),
    *(
        "create-registration-token",
        "initialadminpassword",
        "read-password",
        "reset-password",
        "initial-password",
        "wg genkey",
        "wg genpsk",
    ),
    *("tee privatekey", "age-keygen", "gen-password", "generate-password", "generate password", "apg"),
)


@dataclass(frozen=True)
class Whole(Rule):
    """The line below a command, whole."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The line, or where the command decodes nothing and the line is base64 of a secret, that too."""
        value = match["bare"]
        if is_given(value) or ((text := decoded(value)) is not None and is_given(text.strip())):
            yield value


def printed() -> list[Rule]:
    """All rules of this module."""
    file = (
        rf"(?:cat|head|tail|bat|Get-Content)[ \t](?:(?!\\+n)[^\n|;&]){{0,160}}?"
        rf"(?:{_SAYS}[\w.-]{{0,40}}|master\.key|credentials/\w+\.key|/secrets?/[\w./-]{{1,80}})[\"']?{_ALONE}"
    )
    variable = (
        rf"(?:echo|printenv|Write-Host|Write-Output)[ \t]+\\*[\"']?\$?(?:env:|\{{)?\w{{0,60}}"
        rf"(?:{_SAYS}|key|pw)\w{{0,30}}"
        rf"\}}?[\"']?{_ALONE}"
    )
    pair = (
        rf"(?:cat|head|bat|Get-Content)[ \t](?:(?!\\+n)[^\n|;&]){{0,160}}?"
        rf"(?:auth|user-?pass|login|creds?|credentials|up|pass)(?:[._-][\w-]{{1,20}})?\.(?:txt|conf|cfg|auth|up|cred)[\"']?"
        rf"{NEXT}[A-Za-z_][\w.@+-]{{1,60}}{_ALONE}"
    )
    redis = rf"> (?:get|hget[ ]+\S{{1,80}})[ ]+\S{{0,60}}(?:{_SAYS}|key|pw)[\w:.-]{{0,30}}{NEXT}"
    redis += r"\\*\"(?P<bare>[^\s\"\\]{8,2000})\\*\""
    safes = "|".join(re.escape(each) for each in _SAFES)
    return [
        Whole(
            "secret",
            re.compile(rf"{LEFT}{file}", re.ASCII | re.IGNORECASE),
            ("cat ", "head -", "tail -", "bat ", "get-content "),
            leading=True,
            view="lower",
        ),
        Whole(
            "secret",
            re.compile(rf"{LEFT}{variable}", re.ASCII | re.IGNORECASE),
            ("echo $", 'echo "$', 'echo \\"$', "printenv ", "write-host $", "write-output $"),
            leading=True,
            view="lower",
        ),
        Whole(
            "secret",
            re.compile(redis, re.ASCII | re.IGNORECASE),
            ("> get ", "> hget "),
            leading=True,
            view="lower",
        ),
        Whole(
            "password",
            re.compile(rf"{LEFT}{pair}", re.ASCII | re.IGNORECASE),
            ("cat ", "head -", "bat ", "get-content "),
            leading=True,
            view="lower",
        ),
        Given(
            "secret",
            re.compile(rf"{LEFT}(?:{safes})(?![A-Za-z0-9]){_REST}{_ALONE}", re.ASCII | re.IGNORECASE),
            _SAFES,
            leading=True,
            view="lower",
            real=is_given,
        ),
    ]
