"""Prose: secrets that people write into chats and that agents repeat: "the password is X", "my key -> X", "use X as the
token", "log in with admin / X", in the languages that `words` has.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from machine.privacy.forms.rule import LINE_END, Rule
from machine.privacy.forms.values import is_chosen, is_entry, is_made, is_quoted, is_sure

_WORD = r"(?:[^\s:=,;!?\"'`«»“”<>(){}\[\]\\|→]|(?<=\w)['’](?=\w)){1,48}"
_OF = rf"(?P<of>(?:[ \t]+(?:\([^)\n\\]{{1,40}}\)|{_WORD})){{0,7}}?)"
"""What a secret is for, and where it is: "for the staging box", "in the old wiki"."""
_LINK = (
    r"(?P<mark>[ \t]*\*{0,2}(?::(?!:)|：|=(?!=)|=>|->|→|➜|⇒|»|–|—)\*{0,2}[ \t]*)"
    r"|(?P<says>,?[ \t]+(?:is|was|are|be|being|ist|war|sind|lautet|hei(?:ß|ss)t|es|est|era|ser[aá]|son|sont|foi"
    r"|sono|[éÉèÈ]|este|adalah|jest|это|it's|c'est|(?:it|er|es|das) (?:is|ist)"
    r"|ahora es|agora é|ora è|btw|fyi|namely|nämlich|är|er|je)"
    r"(?:[ \t]+(?:now|still|currently|just|jetzt|nun|noch|ahora|maintenant|désormais|agora|adesso|nu|teraz|set to"
    r"|changed to))?[ \t]*:?[ \t]+)"
    r"|(?P<to>[ \t]+(?:to|from|auf|von|a|en|à|para|in)[ \t]+)|(?P<cjk>[ \t]*(?:は|是|为|為|는|은)[ \t]*:?)"
)
_THIN = r"[ \u00a0\u202f]?"
_OPEN = rf"(?:\\*[\"'`]{{1,3}}|[«“„”‘‹「『]{_THIN}|\*\*)"
_SHUT = rf"(?:\\*[\"'`]|{_THIN}[»“”’›」』]|\*\*)"
_QUOTED = rf"{_OPEN}(?P<quoted>[^\s\"'`«»“”<>\\][^\n\"'`«»“”<>\\]{{4,300}}?[^\s\"'`«»“”<>\\,:]){_SHUT}"
_BARE_VALUE = r"[^\s\"'`«»“”<>\\\x1b\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]{6,400}"
_BARE = rf"(?P<bare>{_BARE_VALUE})"
_TAIL = r"(?P<tail>(?:[_-][A-Za-z0-9]{1,16}){0,2}s?)(?:\*\*|`)?"
_LINKED = re.compile(rf"{_TAIL}{_OF}(?:{_LINK})(?:{_QUOTED}|{_BARE})")
_NEXT = re.compile(rf"{_TAIL}[ \t]+(?:{_QUOTED}|{_BARE})")
_PAREN = re.compile(rf"{_TAIL}[ \t]+\({_BARE}")
_LATER = re.compile(rf"{_TAIL}(?:[ \t]+{_WORD}){{1,4}}?[ \t]+{_QUOTED}")
_BEFORE = re.compile(
    rf"(?:{_QUOTED}|(?:^|(?<=[\s(\"'])|(?<=\\n)){_BARE})[ \t]+(?:as|als|comme|como|come|jako|is|ist|est|es|è|é)[ \t]+"
    r"(?:(?:the|my|your|our|its?|an?|new|das|de[nrsm]|die|dein\w*|mein\w*|le|la|les|mon|ma|votre|el|mi|tu|su|il|o|het"
    r"|de|um|una?|uw|je)[ \t]+){0,2}(?:[\w./-]{1,24}[ \t_-]+){0,2}\Z"
    rf"|(?<=\s)(?P<before>{_BARE_VALUE})[ \t]+\((?:the[ \t]+)?\Z"
)
"""A value before the word for it: "use X as the API key"."""
_CALLS = re.compile(r"[ \t](?:as|als|comme|como|come|jako|is|ist|est|es|è|é)[ \t]|\((?:the[ \t]+)?\Z")
"""What each such sentence has; most words for secrets have nothing of it before them."""
_CHANGES = re.compile(
    r"\b(?:set|chang|reset|updat|rotat|switch|setz|stell|änder|geändert|gesetzt|cambi|pus|puse|mett|mis|mude|defin|zet)\w*\b[^\n]{0,60}\Z",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"(?:[ \t_-]*)(?:ids?|names?|types?|fields?|counts?|lengths?|sizes?|limits?|files?|paths?|urls?|endpoints?|prefix"
    r"|formats?|arn|alias|fingerprints?|versions?|polic\w+|param\w*|headers?|columns?|index|class|algorithm|manager"
    r"|budgets?|usage|labels?|hints?|strength|ttl|expir\w+|pairs?|store|ring|map|set|based)\b",
    re.IGNORECASE,
)
_ENGLISH = re.compile(r"(?:pass(?:word|wd|phrase|code)?|pwd|psk|token|secret|credential|key)s?", re.IGNORECASE)


def read_prose(match: re.Match[str], made: bool) -> Iterator[str]:
    """The secrets of the sentence that a word is in that says secret.

    `made`: only those that a machine made count.
    """
    text, end = match.string, match.end()
    head = text[max(0, match.start() - 160) : match.start()]
    if _NO_SECRET.match(text, end):
        return
    found = _BEFORE.search(head) if _CALLS.search(head, max(0, len(head) - 64)) else None
    if found and (value := _value(found, made, strict=True)):
        yield value
    linked = _LINKED.match(text, end)
    if linked and _is_linked(linked, match.group(), head) and (value := _value(linked, made)):
        yield value
    if (found := _PAREN.match(text, end)) and (value := _value(found, made, strict=True)):
        yield value
    found = _NEXT.match(text, end)
    if (
        found
        and (found["quoted"] or match.group().lower() != "pass" or _USER_BEFORE.search(head))
        and (value := _value(found, made, strict=True))
    ):
        yield value
    if (found := _LATER.match(text, end)) and is_made(found["quoted"]) and "/" not in found["quoted"][:24]:
        yield found["quoted"]


_USER_BEFORE = re.compile(
    r"\b(?:user(?:name)?|login|usr|benutzer|usuario)\b[ \t:=]+\S{1,40}[ \t,;]+(?:and )?\Z", re.IGNORECASE
)


def _is_linked(found: re.Match[str], word: str, head: str) -> bool:
    """Whether what stands between a word and a value says that the one is the other's.

    `name: value` and `name = value` in English are code's too, and `assigned` knows them.
    """
    if found["to"]:
        after = found.string[found.end() : found.end() + 12]
        return word.lower() in ("hasło", "klucz") or _CHANGES.search(head + found["of"] + after) is not None
    if found["mark"] and found["mark"].strip(" \t*") in (":", "="):
        if word.lower() == "key" and SAID_OF_A_KEY.search(head):
            return True
        return not _ENGLISH.fullmatch(word) or len(found["of"]) > 3
    return True


SAID_OF_A_KEY = re.compile(
    r"\b(?:new|my|our|your|their|neuer?|neuen|mein|unser|nouvelle|nueva) (?:[\w.-]{2,16} )?\Z"
    r"|\b(?:rotate|renew|regenerate|replace|revoke|leaked) (?:the |this |[\w.-]{2,16} )?\Z"
    r"|\b(?:use|with|set|enter|paste|try|put|take) (?:the |this )?\Z",
    re.IGNORECASE,
)
"""Before a word for a key that nobody has heard of: "my together key", "use the key"."""
_FOR = re.compile(r"[ \t]+(?:for|to|on|für|pour|para|per|voor|von|vom|de|del|di)\b")


def _value(found: re.Match[str], made: bool, strict: bool = False) -> str | None:
    """The value in a match, without the sentence's own marks, if it looks like a secret."""
    if (
        made
        and found.re is _LINKED
        and (bare := (found["bare"] or "").rstrip(".,;:)]}…?*|"))
        and (_FOR.match(found["of"]) or found["says"])
    ):
        return bare if is_made(bare) or (is_chosen(bare) and is_sure(bare)) else None
    if quoted := found.groupdict().get("quoted"):
        good = is_made(quoted) if made else (is_chosen(quoted) if strict else is_quoted(quoted))
        return quoted if good else None
    bare = (found["bare"] or found["before"]).rstrip(".,;:)]}…?*|")
    return bare if (is_made(bare) if made else is_chosen(bare)) else None


