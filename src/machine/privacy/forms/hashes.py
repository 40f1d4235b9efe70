"""Hashes: what systems keep instead of passwords, each with the mark of how it was made; dice and a dictionary undo the
weak ones.
"""

import re

from machine.privacy.forms.rule import LEFT, Form, Rule, View

_NAMES = r"1|2[abxy]?|5|6|7|8|9|14|y|gy|apr1|md5|sha1|argon2(?:id?|d)|scrypt|pbkdf2(?:-sha\d+)?|bcrypt-sha256|[PHS]"
CRYPT = re.compile(rf"(?:(?<![\w$])|(?<=\\[nrt]))\$(?:{_NAMES})\$[\w./$=,+-]{{20,}}", re.ASCII)
"""As the system's own library writes them, and what came after it."""
_HEX = r"[0-9a-fA-F]"


def _is_hash(value: str) -> bool:
    return len(set(value)) > 12


def _rule(pattern: str, *anchors: str, leading: bool = False, view: View = "lower") -> Rule:
    return Rule("password-hash", Form(pattern), anchors, leading=leading, view=view, real=_is_hash)


def hashes() -> list[Rule]:
    """All rules of this module."""
    return [
        Rule("password-hash", CRYPT, real=_is_hash),
        _rule(
            LEFT + r"(?:pbkdf2_sha(?:1|256|512)|scrypt|bcrypt_sha256|argon2)\$[\w./$=,+-]{40,}=?",
            *("pbkdf2_sha1", "pbkdf2_sha256", "pbkdf2_sha512", "scrypt", "bcrypt_sha256", "argon2"),
        ),
        _rule(
            LEFT + r"(?:pbkdf2:sha(?:1|256|512):[0-9]{1,8}|scrypt:[0-9]{1,8}:[0-9]{1,3}:[0-9]{1,3})"
            r"\$[A-Za-z0-9./+]{6,40}\$[0-9a-f]{40,256}",
            *("pbkdf2:sha1", "pbkdf2:sha256", "pbkdf2:sha512", "scrypt:"),
        ),
        _rule(
            r"\{(?i:S?SHA(?:256|512)?|S?MD5|ARGON2|BCRYPT|CRYPT)\}(?P<secret>[A-Za-z0-9+/$.=,]{22,}={0,2})",
            *("{sha}", "{ssha}", "{sha256}", "{ssha256}", "{sha512}", "{ssha512}", "{md5}", "{smd5}", "{argon2}"),
            *("{bcrypt}", "{crypt}"),
            leading=True,
        ),
        _rule(
            LEFT + r"(?i:SCRAM-SHA)-(?:1|256)\$[0-9]{1,8}:[A-Za-z0-9+/=]{16,}\$[A-Za-z0-9+/=:]{40,}",
            "scram-sha",
            leading=True,
        ),
        _rule(
            rf"{LEFT}AQAAAA[EI]AA[A-Za-z0-9+/]{{50,90}}={{0,2}}", "AQAAAAEAA", "AQAAAAIAA", leading=True, view="text"
        ),
        _rule(
            rf"{LEFT}(?i:grub\.pbkdf2\.sha512)\.[0-9]{{3,8}}\.{_HEX}{{32,}}\.{_HEX}{{64,}}",
            "grub.pbkdf2.sha512",
            leading=True,
        ),
        _rule(rf"(?:aad3b435b51404ee){{2}}:{_HEX}{{32}}", "aad3b435b51404ee", leading=True, view="text"),
    ]
