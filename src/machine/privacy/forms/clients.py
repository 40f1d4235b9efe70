"""Clients: secrets that code gives, without a name, to what it makes of them: clients of services, ciphers, signers,
one-time codes, networks.
"""

import re

from machine.privacy.forms.assigned import GAP, QUOTE
from machine.privacy.forms.given import is_given_password
from machine.privacy.forms.rule import LEFT, Form, Rule
from machine.privacy.forms.shapes import is_token

_PREFIX = r"(?:[bBrRuU@]{1,2})?"
_TEXT = rf"{_PREFIX}{QUOTE}(?P<secret>[^\s\"'`\\]{{8,400}}){QUOTE}"
_OTHER = rf"(?:{_PREFIX}{QUOTE}[^\"'`\n\\]{{0,120}}{QUOTE}|[\w.$\[\]:>-]{{1,80}}|\{{[^{{}}\n]{{0,120}}\}})"
_OTHERS = rf"(?:{_OTHER}{GAP}{{0,12}},{GAP}{{0,12}})"
_KEYED = r"(?:\w{1,30}[ \t]{0,2}[=:][ \t]{0,2})?"
_MAKERS = """
    fernet multifernet totp hotp totp.now signatureverifier webhookverifier webhook keycredential azurekeycredential
    apikeyauth apikeycredential bearerauth bearertoken tokenauth httptokenauth tokencredential accesstoken
    accesstokencredential staticsecret secretkeyspec signingkey verifyingsecret hmackey urlsafetimedserializer
    timestampsigner bot telebot telegrambot octokit webclient asyncwebclient slackclient
""".split()  # noqa: SIM905
"""What is made of a secret alone, or of a secret and then other things."""
_LATER = """
    algoliasearch searchclient twilio client signer jwt.encode jwt.sign jwt.verify jwt.decode createhmac createcipheriv
    createdecipheriv hmac hmac.new hash_hmac openssl_encrypt openssl_decrypt getsignature new_with_key
""".split()  # noqa: SIM905
"""What is made of something else and then a secret."""
_NETWORKS = """
    wifi.begin wifi.softap wifi.connect wlan.connect nic.connect sta.connect sta_if.connect wifimulti.addap addap
    connectwifi connect_wifi wificonnect ap.begin
""".split()  # noqa: SIM905
_HASHES = """
    generate_password_hash make_password bcrypt.hashpw bcrypt.hash bcrypt.hashsync bcrypt.compare bcrypt.comparesync
    check_password_hash check_password argon2.hash argon2.verify password_hash password_verify hashpw checkpw
    bcrypt.checkpw pwd_context.hash
    pwd_context.verify get_password_hash hash_password hashpassword verify_password set_password setpassword
""".split()  # noqa: SIM905
"""What is given a password to hash it, or to see whether it is the one that was."""


def _calls(names: list[str], pattern: str) -> tuple[Form, tuple[str, ...]]:
    """A pattern of calls of functions with these names, in any case, and its anchors."""
    either = "|".join(re.escape(name) for name in names)
    return Form(f"(?<![A-Za-z0-9])(?i:{either})\\({GAP}{{0,16}}{pattern}"), tuple(f"{name}(" for name in names)


def clients() -> list[Rule]:
    """All rules of this module."""
    made = _calls(_MAKERS, _KEYED + _TEXT)
    later = _calls(_LATER, rf"{_OTHERS}{{1,2}}{_KEYED}{_TEXT}")
    networks = _calls(_NETWORKS, rf"{_OTHER}{GAP}{{0,12}},{GAP}{{0,12}}{_TEXT}")
    client = Form(
        rf"{LEFT}(?i:client|api|sdk|session|service|conn)[ \t]{{0,4}}:?=[ \t]{{0,4}}(?:await |new ){{0,2}}"
        rf"[\w.]{{1,60}}\((?:(?:api|auth|creds?)[ \t]{{0,2}}=[ \t]{{0,2}})?{_TEXT}\)"
    )
    hashes = _calls(_HASHES, rf"{_OTHERS}?{_TEXT}")
    return [
        Rule("password", hashes[0], hashes[1], leading=True, view="lower", real=is_given_password),
        Rule("secret", made[0], made[1], leading=True, view="lower", real=is_token),
        Rule("secret", later[0], later[1], leading=True, view="lower", real=is_token),
        Rule("password", networks[0], networks[1], leading=True, view="lower", real=is_given_password),
        Rule(
            "secret",
            client,
            ("client", "api", "sdk", "session", "service", "conn"),
            leading=True,
            view="lower",
            real=is_token,
        ),
    ]
