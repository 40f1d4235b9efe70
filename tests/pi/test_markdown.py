"""Reports as Pi's own Markdown component shows them: every text as it was written, and nothing hidden behind it."""

import subprocess
from pathlib import Path

import pytest

from machine.report import Report, Table, as_markdown
from pi.harness import node_and_pi

SCRIPT = Path(__file__).with_name("rendered.mjs")
TEXTS = (
    "~~~ hidden", "``` hidden", "# head", "> said", "- item", "* item", "+ item", "1. first", "12) twelfth", "---", "=== x",
    "[31m x] b", "[a](http://b.example) ![c](d)", "[x]: http://b.example", "$x_1$ and $$y$$", "$$ open", "cost $5 to $6",
    r"\( open", r"\[ open", r"a \[z\] b", "~/a ~~b~~", "&#27;[31m &lt;b&gt;", "|a|b|", "<b>x</b> <!-- y", "a_b_c *d* __e__",
    "a\\", "`code", "\x1b[2J\x1b]52;c;eA==\x07",
)  # fmt: skip


def shown(report: Report) -> list[str]:
    found = node_and_pi()
    if found is None:
        pytest.skip("Pi is not installed")
    done = subprocess.run(
        [found[0], str(SCRIPT)], input=as_markdown(report), capture_output=True, text=True, check=True
    )
    return [line.rstrip() for line in done.stdout.splitlines() if line.strip()]


def test_pi_shows_every_text_as_it_is_and_all_that_follows_it():
    spelt = [text.replace("\x1b", "\\x1b").replace("\x07", "\\x07") for text in TEXTS]
    report = Report(
        "t", rows=[("label", text) for text in TEXTS], tables=[Table("cells", ("c",), [(text,) for text in TEXTS])],
        notes=[*TEXTS, "the last warning"], next_step="machine data",
    )  # fmt: skip
    lines = shown(report)
    bare = [line.replace("\u2060", "") for line in lines]
    assert [text for text in spelt if bare.count(text) != 1] == []  # the notes, each a line of its own
    assert [text for text in spelt if f"- label: {text}" not in bare] == []
    assert [text for text in spelt if f"│ {text} " not in "\n".join(bare)] == []
    assert lines[-2:] == ["the last warning", "Next: machine data"]
    assert "\x1b" not in "".join(lines)
