import re

import pytest

from machine.page import count, page
from machine.tinker.students import Student

HOSTILE = "<script>alert(1)</script></style>\"'&\x1b[2J\x00\r\u2028\u202e\ud800"


def shown(text: str) -> str:
    """A page with `text` in its title and body."""
    return page("show.html.j2", row=text, student=Student(text, text, None, None), data=[], examples=0)


def test_every_value_is_escaped_and_printable():
    html = shown(HOSTILE)
    html.encode()
    assert "<script" not in html
    assert html.count("</style>") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&lt;/style&gt;&#34;&#39;&amp;" in html
    assert r"\x1b[2J\x00\x0d\u2028\u202e\ud800" in html
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u2028\u202e]", html)


def test_a_page_asks_nobody_for_anything_and_may_run_nothing():
    html = shown("t")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search(r"https?:|//|url\(|@import|<link|<script|<iframe|<img|\son\w+=| style=", html)


def test_a_value_that_was_not_given_is_an_error_not_a_gap():
    with pytest.raises(Exception, match="row"):
        page("show.html.j2", student=Student("m", "r", None, None), data=[], examples=0)


def test_thousands_are_set_apart():
    assert (count(999), count(1234567)) == ("999", "1\u202f234\u202f567")
