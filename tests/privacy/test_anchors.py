"""Each condition of `anchors` against its pattern: what matches is never left out."""

import random
import re
import sys
import time

import pytest
from credentials import HELD_OUT, KINDS, POSITIONS, credential
from hypothesis import given, settings
from hypothesis import strategies as st

from machine.privacy.forms.anchors import LITERALS, SAME_AS_ASCII, SHAPES, Anchors, anchors
from machine.privacy.forms.patterns import rules
from machine.privacy.forms.rule import LEFT, Rule
from machine.privacy.forms.vendors import END
from machine.privacy.redact import redacted
from machine.privacy.sources import Sources

PIECES = [
    "\n",
    " ",
    "    ",
    " " * 12,
    '"',
    "'",
    ":",
    "=",
    "@",
    ".",
    "\\n",
    "é",
    "漢",
    "\u0661",
    "\u017f",
    "\ud800",
    "x" * 25,
]
RULES = {f"{rule.name}-{number}": rule for number, rule in enumerate(rules())}
PLUGINS = [name for name, rule in RULES.items() if not rule.anchors]
INSIDE = [name for name, rule in RULES.items() if rule.anchors and not rule.leading]
BEGUN = [
    name
    for name, rule in RULES.items()
    if rule.pattern.pattern.startswith(LEFT) and rule.leading and rule.view == "text"
]
SEEDS = [
    'aws_secret_key = "' + "aB3/" * 10 + '"',
    "cloudant_apikey" + " " * 100 + "::" + " " * 100 + '"' + "0a" * 32,
    "clPA\u017f\u017f" + " " * 90 + "a" * 24,
    "clou-\u212aey=" + "b" * 24,
    "https://user:" + "\u212a" * 24 + "@host.CLOUDANT.com",
    "https://user:" + "0a" * 32 + "@host.cloudant.com",
    "M" + "\u0661" * 23 + "." + "\u0661" * 6 + "." + "x" * 27,
    "\u0661" * 8 + ":" + "a" * 35,
    "\u00a0AKC" + "a" * 10 + "\u2003",
    "\x1cAP\u0661" + "a" * 8,
    "XOXB-1-A",
    "https://HOO\u212aS.slack.com/\u017fervices/T1/B1/1",
    "AccountKey=" + "=" * 88,
    "://name:long-en0ugh@host",
    "SG." + "a" * 22 + "." + "b" * 43,
    "eyJa.a",
    "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----",
    "AKIA" + "A" * 16,
]


def plain(text: str) -> set[str]:
    """The names of the rules that match, with no condition asked."""
    return {name for name, rule in RULES.items() if any(rule.matches(text))}


def kept(text: str) -> set[str]:
    left = [rule for rule, _ in anchors().possible(text)]
    return {name for name, rule in RULES.items() if rule in left}


def alone(rule: Rule, text: str) -> list[re.Match[str]]:
    """The matches of one rule in a text, where its anchors let it."""
    return [match for _, at in Anchors([rule]).possible(text) for match in rule.matches(text, at)]


def test_every_pattern_of_this_detect_secrets_has_its_condition():
    assert {RULES[name].pattern for name in PLUGINS} == {*LITERALS, *SHAPES}
    assert kept("nothing here, at all") == set()


@pytest.mark.parametrize("pattern", [r"AC[a-z0-9]{32,}", r"brand new"])
def test_a_pattern_that_is_not_known_may_always_match(pattern):
    rule = Rule("new", re.compile(pattern))
    assert Anchors([rule]).possible("x") == [(rule, [])]


def test_a_known_pattern_with_other_flags_may_always_match():
    rule = Rule("new", re.compile(r"AC[a-z0-9]{32}", re.IGNORECASE))
    assert Anchors([rule]).possible("x") == [(rule, [])]


