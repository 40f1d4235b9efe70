import json
import re

import pytest

from machine.report import Passage, Report, Span, Table, as_json, as_markdown, as_text, printable

WIDE = Report(
    title="a *title*",
    rows=[("one", "1"), ("three", "3 | 4")],
    tables=[Table("t", ("a", "b"), [("x" * 60, "y" * 60), ("short", "")])],
    notes=["a note"],
    next_step="machine data",
    data={"k": "\u2028"},
)


def test_text_aligns_what_fits_and_never_pads_what_does_not():
    text = as_text(WIDE)
    assert text.splitlines()[1:3] == ["  one    1", "  three  3 | 4"]
    assert f"  {'x' * 60} · {'y' * 60}\n  short\n" in text
    assert text.endswith("Next: machine data")
    narrow = Report(title="t", tables=[Table("", ("a", "bb"), [("1", "2")])])
    assert as_text(narrow).splitlines() == ["t", "", "  a  bb", "  1  2"]


def test_markdown_lets_no_content_open_markup():
    text = as_markdown(WIDE)
    assert "a \\*title\\*" in text
    assert "3 \\| 4" in text
    assert "`machine data`" in text


@pytest.mark.parametrize(
    "start",
    [
        "~~~",
        "```",
        "# ",
        "> ",
        "- ",
        "+ ",
        "* ",
        "1. ",
        "12) ",
        "---",
        "===",
        "    code",
        "<!--",
        "[a](b) ",
        "[31m",
        "$$",
        "$x$",
        "|a|\n|-|",
    ],
)
def test_markdown_lets_no_note_swallow_or_dress_what_follows(start):
    text = as_markdown(Report(title="t", notes=[f"{start}hidden", "a warning"], next_step="machine data"))
    first = text.split("\n\n")[1]
    assert not re.match(r"[#>+*~`=<|$-]|\d+[.)]|\\\[", first)
    assert not re.search(r"(?<!\\)[`*\]<|~$]|(?<!\\)\\\[", first)
    assert re.sub(r"\\(.)", r"\1", first) == " ".join(f"{start}hidden".split("\n")).strip()
    assert text.endswith("\n\na warning\n\nNext: `machine data`")


def test_a_next_step_cannot_end_its_code():
    line = as_markdown(Report(title="t", next_step="look at /a`b``c\x1b[2J\nd")).rpartition("\n")[2]
    assert line == "Next: ``` look at /a`b``c\\x1b[2J d ```"


def test_json_is_one_ascii_line():
    line = as_json(WIDE)
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["data"] == {"k": "\u2028"}


def test_control_characters_are_spelt_out():
    hostile = Report(title="a\x1b[2Jb\r\x9bc", notes=["two\nlines"])
    assert "a\\x1b[2Jb\\x0d\\x9bc" in as_text(hostile)
    assert "\x1b" not in as_markdown(hostile)
    assert "two\nlines" in as_text(hostile)


def test_what_is_trained_is_marked_and_line_breaks_are_kept():
    spans = (
        Span("context\n"),
        Span("two\nlines", trained=True),
        Span("<|end|>", trained=True, control=True),
        Span("!"),
    )
    report = Report(title="t", passages=[Passage("p", spans)])
    assert "  context\n  ⟦two\n  lines<|end|>⟧!" in as_text(report)
    assert "```\ncontext\n⟦two\nlines<|end|>⟧!\n```" in as_markdown(report)


def test_what_could_reorder_a_line_is_spelt_out():
    assert printable("a\u202eb\u2066c\u2028d\ud800e\tf\ng") == "a\\u202eb\\u2066c\\u2028d\\ud800e\tf\ng"
    assert printable("שלום \u200f مرحبا 👩‍👧") == "שלום \u200f مرحبا 👩‍👧"
