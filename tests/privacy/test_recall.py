"""Made-up credentials of every kind in every position of a row: what is found, and what the row is afterwards."""

import json
import random
from collections import Counter
from typing import Any

import pytest
from credentials import HELD_OUT, KINDS, POSITIONS, credential, lines_of

from machine.privacy.forms.patterns import rules
from machine.privacy.redact import redacted
from machine.privacy.sources import Sources

NONE = Sources.of({})


def rows(kinds, seed):
    """The kind, the position, the row and the secret in it; a file's name has no line ends."""
    dice = random.Random(seed)
    for kind in kinds:
        for position, row in POSITIONS.items():
            text, secret = credential(kind, dice)
            if position != "file name" or "\n" not in text:
                yield kind, position, row(text), secret


def leaks(row: Any, secret: str) -> bool:
    written = json.dumps(row, ensure_ascii=False)
    return any(line in written or json.dumps(line)[1:-1] in written for line in lines_of(secret))


def shape(value: Any) -> Any:
    """A value without its texts but for their lines; JSON in a text is looked into."""
    if isinstance(value, dict):
        return [shape(each) for each in value.values()]
    if isinstance(value, list):
        return [shape(each) for each in value]
    if isinstance(value, str):
        try:
            return ["json", shape(json.loads(value))]
        except ValueError:
            return value.count("\n")
    return value


def test_there_are_kinds_and_positions_enough():
    assert len(KINDS) >= 100
    assert len(POSITIONS) >= 10
    assert not set(KINDS) & set(HELD_OUT)


def test_98_of_100_credentials_are_found_wherever_they_stand():
    missed, asked, places = Counter(), Counter(), Counter()
    for kind, position, row, secret in rows(KINDS, seed=9):
        assert leaks(row, secret), f"{kind}, {position}: the row does not hold it"
        clean, found = redacted(row, NONE)
        asked[kind] += 1
        if leaks(clean, secret) or not found:
            missed[kind] += 1
            places[position] += 1
        assert secret not in repr(found), kind
        assert shape(clean) == shape(row), f"{kind}, {position}: JSON or lines are not what they were"
        again, more = redacted(clean, NONE)
        assert not more, f"{kind}, {position}: {more}"
        assert again == clean
    assert missed.total() <= 0.02 * asked.total(), f"missed: {dict(missed)}, {dict(places)}"
    assert [kind for kind in missed if missed[kind] > asked[kind] / 4] == []


def test_what_was_held_out_while_the_rules_were_made_is_mostly_found():
    missed = Counter(kind for kind, _, row, secret in rows(HELD_OUT, seed=9) if leaks(redacted(row, NONE)[0], secret))
    assert missed.total() <= 0.1 * len(HELD_OUT) * len(POSITIONS), dict(missed)


@pytest.mark.parametrize("name", sorted({rule.name for rule in rules()}))
def test_a_placeholder_is_no_secret_and_names_are_what_placeholders_may_hold(name):
    place = f"<secret:{name}:1>"
    text = "\n".join(
        [
            place,
            f"API_KEY={place}",
            f'{{"password": "{place}"}}',
            f'{{\\"password\\": \\"{place}\\"}}',
            f"password: {place}",
            f"--password {place}",
            f"postgres://user:{place}@host/db",
            f"curl -u user:{place} https://host",
            f"Authorization: Bearer {place}",
            f"Authorization: Basic {place}",
            f"Set-Cookie: session={place}; Path=/",
            f"host:5432:db:user:{place}",
            f"machine host login user password {place}",
            f"token is {place}, again",
            f"mysql -p{place}",
        ]
    )
    assert name == name.lower()
    assert redacted(text, NONE) == (text, [])


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("github fine-grained", "github-token"),
        ("google api", "google-api-key"),
        ("anthropic", "anthropic-key"),
        ("aws key id", "aws"),
        ("password in yaml", "password"),
        ("postgres url", "url-password"),
        ("api key in js", "api-key"),
        ("token in yaml", "token"),
        ("openssh", "private-key"),
        ("bcrypt", "password-hash"),
        ("set-cookie", "cookie"),
        ("authorization basic", "basic-credentials"),
    ],
)
def test_a_placeholder_says_what_stood_there(kind, rule):
    text, _ = credential(kind, random.Random(4))
    assert f"<secret:{rule}:1>" in redacted(text, NONE)[0]


def test_a_form_of_its_own_names_a_secret_before_the_name_that_it_was_given_to():
    token, _ = credential("github classic", random.Random(4))
    assert redacted(f"GITHUB_TOKEN={token}", NONE)[0] == "GITHUB_TOKEN=<secret:github-token:1>"
