"""`/good`: the last turn, exactly as the model saw it, becomes a row of the pool."""

from pathlib import Path

import click

from machine.commands.turns import judged, keep_good, refused_noted, saved, source
from machine.errors import Refused, UsageError
from machine.host import Host
from machine.report import Report


@click.command()
@click.argument("words", nargs=-1)
@click.option("--as", "answer", metavar="TEXT", help="What the answer should have been; its calls stay.")
@click.option("--note", metavar="TEXT", help="Why it is good; leftover words are a note too.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Append the row to FILE, not to the pool.")
@click.option("--link", metavar="ID", help="The correction that this turn answers, where it is not the obvious one.")
@click.option("--no-link", is_flag=True, help="This turn answers no correction.")
@click.option("--session", "file", type=click.Path(path_type=Path), metavar="FILE", help="A session file (in a shell).")
@click.option("--leaf", metavar="ID", help="With --session: the entry that the turn ends at or before.")
@click.option("--no-prompt", is_flag=True, help="With --session of a Pi before 0.86: keep the turn without its prompt.")
@click.pass_obj
def good(
    host: Host,
    words: tuple[str, ...],
    answer: str | None,
    note: str | None,
    out: Path | None,
    link: str | None,
    no_link: bool,
    file: Path | None,
    leaf: str | None,
    no_prompt: bool,
) -> Report:
    """Keep the last turn as a good example."""
    note = " ".join(words) if words and note is None else note
    if link is not None and no_link:
        raise UsageError("--link and --no-link exclude each other", next_step="/good --link ID")
    if answer is not None and not answer.strip():
        raise Refused("--as is empty", next_step='/good --as "the answer that it should have given"')
    tagging = source(host, "good", file, leaf, no_prompt)
    with refused_noted(tagging):
        captured = tagging.capture("good", note, answer)
    kept = keep_good(tagging, captured, out, link, linking=not no_link)
    return saved(judged(tagging, kept, "good" if answer is None else "corrected"))
