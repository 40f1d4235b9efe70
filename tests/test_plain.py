import datetime
from pathlib import Path

import pytest

from machine.errors import Refused
from machine.plain import LARGEST, values

FILE = Path("/a/file.yaml")
MEND = "mend it"


def read(text: str | bytes):
    return values(FILE, text.encode() if isinstance(text, str) else text, MEND)


def test_plain_values_are_read():
    text = "a: 1\nb: [x, 2.5, ~, true]\nc: {d: 2026-01-02}\ne: |\n  two\n  lines\nf: שלום\n"
    day = datetime.date(2026, 1, 2)
    assert read(text) == {"a": 1, "b": ["x", 2.5, None, True], "c": {"d": day}, "e": "two\nlines\n", "f": "שלום"}
    assert read("") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "while parsing"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("!!python/name:os.system", "could not determine a constructor"),
        ("a: &x [1, 1]\nb: [*x, *x, *x]", "aliases are not read"),
        ("&x [*x]", "aliases are not read"),
        ("<<: *x", "aliases are not read"),
        ("a: 1\nb: {c: 1, c: 2}", "'c' is there twice"),
        ('a: "\\ud800"', "half a surrogate pair"),
        ('a: "b\\0c"', "a null character"),
        ("[" * 20_000, "recursion"),
        ("{a: " * 3_000, "recursion"),
        ("a: " + "9" * 5_000, "4300 digits"),
        ("a: !!int ''", "string index"),
        ("a: !!int x", "invalid literal"),
        ("a: !!float x", "could not convert"),
        ("a: !!bool x", "'x'"),
        ("a: !!timestamp x", "NoneType"),
        ("a: 2026-99-99", "month"),
        ("!!map [1]", "mapping"),
        ("? [a]\n: b", "unhashable"),
        (b"a: \xff", "invalid start byte"),
        (b"\xff\xfe\x00", "truncated"),
        ("a: \x07", "special characters"),
        ("#" * (LARGEST + 1), f"{LARGEST + 1:,} bytes"),
    ],
)
def test_what_is_not_plain_is_refused_by_file_and_place(text, said):
    with pytest.raises(Refused, match=r"file\.yaml") as refused:
        read(text)
    assert said in refused.value.message
    assert refused.value.next_step == MEND