def read_login(match: re.Match[str]) -> Iterator[str]:
    """The password after the name of its user, of the pair that follows a word for them or of the two lines below:
    "creds: admin:X", "log in with admin / X".
    """
    text = match.string
    for one in (_ONE.match(text, match.end()), _AS_WITH.match(text, match.end())):
        value = one["value"].rstrip(".,;:)]}…?*|") if one else ""
        if is_chosen(value) and (match.group()[:3].lower() != "acc" or is_made(value) or is_sure(value)):
            yield value
    if (pair := _PAIR.match(text, match.end())) and not pair["value"].startswith("//"):
        value = pair["value"].rstrip(".,;:)]}…?*|")
        if is_chosen(value) and not (pair["sep"] == "/" and ("/" in value or "@" in value[1:])):
            yield value
    if (below := _TWO_LINES.match(text, match.end())) and is_entry(below["value"]):
        yield below["value"]


_USER = r"(?P<user>(?!https?:)[A-Za-z_][\w.+-]{1,40}(?:@[\w.-]{1,60})?)"
_PASSED = r"(?P<value>[^\s\"'`<>\\|,]{6,200})"
_PAIR = re.compile(
    rf"(?:[ \t]+{_WORD}|[ \t]+https?://[^\s\"'<>]{{1,120}}){{0,6}}?"
    r"(?:[ \t]*(?:[:=(]|->|→)[ \t]*|[ \t]+)[\"'`]?"
    rf"{_USER}[\"'`]?(?P<sep>[ \t]+[/|:][ \t]+|[/:])[\"'`]?{_PASSED}"
)
_AS_WITH = re.compile(
    r"[ \t]+(?:as|with|using|als|como)[ \t]+[\"'`]?[\w.@-]{2,40}[\"'`]?[ \t]+(?:with|and|using|mit|und|con|y)[ \t]+"
    r"[\"'`]?(?P<value>[^\s\"'`<>\\|,/]{8,200})(?=[\s\"'`,\\]|$)"
)
_ONE = re.compile(
    rf"[ \t]+(?:for|to|on|für|zu|auf|pour|para|per|voor|al|del|von|vom)\b(?:[ \t]+{_WORD}){{1,4}}?"
    r"[ \t]*(?::|->|→|➜|=)[ \t]*[\"'`]?(?P<value>[^\s\"'`<>\\|,/]{8,200})(?=[\s\"'`,\\]|$)"
)
"""A way in, what it leads to, and the one word for it: "der neue Zugang für aws: X"."""
_TWO_LINES = re.compile(
    rf"(?:[ \t]+{_WORD}){{0,4}}[ \t]*[:：]?{LINE_END}{{1,2}}[ \t>*-]{{0,6}}{_USER}"
    rf"[ \t]*{LINE_END}[ \t>*-]{{0,6}}{_PASSED}"
    r"[ \t]*(?=\r|\n|\\+[rn]|\\*\"|$)"
)


@dataclass(frozen=True)
class Shared(Rule):
    """A password after a slash and the name of its user, who is somewhere: "DB: postgres / X"."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The password, which has a mark that a quotient has not."""
        value = match["value"].rstrip(".,;:)]}…?*|")
        if _MARKED.search(value) and is_chosen(value):
            head = match.string[max(0, match.start() - 80) : match.start()]
            if "/" not in value and _OWNER.search(head):
                yield value


_MARKED = re.compile(r"[!@#$%^&*?~]")
_OWNER = re.compile(r"[\w*)][:=(]\*{0,2}[ \t]*[\"'`]?[A-Za-z_][\w.+-]{1,40}(?:@[\w.-]{1,60})?[\"'`]?\Z")


def prose() -> list[Rule]:
    """The rules of this module that have anchors of their own."""
    return [Shared("password", re.compile(rf" / [\"'`]?{_PASSED}"), (" / ",), leading=True)]
