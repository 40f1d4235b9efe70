import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine.commands import COMMANDS
from machine.slash import OWN, argv, as_typed_in_pi, split


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  a \t b\n c ", ["a", "b", "c"]),
        ("it's great", ["it's", "great"]),
        ("'tis the dogs' dinner, isn't it", ["tis the dogs", "dinner,", "isn't", "it"]),
        ("'tis fine", ["'tis", "fine"]),
        ('--as "He said it\'s fine"', ["--as", "He said it's fine"]),
        ("--as 'it's fine'", ["--as", "it's fine"]),
        ('--as="a b" c', ["--as=a b", "c"]),
        (r'--as "say \"hi\" \n \\"', ["--as", 'say "hi" \\n \\']),
        (r"C:\new\file 'C:\x y'", [r"C:\new\file", r"C:\x y"]),
        ('--as ""', ["--as", ""]),
        ('"never closed', ['"never', "closed"]),
        ('5" pipe and 6" pipe', ['5"', "pipe", "and", '6"', "pipe"]),
        ("--as 'two\nlines'", ["--as", "two\nlines"]),
        ("one\u2028word \u00a0", ["one\u2028word", "\u00a0"]),
    ],
)
def test_words(text, words):
    assert split(text) == words


@given(st.text().map(lambda text: text.replace('"', "").replace("'", "")))
def test_without_quotes_it_is_cut_at_spaces(text):
    assert split(text) == re.findall(r"[^ \t\r\n]+", text)


@given(st.text(alphabet="ab'\"= \\"))
def test_nothing_that_one_can_type_is_a_syntax_error(text):
    assert "".join(split(text)).count("a") == text.count("a")


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]))))
def test_words_in_double_quotes_come_back_whole(words):
    quoted = ['"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words]
    assert split(" ".join(quoted)) == words


def test_a_slash_command_is_the_shell_command_of_the_same_words():
    assert argv("train", "run --yes") == ["train", "run", "--yes"]
    assert argv("machine", "data") == ["data"]
    assert argv("good", "") == ["good"]


def test_advice_is_given_in_the_words_of_the_door():
    assert as_typed_in_pi("machine train run, or machine doctor") == "/train run, or /machine doctor"
    assert as_typed_in_pi("restart the machine; see ~/machine data") == "restart the machine; see ~/machine data"


def test_every_command_with_a_slash_of_its_own_exists():
    assert set(OWN) <= set(COMMANDS)
