"""The shell's door: `machine good`, `machine train run` ... rendered with rich, or as JSON with `--json` anywhere.

Exit codes: 0 done, 1 failed, 2 refused or bad usage. A failure goes to stderr, its last line says what to do next.
"""

import contextlib
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from machine.commands import help_text, run
from machine.errors import Refused
from machine.host import Chosen, Completion, Level, LiveSession, Retried, Selection
from machine.report import Report, as_json, marked, printable

if TYPE_CHECKING:
    from rich.console import Console


class ShellHost:
    """A person at a terminal, or a script (no dialogs then)."""

    LINE_SECONDS = 2.0
    """Where progress cannot rewrite its line, one line at most in this time."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._open_line = False
        self._next_line = 0.0

    @property
    def cwd(self) -> Path:
        """The shell's folder."""
        return Path.cwd()

    @property
    def interactive(self) -> bool:
        """Whether stdin and stderr are terminals."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def session(self) -> LiveSession | None:
        """A shell has none."""
        return None

    def confirm(self, title: str, message: str = "") -> bool:
        """Asks on the terminal; no is the default."""
        if message:
            self.notify(message)
        return self.interactive and (self._ask(f"{title} [y/N] ") or "").lower() in ("y", "yes")

    def select(self, title: str, options: Sequence[str]) -> str | None:
        """Asks for one of the numbered options."""
        if not self.interactive:
            return None
        self.notify("\n".join([title, *(f"  {i}  {option}" for i, option in enumerate(options, 1))]))
        answer = self._ask("number: ") or ""
        return options[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(options) else None

    def input(self, title: str, placeholder: str = "") -> str | None:
        """Asks for one line."""
        return self._ask(f"{title} {f'({placeholder}) ' if placeholder else ''}") if self.interactive else None

    def editor(self, title: str, prefill: str = "") -> str | None:
        """Opens the user's editor."""
        import click

        return click.edit(prefill) if self.interactive else None

    def notify(self, message: str, level: Level = "info") -> None:
        """Prints to stderr: stdout is the report's."""
        if not self._quiet:
            self.progress(None)
            print(printable(message), file=sys.stderr, flush=True)

    def progress(self, message: str | None, detail: Sequence[str] = ()) -> None:
        """Rewrites one line on a terminal, prints lines elsewhere; there is no room for the detail."""
        if self._quiet:
            return
        message = None if message is None else printable(message)
        if not sys.stderr.isatty():
            if message is not None and time.monotonic() >= self._next_line:
                print(message, file=sys.stderr, flush=True)
                self._next_line = time.monotonic() + self.LINE_SECONDS
            return
        if message is None:
            if self._open_line:
                sys.stderr.write("\n")
        else:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
            sys.stderr.write(f"\r\x1b[K{message[: columns - 1]}")
        self._open_line = message is not None
        sys.stderr.flush()

    def complete(
        self,
        system: str,
        said: Sequence[tuple[Literal["user", "assistant"], str]],
        model: str | None = None,
        max_tokens: int = 4096,
    ) -> Completion | None:
        """A shell has no model."""
        return None

    def retry(self, entry: str, hint: str, model: str | None = None) -> Retried | None:
        """A shell has no session."""
        return None

    def selection(self) -> Selection | None:
        """A shell has no model."""
        return None

    def choose(self, wanted: Chosen, before: Chosen | None = None) -> None:
        """A shell has no model to set."""
        raise Refused("a shell has no model to set", next_step=f"pi --model {wanted.model}")

    def models_changed(self) -> None:
        """A shell lists no models."""

    def _ask(self, prompt: str) -> str | None:
        try:
            return input(printable(prompt))
        except EOFError:
            return None


def main() -> None:
    """Entry point of the `machine` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character still shows the report
    argv = sys.argv[1:]
    wants_json = "--json" in argv
    argv = [word for word in argv if word != "--json"]
    if (text := help_text(argv)) is not None:
        raise SystemExit(_written(lambda: print(text, flush=True), 0))
    host = ShellHost(quiet=wants_json)
    report = run(argv, host)
    host.progress(None)
    show = (lambda: print(as_json(report), flush=True)) if wants_json else (lambda: _show(report))
    raise SystemExit(_written(show, report.exit_code))


def _written(write: Callable[[], None], exit_code: int) -> int:
    """Writes what the command has to say, and returns `exit_code`; 1 where it cannot be written, which is said."""
    try:
        write()
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        _hush(sys.stdout, sys.stderr)
    except OSError as error:
        _hush(sys.stdout)
        with contextlib.suppress(OSError):
            print(
                f"what the command did is done, but its report could not be written: {error.strerror or error}",
                "Next: free space on the disk that the output goes to, or send it elsewhere",
                sep="\n",
                file=sys.stderr,
                flush=True,
            )
        return exit_code or 1
    return exit_code


def _hush(*streams: TextIO) -> None:
    """Drops what a stream still holds: it cannot be flushed at exit either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream.fileno())


def _show(report: Report) -> None:
    from rich.console import Console

    class Shown(Console):
        """Leaves a reader who is gone to `_written`; rich would end the process with 1, whatever was done."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = Shown(stderr=report.exit_code != 0, highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())
    if report.title:
        style = "bold" if report.exit_code == 0 else "bold red"
        console.print(f"[{style}]{_plain(report.title)}[/]")
    width = max((len(label) for label, _ in report.rows), default=0)
    for label, value in report.rows:
        console.print(f"  [dim]{_plain(label.ljust(width))}[/]  {_plain(value)}")
    _show_tables(report, console)
    _show_passages(report, console)
    for note in report.notes:
        console.print(f"  {_plain(note)}")
    if report.next_step:
        console.print(f"[dim]Next:[/] {_plain(report.next_step)}")


def _show_tables(report: Report, console: "Console") -> None:
    from rich import box
    from rich.table import Table

    for table in report.tables:
        grid = Table(box=box.SIMPLE_HEAD, title=_plain(table.title) or None, title_justify="left", title_style="dim")
        for column in table.columns:
            grid.add_column(_plain(column), overflow="fold")
        for row in table.rows:
            grid.add_row(*(_plain(cell) for cell in row))
        console.print(grid)


def _show_passages(report: Report, console: "Console") -> None:
    """Trained text on green, or between `⟦ ⟧` where nothing is coloured; control tokens and notes faint."""
    from rich.text import Text

    for passage in report.passages:
        console.print(f"\n[dim]{_plain(passage.title)}[/]")
        if not console.color_system:
            console.print(_plain(marked(passage)), soft_wrap=True)
            continue
        text = Text()
        for span in passage.spans:
            style = "black on green" if span.trained else "dim" if span.control or span.note else ""
            shown = span.text.replace("\n", "↵\n") if span.trained else span.text
            text.append(printable(shown), f"{style} italic" if span.trained and span.control else style)
        console.print(text, soft_wrap=True)
        console.print()


def _plain(text: str) -> str:
    """Text that can neither style nor steer the terminal, whatever a session held."""
    from rich.markup import escape

    return escape(printable(text))


if __name__ == "__main__":
    main()
