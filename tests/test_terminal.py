import pytest

from machine import cli
from machine.report import Passage, Report, Span

PASSAGE = Passage(
    "[t]",
    (
        Span("[9 tokens]\n", note=True),
        Span("[red]a\x1b[2J"),
        Span("<|end|>", control=True),
        Span("b\nc", trained=True),
        Span("<|end|>", trained=True, control=True),
    ),
)


@pytest.fixture
def shown(capsys, monkeypatch):
    def show(**environment):
        for name in ("FORCE_COLOR", "NO_COLOR", "TERM", "COLORTERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        cli._show(Report("title", passages=[PASSAGE]))
        return capsys.readouterr().out

    return show


def test_trained_text_is_green_and_nothing_in_it_is_obeyed(shown):
    text = shown(FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[30;42mb↵\x1b[0m\n\x1b[30;42mc\x1b[0m\x1b[3;30;42m<|end|>\x1b[0m" in text
    assert "\x1b[2m<|end|>\x1b[0m" in text
    assert "[red]a\\x1b[2J" in text


def test_without_colour_it_is_between_marks(shown):
    text = shown(TERM="dumb")
    assert "[9 tokens]\n[red]a\\x1b[2J<|end|>⟦b\nc<|end|>⟧" in text
    assert "\x1b" not in text