@pytest.mark.parametrize("name", [*PLUGINS, *INSIDE])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_a_pattern_matches_is_kept_whatever_stands_around_it(name, data):
    rule = RULES[name]
    around = st.lists(st.sampled_from([*PIECES, *SEEDS]), max_size=3).map("".join)
    text = data.draw(around) + data.draw(st.from_regex(rule.pattern)) + data.draw(around)
    assert [match.span() for match in alone(rule, text)] == [match.span() for match in rule.matches(text)]


@pytest.mark.parametrize("name", BEGUN)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_a_token_is_kept_whatever_its_form_leaves_open(name, data):
    rule = RULES[name]
    form = rule.pattern.pattern.removeprefix(LEFT).removesuffix(END)
    token = data.draw(st.from_regex(form, fullmatch=True, alphabet=st.characters(max_codepoint=0x7F)))
    text = data.draw(st.sampled_from(["", "a ", "\n", "é "])) + token + data.draw(st.sampled_from(["", " b", "\n"]))
    if found := rule.pattern.search(text):
        assert found.group() in [match.group() for match in alone(rule, text)]


def test_all_that_rules_find_in_made_up_credentials_is_found_in_the_rules_that_are_left():
    dice = random.Random(3)
    for kind in [*KINDS, *HELD_OUT]:
        text = str(dice.choice(list(POSITIONS.values()))(credential(kind, dice)[0]))
        every = {(rule.name, secret) for rule in rules() for secret in rule.secrets(text)}
        left = {(rule.name, secret) for rule, at in anchors().possible(text) for secret in rule.secrets(text, at)}
        assert every == left, kind


@pytest.mark.parametrize("seed", SEEDS)
def test_rare_spellings_are_kept(seed):
    assert plain(seed)
    assert plain(seed) <= kept(seed)


def test_random_texts_keep_all_that_matches():
    dice = random.Random(5)
    for _ in range(60):
        text = "".join(dice.choices([*PIECES, *SEEDS, *(seed[: len(seed) // 2] for seed in SEEDS)], k=12))
        assert plain(text) <= kept(text)


def test_the_letters_that_fold_into_ascii_are_all_there_are():
    ascii_letters = re.compile("[a-z]", re.IGNORECASE)
    folding = {chr(code) for code in range(0x80, sys.maxunicode + 1) if ascii_letters.fullmatch(chr(code))}
    assert folding == set(SAME_AS_ASCII)
    assert all(re.fullmatch(SAME_AS_ASCII[character], character, re.IGNORECASE) for character in folding)


def test_equal_texts_and_texts_each_have_their_findings():
    key = "AKIA" + "ABCDEFGH12345678"
    clean, found = redacted([key, f"x {key}", key, "y" * 100_000, f"{key} z"], Sources.of({}))
    assert clean[:3] + clean[4:] == ["<secret:aws:1>", "x <secret:aws:1>", "<secret:aws:1>", "<secret:aws:1> z"]
    assert [each.place for each in found] == ["[0]", "[1]", "[2]", "[4]"]


@pytest.mark.parametrize(
    "piece", ["eyJ", "eyJ-", "eyJ=", "sk-", "sk-a-" + "b" * 20, "glptt-sk_a-", "token==", "pwd://"]
)
def test_no_text_takes_more_than_its_length(piece):
    text = piece * (60_000 // len(piece)) + " T3BlbkFJ"
    began = time.process_time()
    redacted(text, Sources.of({}))
    assert time.process_time() - began < 3


def test_a_web_token_goes_with_its_signature_wherever_it_begins():
    parts = ["eyJ" + "hbGciOi" * 5, "eyJ" + "zdWIiOi" * 5, "s1gn-ature_" * 3]
    for before in ("", "session_", "a=", "x-", "\\n", "%20", "é"):
        assert redacted(f"{before}{'.'.join(parts)} b", Sources.of({}))[0] == f"{before}<secret:jwt:1> b"
    assert redacted("eyJ" + "hbGciOi" * 900 + "." + parts[1], Sources.of({}))[0] == "<secret:jwt:1>"
