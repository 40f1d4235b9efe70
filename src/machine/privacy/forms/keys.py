"""Keys: the material itself, told by how its makers write it down: blocks between lines of hyphens, DER in base64
without them, wallets' lists of numbers and words.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from machine.privacy.forms.rule import LEFT, LINE_END, Rule

NEW_LINE = rf"{LINE_END}[ \t+>|-]*(?:[0-9]+(?:\t|\\+t|→|:|\|)[ +]?)?"
"""The end of a line, spelt or not, and what numbers and marks the next one."""
_END = r"(?![A-Za-z0-9+/])"
_LINES = rf"(?:{NEW_LINE}[A-Za-z0-9+/=]{{16,100}}){{0,200}}"
_BLOCK = (
    r"-----BEGIN OpenVPN [A-Za-z0-9 -]{1,40}-----"
    r"(?:(?:(?!-----BEGIN ).){0,12000}?-----END OpenVPN [A-Za-z0-9 -]{1,40}-----"
    rf"|(?:{NEW_LINE}[0-9a-f]{{32}}){{1,32}})"
)
_SSH2 = (
    r"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----(?:(?!---- END ).){0,12000}?---- END SSH2 ENCRYPTED PRIVATE KEY ----"
)
_DER = (
    r"(?:MII[A-Za-z0-9+/]{3}IB(?:ADAN|AAKC|AAKB)|MC4CAQAwBQYDK2V[uvw]|MI[A-Za-z0-9+/]{1,2}AgEAM[A-Za-z0-9+/]AGByqGSM49AgEG"
    r"|MI[A-Za-z0-9+/]{1,2}AgEAM[A-Za-z0-9+/]{2}GByqGSM49AgEG|MHcCAQEEI|MIGkAgEBBD|b3BlbnNzaC1rZXktdjE)"
    rf"[A-Za-z0-9+/]{{24,}}={{0,2}}{_END}{_LINES}"
)
WALLET = re.compile(LEFT + r"[5KL][1-9A-HJ-NP-Za-km-z]{50,51}(?![A-Za-z0-9])")
"""A key of Bitcoin as wallets import it."""
_WORD = r"[a-z]{3,8}(?![A-Za-z0-9_]|://)"
_SPACE = r"(?:[ \t,\"'`]|\\+[\"']|(?<=[\s\"'\[,(`])\d{1,2}[.):](?=[ \t])){1,8}"
_NUMBERED = rf"(?:[ \t]*{LINE_END}[ \t>+*-]{{0,8}}(?:\d{{1,2}}[.):]?[ \t]+)?)"
_NAMES = (
    *("mnemonic", "mnemonics", "seed", "phrase", "wallet", "metamask", "ledger", "bip39", "frase", "semilla", "words"),
    *("seedphrase", "mnemonicphrase", "seedwords", "recoveryphrase", "secretphrase", "recoverywords", "walletmnemonic"),
)
_CALLS = ("hdwalletprovider", "frommnemonic", "fromphrase", "mnemonictoseed", "mnemonictoseedsync", "mnemonictoaccount")
_SPOKEN = frozenset(
    """
    the and for are was not but with from your into any each set number value default data test should which does has
    some its given returns list type name
    """.split()  # noqa: SIM905 (a list of words is read as one)
)
"""Words of sentences and code that no wallet's list has."""
_COUNTS = (12, 15, 18, 21, 24)


@dataclass(frozen=True)
class Seed(Rule):
    """Words that a wallet is made of, near a name that says so, in a line or numbered."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """All words and what stands between them, if there are as many as wallets have, and no sentence."""
        words = re.findall(r"[a-z]{3,8}", re.sub(r"\\+[nrt]", " ", match["secret"]))
        if len(words) in _COUNTS and not _SPOKEN.intersection(words) and len(set(words)) > len(words) * 2 // 3:
            yield match["secret"]


@dataclass(frozen=True)
class Numbers(Rule):
    """A list of 64 bytes, as Solana's programs keep a key: half secret, half public."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The numbers, if dice threw them."""
        numbers = [int(each) for each in re.findall(r"[0-9]+", match["secret"])]
        rises = sum(one < next_one for one, next_one in pairwise(numbers))
        if max(numbers) <= 255 and len(set(numbers)) >= 44 and rises < 44:
            yield match["secret"]


def _holds_key(value: str) -> bool:
    """Whether base64 is of a private key's block."""
    try:
        return b"PRIVATE KEY" in base64.b64decode(value[:64])
    except binascii.Error:
        return False


def keys() -> list[Rule]:
    """All rules of this module."""
    return [
        Rule("private-key", re.compile(_BLOCK, re.DOTALL), ("-----begin openvpn ",), leading=True, view="lower"),
        Rule("private-key", re.compile(_SSH2, re.DOTALL), ("---- begin ssh2 ",), leading=True, view="lower"),
        Rule(
            "private-key",
            re.compile(rf"(?<![A-Za-z0-9+/=]){_DER}|(?<=\\n){_DER}"),
            ("MII", "MC4CAQAwBQYDK2V", "AgEAM", "MHcCAQEEI", "MIGkAgEBBD", "b3BlbnNzaC1rZXktdjE"),
        ),
        Rule(
            "private-key",
            re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{60,}={0,2}"),
            ("LS0tLS1CRUdJTi",),
            leading=True,
            real=_holds_key,
        ),
        Rule("wallet-key", WALLET),
        Numbers(
            "wallet-key",
            re.compile(
                r"\[(?P<secret>(?:(?:\s|\\+n){0,8}\d{1,3}(?:\s|\\+n){0,4},){63}(?:\s|\\+n){0,8}\d{1,3})(?:\s|\\+n){0,8}\]"
            ),
            ("[",),
        ),
        Seed(
            "seed-phrase",
            re.compile(
                rf"{LEFT}(?:{'|'.join((*_NAMES, *_CALLS))})(?![A-Za-z0-9])[^\"'`]{{0,40}}(?P<quote>[\"'`])"
                r"(?P<secret>[a-z]{3,8}(?: [a-z]{3,8}){11,23})(?:(?P=quote)|\\)",
                re.ASCII | re.IGNORECASE,
            ),
            (*_NAMES, *_CALLS),
            leading=True,
            view="lower",
        ),
        Rule(
            "wallet-key",
            re.compile(
                r"accounts?\\*[\"']?[ \t]*[:=][ \t]*\[\s{0,12}\\*[\"'`]"
                r"(?P<secret>(?:0x)?[0-9a-fA-F]{64})(?![0-9a-fA-F])"
            ),
            ("account",),
            leading=True,
        ),
        *(
            Seed(
                "seed-phrase",
                re.compile(
                    rf"{LEFT}(?:{'|'.join(_NAMES)})(?![A-Za-z0-9])(?:[\s\S]{{0,60}}?[^A-Za-z0-9_])"
                    rf"(?P<secret>{_WORD}(?:{parted}{_WORD}){{11,23}}+)"
                    rf"(?!{_SPACE}[A-Za-z0-9])",
                    re.ASCII | re.IGNORECASE,
                ),
                _NAMES,
                leading=True,
                view="lower",
            )
            for parted in (_SPACE, _NUMBERED)
        ),
    ]
