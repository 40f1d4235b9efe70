"""Passphrases: values that are made of words, and what tells them from names that code, forms and pages have."""

import re

_SPOKEN = frozenset(
    "the an to of for is in on or and your my this that with as if not be it you are".split()  # noqa: SIM905
)
_IN_SEEDS = frozenset(["this", "that", "you"])
"""Words of sentences that wallets' lists of words have too."""
_SEED_WORDS = 12
_PHRASE_WORD = re.compile(r"[a-z0-9]{2,12}")
_OF_CODE = frozenset(
    """
    abstract account action actual adapter alert alias allow apache api app apply arg args argument array asc
    assert async attr backend base64 bean binding bitte body boolean browser buffer build builder button
    bytes cache calc call callback cancel cannot change changed char check client code column com component
    compute connection container content context control convert cookie copy count create created crypto current
    data database debug decode default define delete desc description dev digest directory disable disabled
    display div download dummy editor element email empty enable enabled encode endpoint entry env event example
    exists export fail failed false fetch field file filter fixture flag format forms frontend function generate
    generated generator get getter global got group handle header hidden hide hint hook horizontal host html icon
    ident impl implement import index info init input insert instance int integer interface internal invoke item
    java javascript key kind label length lib link list listener load local lock log logger lookup main manage
    manager manual map match max mesh message meta method middleware min minimum missing mock mode model modify
    module mot must name navigation new node null number object old opaque operation ops option optional org
    output page panel parameter parse path pattern payload permission php plain png policy popup prefix private
    process prod profile prompt prop protected protocol proxy public px python query random read readonly recover
    recovery redirect reference registr remember remove repeat repository request require resource response result
    return role root route router rule run runner runtime sample scope screen script seconds section security
    select self send server service set setting setup show sign span spec src stage staging state static status
    step storage store string strong style submit success suffix svg switch system tab table tag target task
    template terminal test tests text theme this title todo toggle translat true tuple txt type undefined unique
    unit unknown update upload url use uuid valid value values var variable version vertical view visible void
    warn warning weak web window worker workflow wrong xs
    """.split()  # noqa: SIM905 (a list of words is read as one)
)
"""Where most words are of these, a name or a key of a text is made of them, and no passphrase."""
_OF_SECRETS = frozenset(
    """
    anmelden auth authenticat authenticate authentication authoriz authorization authorize benutzer bestaetigen
    certificate checkbox class clave config confirm constraint contrasena controller credential csrf decrypt
    dialog eingeben encrypt enum error exception expired factory forgot form handler hash http https identifier
    invalid json jwt kennwort keyring login logout namespace oauth oublie param parser pass passe passphrase
    passwd password passwort placeholder plugin property provider pwd regex register required reset schema secret
    senha session signin signup str token tooltip user username util utils validat validate validation validator
    vergessen verif verify widget www xml yaml
    """.split()  # noqa: SIM905
)
"""One of them is enough: people leave them out where they choose words."""
_STEMS = re.compile("|".join(sorted(word for word in _OF_SECRETS if len(word) >= 5)))
_SEPARATED = re.compile(r"[^\W_]+(?:([-._+])[^\W_]+(?:\1[^\W_]+)+)[!?*#.$]?")
_WORD = re.compile(r"[^\W\d_]{2,14}?\d{0,4}")
_NUMBER = re.compile(r"[0-9]{1,4}")
_FEWEST_WORDS = 3
_HUMPS = re.compile(r"[A-Z]?[a-z]+")
_RUN_ON = re.compile(r"(?:[A-Z]?[a-z]+){1,8}\d{0,4}[!?*#.$]?")
_GROUPS = re.compile(r"[a-z]{4}([ -])[a-z]{4}(?:\1[a-z]{4}){2}")


def is_phrase(value: str) -> bool:
    """Whether a value is four or more words, none of which makes a sentence of them."""
    words = value.split(" ")
    spoken = _SPOKEN - _IN_SEEDS if len(words) >= _SEED_WORDS else _SPOKEN
    return len(words) >= 4 and all(_PHRASE_WORD.fullmatch(word) and word not in spoken for word in words)


def is_passphrase(value: str) -> bool:
    """Whether a value is three or more words with marks between, or run together, that code and forms have no use for:
    `Tone_fragile_business_pause16`, `fragile-pause-tone-16`, `wetvanishvenueFee`, and no `password-reset-confirm`.
    """
    if len(value) > 120 or value.upper() == value:
        return False
    if found := _SEPARATED.fullmatch(value):
        words = value.rstrip("!?*#.$").split(found[1])
        if len(words) > _FEWEST_WORDS and _NUMBER.fullmatch(words[-1]):
            words.pop()
        return all(_WORD.fullmatch(word) for word in words) and not are_of_code(words, few=found[1] != ".")
    words = humps(value)
    return (
        len(value) >= 15
        and _RUN_ON.fullmatch(value) is not None
        and not are_of_code(words)
        and (len(value) / len(words) >= 5 or any(c.isdigit() for c in value))
    )


def is_app_password(value: str) -> bool:
    """Whether a value is four groups of four small letters, as Google and Apple make passwords for programs."""
    return (found := _GROUPS.fullmatch(value)) is not None and not any(
        word in _OF_CODE or word in _SPOKEN for word in value.split(found[1])
    )


def is_spaced(value: str) -> bool:
    """Whether a value is words of small letters with spaces between, none of which a sentence or a page would have."""
    return is_phrase(value) and not are_of_code(value.split(" "))


def humps(value: str) -> list[str]:
    """The words of a name that capitals begin."""
    return _HUMPS.findall(value)


def are_of_code(words: list[str], few: bool = False) -> bool:
    """Whether words are a name's, or a text's of a page: one that says secret, or most of them; of up to three, any.

    `few`: of up to three, two.
    """
    words = [word.rstrip("0123456789").lower() for word in words]
    if any(_STEMS.search(word) or word in _OF_SECRETS for word in words):
        return True
    of_code = sum(word in _OF_CODE or word.removesuffix("s") in _OF_CODE for word in words)
    return of_code > (int(few and len(words) > 1) if len(words) <= 3 else len(words) / 2)
