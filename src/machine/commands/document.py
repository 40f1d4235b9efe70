"""The command reference, out of the commands themselves.

python -m machine.commands.document > docs/commands.md
"""

from collections.abc import Iterator

import click

from machine.commands import root
from machine.slash import OWN

_HEAD = """# Commands

Every command has two doors. In a shell it is `machine WORDS`; in Pi it is a slash command with the same words: `/good`,
`/correction`, `/corrections`, `/tagged`, `/train ...`, `/tinker ...` and `/release ...` have a slash of their own, the
others follow `/machine`.

`--json` anywhere prints the whole result as one line of JSON (in a shell). Exit codes: 0 done, 1 failed, 2 refused or
badly asked for. The last line of a failure says what to do next.
"""


def document() -> str:
    """The reference as Markdown."""
    return _HEAD + "".join(_section(words, command) for words, command in _commands(root, ()))


def _commands(group: click.Group, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield (*words, name), command
            yield from _commands(command, (*words, name))
        else:
            yield (*words, name), command


def _section(words: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(words))
    arguments = [p.make_metavar(context) for p in command.params if isinstance(p, click.Argument)]
    if isinstance(command, click.Group):
        arguments.append(command.subcommand_metavar)
    slash = f"/{' '.join(words)}" if words[0] in OWN else f"/machine {' '.join(words)}"
    call = " ".join([slash, *arguments])
    lines = [f"\n## {' '.join(words)}\n", f"{' '.join((command.help or '').split())}\n", f"    {call}\n"]
    options = [p.get_help_record(context) for p in command.params if isinstance(p, click.Option) and not p.hidden]
    records = [record for record in options if record is not None]
    if records:
        lines.append("| option | |\n|---|---|")
        lines += [f"| `{_cell(name)}` | {_cell(about)} |" for name, about in records]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(document(), end="")
