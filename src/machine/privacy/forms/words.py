"""Words: what people and programs call their secrets, in the languages that people write to agents in, and the rules
that look for the secrets around each: in `columns`, on `lines`, in `prose`.

A word begins with one of its anchors, as `rule` has them; a letter beyond ASCII may be spelt as JSON spells it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from machine.privacy.forms.announced import announced
from machine.privacy.forms.codes import codes
from machine.privacy.forms.columns import read_cells
from machine.privacy.forms.lines import lines, read_lines
from machine.privacy.forms.prose import SAID_OF_A_KEY, prose, read_login, read_prose
from machine.privacy.forms.rule import Form, Rule, lowered, places
from machine.privacy.forms.tags import read_tags


@dataclass(frozen=True)
class Named(Rule):
    """A word for a secret, and what is announced by it. `made`: only what a machine made is a secret of that name."""

    made: bool = False

    def matches(self, text: str, at: Sequence[int] | None = None) -> Iterator[re.Match[str]]:
        """Where the word stands and means a secret: no `next_token`, no `cache key`."""
        for place in sorted(set(places(lowered(text), self.anchors) if at is None else at)):
            if not (match := self.pattern.match(text, place)):
                continue
            word = match.group().lower()
            if word not in _DOUBTFUL:
                yield match
                continue
            before = _LAST.search(text[max(0, match.start() - 24) : match.start()].lower().rstrip("_. '-"))
            last = before[0] if before else ""
            if last in _OTHER or (word == "token" and last in _OF_A_REQUEST):
                continue
            if (
                word != "key"
                or last.endswith(_OF_A_KEY)
                or text.startswith(" →", match.end())
                or SAID_OF_A_KEY.search(text[max(0, place - 40) : place])
            ):
                yield match

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The secrets in the table, on the lines and in the sentence that the word is in."""
        if _LOGIN.fullmatch(match.group()):
            yield from read_login(match)
            return
        yield from read_cells(match, self.made)
        yield from read_tags(match, self.made)
        yield from read_lines(match, self.made)
        yield from read_prose(match, self.made)


_DOUBTFUL = ("token", "key", "secret")
_LAST = re.compile(r"[^\W_]+\Z")
_OTHER = frozenset(
    """
    next page pad eos bos unk sep mask cls continuation cursor max min num total prompt input output special stop
    start end primary foreign public pub sort partition cache index hash group row object s3 dedup routing per each
    every a no any idempotency registry translation i18n
    """.split()  # noqa: SIM905 (a list of words is read as one)
)
"""Before a word that says secret, where it says none: `next_token`, `cache key`."""
_OF_A_REQUEST = frozenset(["client", "lock", "change", "request", "action"])
"""Before `token`, where it keeps a request from being done twice."""
_OF_A_KEY = tuple(
    """
    api access secret private shared account encryption encrypt encrypted signing master auth license licence app
    service admin deploy ingest client subscription application integration storage server function host session
    webhook cookie root jwt entry setup openai anthropic stripe aes hmac unseal recovery sdk ssh rails fernet project
    user write wireguard minio aws azure gcp google github mistral cohere datadog algolia sendgrid mailgun twilio
    security activation product my your our new mein dein mi ma mon
    """.split()  # noqa: SIM905 (a list of words is read as one)
)
_PASSWORD = (
    r"pass(?:[ _-]?(?:word|phrase|code)s?|w[oö]rt(?:er)?|wd|ord(?:et)?|(?<=mot de pass)e|(?<=mots de pass)es?)"
    r"|(?:(?<=\S)pass|pass(?![ ]*[\r\n]))(?![a-z])|(?<![A-Za-z])pwd?(?![A-Za-z])"
)
_LOGIN = re.compile(
    r"u/p|log in|login(?:daten)?|cred(?:ential)?s|zugang(?:sdaten)?|anmeldedaten|identifiants|credencia(?:le|i)s"
    r"|credenziali|inloggegevens|access|acc[èÈ]s|acceso",
    re.IGNORECASE,
)
_LOGINS = ("login", "log in", "creds", "credentials", "u/p", "access to ", "access for ", "accès", "acceso")
_ELSEWHERE = (
    r"kennwort|zugangscode|contrase(?:[ñÑ]|ny|n)as?|senha|wachtwoord|hasło|арол(?:[ьяюе]м?|а)|密码|密碼|パスワード|mdp|heslo"
    r"|senord(?:et)?|adgangskoden?|salasana|jelszó|parola|lozinka|ifre(?:si)?|비밀번호|окена?|密钥|密鑰|erlang\.cookie"
    r"|(?<=[кК])люч(?:а|ом|и)?(?![а-яА-Я])|екрет(?![а-яА-Я])|асло(?![а-яА-Я])|озинка|κωδικός|סיסמה|كلمة (?:المرور|السر)"
    r"|m[ậẬ]t khẩu|kata sandi|รหัสผ่าน|(?:wi-?fi|wlan|network)[ -]key|wpa[23]?(?=:)|(?<![A-Za-z])psk(?![A-Za-z])"
    r"|(?:zugangs)?schl(?:[üÜ]|ue)ssel|clave|chave|chiave|sleutel|klucz|cl[éÉ]s?|jetons?|(?<= )pat(?= )"
)
"""Of other languages than English; many of these words stand for keys and for passwords alike."""
_ABROAD = (
    *"""
    kennwort zugangscode contrase contrasena contrasenya senha wachtwoord hasło арол 密码 密碼 パスワード mdp heslo
    senord adgangskode salasana jelszó parola lozinka ifre 비밀번호 окен 密钥 密鑰 zugang logindaten schl zugangsschl
    schluessel erlang.cookie psk люч екрет асло озинка κωδικός סיסמה รหัสผ่าน wpa clave chave chiave sleutel klucz
    clé jeton pat zugangsdaten anmeldedaten identifiants credenciales credenciais credenziali inloggegevens
    """.split(),  # noqa: SIM905 (a list of words is read as one)
    *("كلمة ", "mật khẩu", "kata sandi", "wifi key", "wi-fi key", "wlan key", "wlan-key", "network key"),
)


def named() -> list[Rule]:
    """All rules that a word for a secret begins, and those of the modules that read what is around it."""

    def rule(name: str, pattern: str, *anchors: str, made: bool = False) -> Rule:
        return Named(name, Form(pattern, re.ASCII | re.IGNORECASE), anchors, leading=True, view="lower", made=made)

    return [
        rule("password", _PASSWORD, "pass", "pw"),
        rule("password", _LOGIN.pattern, *_LOGINS),
        rule("password", rf"{_ELSEWHERE}|{_LOGIN.pattern}", *_ABROAD),
        rule("token", "tokens?|secret|key", "token", "secret", "key", made=True),
        *announced(),
        *lines(),
        *codes(),
        *prose(),
    ]
