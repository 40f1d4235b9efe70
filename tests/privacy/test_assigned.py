"""Values that names which say secret are given: what people choose and machines make, in the ways that languages have."""

import json
import random
import string
import time

import pytest
from given import (
    CODE,
    COMMANDS,
    DIGITS,
    FILES,
    FORMS,
    KEYS,
    LETTERS,
    MORE,
    NONE_THERE,
    PASSWORD_NAMES,
    PASSWORDS,
    TOKEN_NAMES,
    TOKENS,
    some,
)

from machine.privacy.forms.assigned import assigned
from machine.privacy.redact import forget, redacted
from machine.privacy.sources import Exact, Sources

NONE = Sources.of({})
MANY = ("word and number", "passphrase -", "passphrase and a number", "run on", "manager's")


def spelt_for_pages(text: str) -> str:
    """JSON text as .NET and Go write it, with what HTML has a use for spelt."""
    spelt = json.dumps(text)[1:-1]
    for mark in "&<>'=+":
        spelt = spelt.replace(mark, f"\\u{ord(mark):04x}")
    return '{"content":"' + spelt.replace('\\"', "\\u0022") + '"}'


HOLDERS = {
    "as it is": lambda text: text,
    "json": lambda text: json.dumps({"content": f"a = 1\n{text}\n"}),
    "json in json": lambda text: json.dumps({"arguments": json.dumps({"content": f"a = 1\n{text}\n"})}),
    "spelt for pages": spelt_for_pages,
    "spelt for pages in json": lambda text: json.dumps({"arguments": spelt_for_pages(f"a = 1\n{text}\n")}),
}


def forms(value: str) -> list[str]:
    once = json.dumps(value)[1:-1]
    return [value, once, json.dumps(once)[1:-1]]


def checked(text: str, value: str) -> None:
    """That the value is gone, and nothing else is."""
    forget()
    clean, found = redacted(text, NONE)
    assert found, text
    assert not any(form in clean for form in forms(value)), (text, clean)
    before, _, after = text.partition(next((f for f in forms(value) if f in text), value))
    if value.isalnum():
        assert clean.startswith(before[-12:], len(before[:-12])), (text, clean)
        assert clean.endswith(after[:12] + after[12:]), (text, clean)


@pytest.mark.parametrize("way", [*FILES, *COMMANDS, *CODE, *MORE])
def test_a_password_is_found_whichever_way_a_name_is_given_it(way):
    dice = random.Random(way)
    kinds = PASSWORDS if way not in MORE else MANY
    for kind in kinds:
        value = PASSWORDS[kind](dice)
        checked(way.replace("@@", value), value)


@pytest.mark.parametrize("way", KEYS)
def test_a_token_is_found_whichever_way_a_name_is_given_it(way):
    dice = random.Random(way)
    for made in TOKENS.values():
        value = made(dice)
        checked(way.replace("@@", value), value)


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("way", [*FILES, *COMMANDS, *CODE, *KEYS])
def test_a_value_is_found_in_json_of_any_spelling(way, holder):
    dice = random.Random(f"{way}{holder}")
    for made in (TOKENS["base62"],) if way in KEYS else (PASSWORDS["word and number"], TOKENS["base62"]):
        value = made(dice)
        checked(HOLDERS[holder](way.replace("@@", value)), value)


@pytest.mark.parametrize("name", PASSWORD_NAMES)
def test_a_password_is_found_behind_every_name_of_one(name):
    dice = random.Random(name)
    for form in FORMS:
        for kind in ("word and number", "letters and a digit", "passphrase .", "run on"):
            value = PASSWORDS[kind](dice)
            checked(form.format(name=name, value=value), value)


@pytest.mark.parametrize("name", TOKEN_NAMES)
def test_a_token_is_found_behind_every_name_of_one(name):
    dice = random.Random(name)
    for form in FORMS:
        for made in TOKENS.values():
            value = made(dice)
            checked(form.format(name=name, value=value), value)


@pytest.mark.parametrize(
    ("text", "alphabet"),
    [
        ("GMAIL_APP_PASSWORD=@@", LETTERS),
        ('$gmailAppPassword = "@@";', LETTERS),
        ('connect("smtp", gmail_app_password="@@")', LETTERS),
    ],
)
def test_a_password_that_google_makes_for_a_program_is_found_with_and_without_spaces(text, alphabet):
    dice = random.Random(text)
    for mark in (" ", ""):
        value = mark.join(some(dice, alphabet, 4) for _ in range(4))
        checked(text.replace("@@", value), value)


def test_keys_that_wordpress_makes_are_found_whatever_marks_they_have():
    dice = random.Random(7)
    letters = string.ascii_letters + DIGITS + "!@#$%^&*()-_ []{}<>~`+=,.;:/?|"
    for name in ("AUTH_KEY", "SECURE_AUTH_KEY", "LOGGED_IN_KEY", "NONCE_SALT", "AUTH_SALT"):
        value = some(dice, letters, 64)
        clean, _ = redacted(f"define('{name}',         '{value}');\n$table_prefix = 'wp_';", NONE)
        assert clean == f"define('{name}',         '<secret:secret:1>');\n$table_prefix = 'wp_';"


