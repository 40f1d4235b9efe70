"""Common: what several commands do the same way."""

from machine.errors import Refused
from machine.host import Host

PAGE, RECIPE = "train_sft.py", "tinker.yaml"
"""The files that `train sft` writes into the store's `train/`."""

_SHOWN = 12


def consent(host: Host, yes: bool, title: str, summary: str, words: str) -> None:
    """Asks the user, unless `--yes` was given.

    Raises:
        Refused: the answer is no, or nobody can answer.
    """
    if yes:
        host.notify(summary)
    elif not host.interactive:
        raise Refused(f"{summary}; nobody is here to agree", next_step=words)
    elif not host.confirm(title, summary):
        raise Refused("not agreed; nothing was sent", next_step=words)


def shown(lines: list[str]) -> list[str]:
    """The first lines, and how many more there are."""
    more = [f"... and {len(lines) - _SHOWN} more (--json shows all)"] if len(lines) > _SHOWN else []
    return lines[:_SHOWN] + more