@pytest.mark.parametrize("text", NONE_THERE)
def test_what_only_looks_like_it_is_left_alone(text):
    for written in (text, f"{text}\n", json.dumps({"content": text}), json.dumps({"a": json.dumps({"b": text})})):
        forget()
        assert redacted(written, NONE) == (written, [])


@pytest.mark.parametrize("form", ["{:04x}", "{:04X}"])
@pytest.mark.parametrize("marks", ["&<>", "&<>='", "&<>'+`", "&<>'", "\"&<>'+`"])
def test_a_value_that_is_found_elsewhere_is_found_as_encoders_for_pages_spell_it(marks, form):
    value = "Kl&5<n+w\"D=n'T`a?7/\u00e9"
    spelt = json.dumps(value, ensure_ascii=False)[1:-1]
    spelt = spelt.replace('\\"', '"') if '"' in marks else spelt
    for mark in marks:
        spelt = spelt.replace(mark, "\\u" + form.format(ord(mark)))
    known = Sources({value: Exact("env-db")})
    for text in (f'{{"a": "x {spelt} y"}}', json.dumps({"b": f'{{"a": "x {spelt} y"}}'})):
        assert redacted(text, known)[0].count("<secret:env-db:1>") == 1
        assert "Kl" not in redacted(text, known)[0]


@pytest.mark.parametrize("text", ["[password: @@]", "{password: @@}", "(db.password: @@)"])
def test_what_closes_what_opened_before_the_name_is_no_part_of_the_value(text):
    value = PASSWORDS["word and number"](random.Random(text))
    found = {secret for rule in assigned() for secret in rule.secrets(text.replace("@@", value))}
    assert found == {value}


@pytest.mark.parametrize(
    "way",
    ["{User:a Password:@@ Port:1}", "DB_PASSWORD ?= @@\n", "DB_PASSWORD=@@", "starting with dbPassword=@@ region=eu"],
)
def test_two_names_with_a_mark_between_are_one_password(way):
    for value in ("ember&willow2014", "acorn&basalt7"):
        checked(way.replace("@@", value), value)


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("name", ["wifiPsk", "apiKey", "passwd"])
def test_a_value_some_letters_of_which_json_spells_out_is_found_as_it_is_spelt(name, depth):
    value = TOKENS["base62"](random.Random(name))
    spelt = "".join(f"\\u{ord(c):04x}" if i % 5 == 2 else c for i, c in enumerate(value))
    text = f'{{"diff":{{"{name}":"{spelt}","region":"eu"}}}}'
    text = json.dumps({"arguments": text}) if depth else text
    clean, _ = redacted(text, NONE)
    assert value[3:7] not in clean
    assert "region" in clean
    held = json.loads(clean)
    assert json.loads(held["arguments"]) if depth else held["diff"][name].startswith("<secret:")


def test_the_first_of_two_long_keys_is_no_key_of_a_table():
    value = TOKENS["base62"](random.Random(9)) + "Qw3rTz9Lk2P="
    assert redacted(f'cosmosPrimaryKey = "{value}"', NONE)[0] == 'cosmosPrimaryKey = "<secret:api-key:1>"'


def test_a_password_that_apple_makes_is_found_within_a_sentence_and_words_are_not():
    checked("we set password = vlqh-xdnk-kxvt-vmsd in the panel", "vlqh-xdnk-kxvt-vmsd")
    assert redacted("we set password = some-more-rare-ones in the panel", NONE)[1] == []


def test_an_escaped_slash_is_a_slash():
    value = "aB3/dE4/" + "fG5+" * 8
    text = '{"a": "' + value.replace("/", "\\/") + '"}'
    assert redacted(text, Sources({value: Exact("env-key")}))[0] == '{"a": "<secret:env-key:1>"}'


@pytest.mark.parametrize(
    "piece",
    [
        *("password", "password {a=b,", "password\n        a=b\n", "password a=b c=d ", "password=s|x|x|", "key=key="),
        *(
            "password --a b --c d ",
            "_pat_pat=",
            "pw=",
            "assert 'aaaaaaaaaa' == a.b.c.d",
            "x-key: ${key:",
            "auth_key    ",
        ),
        *("password=user=a;password=", "\\u0022password\\u0022:\\u0022", "?password=a&password=", "password.set("),
        *("password='aa bb cc dd ee ff ", "password=aaaa.aaaa.aaaa.", "password" + " " * 99, "password" + "\\" * 60),
    ],
)
def test_no_text_takes_more_than_its_length(piece):
    text = piece * (60_000 // len(piece))
    forget()
    began = time.process_time()
    redacted(text, NONE)
    assert time.process_time() - began < 5
