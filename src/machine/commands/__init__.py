"""Commands: one module a command, the same code behind the shell and Pi.

A command is a click command whose object is a `Host` and whose value is a `Report`. `run` is what both doors call.
"""

import importlib
from collections.abc import Sequence

import click

from machine.errors import MachineError
from machine.host import Host
from machine.report import Report

# command word -> (module in this package, its command, what it does); a module is imported when its word is used
COMMANDS = {
    "good": ("good", "good", "Keep the last turn as a good example."),
    "correction": ("correction", "correction", "The last turn was wrong: keep it as bad, approve the right reasoning."),
    "corrections": ("corrections", "corrections", "What was corrected, how far it has come, and its preference pairs."),
    "import": ("importing", "import_", "Every turn of session files, each once."),
    "tagged": ("tagged", "tagged", "Recent rows of this project's pool, or one row whole."),
    "student": ("student", "student", "Let the student answer in Pi: the active release, else the base model."),
    "work": ("student", "work", "Go back to the model that you worked with before the student."),
    "data": ("data", "data", "Where this project's data lies, what is in it, what was refused."),
    "auto": ("settings", "auto", "Capture turns unasked, or stop it: compacted spans and headless runs."),
    "privacy": ("privacy", "privacy", "What counts as a secret here, where one is, and how it is taken out."),
    "footer": ("settings", "footer", "Whether Pi's footer speaks of this project."),
    "contributors": ("settings", "contributors", "The models that propose a reasoning in a correction."),
    "teacher": ("settings", "teacher", "The model that does a corrected turn again."),
    "train": ("train", "train", "Validate, train, evaluate."),
    "tinker": ("tinker", "tinker", "Tinker models and checkpoints as Pi models."),
    "release": ("release", "release", "Behavior releases: a checkpoint earns its place, and can be rolled back."),
    "engine": ("engine", "engine", "The embedded engine: Tinker's API on this machine."),
    "setup": ("setup", "setup", "Make the Python environment that Machine runs in."),
    "doctor": ("doctor", "doctor", "Say what is missing, and how to mend it."),
}


class _Words(click.Group):
    """The root: knows every word, imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"machine.commands.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(word, about) for word, (_, _, about) in COMMANDS.items()])


root = _Words(
    "machine", help="Your coding agent's weights learn from you. Inside Pi: /good, /machine, /train, /tinker."
)


def run(argv: Sequence[str], host: Host) -> Report:
    """Runs a command line (`["train", "run", "--yes"]`) for a host.

    A fault that the user can mend comes back as a report with exit code 1 or 2; nothing but a bug raises.
    """
    words = list(argv) or ["--help"]
    try:
        report = root.main(words, prog_name="machine", standalone_mode=False, obj=host)
    except MachineError as error:
        return _fault(words, error.message, error.next_step, error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        return Report(title=error.format_message(), exit_code=2)
    except click.ClickException as error:
        return _fault(words, error.format_message(), _usage(error), 2)
    except OSError as error:  # a folder that is gone, a file that may not be read: the system's faults, not Machine's
        place = f"{error.filename}: " if error.filename else ""
        return _fault(words, f"{place}{error.strerror or error}", "machine doctor", 1)
    except (click.Abort, KeyboardInterrupt):
        return _fault(words, "stopped", "run it again when you are ready", 1)
    if isinstance(report, Report):
        return report
    return Report(title="", exit_code=report if isinstance(report, int) else 0)


def help_text(argv: Sequence[str]) -> str | None:
    """The help of a command line that asks for it, else None: click would print it, and Pi's door may not print."""
    words = [word for word in argv if word not in ("--help", "-h")]
    if argv and len(words) == len(argv):
        return None
    context = click.Context(root, info_name="machine")
    command: click.Command | None = root
    for word in words:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            break
        command, context = found, click.Context(found, info_name=word, parent=context)
    assert command is not None
    return command.get_help(context)


def _fault(words: Sequence[str], message: str, next_step: str, exit_code: int) -> Report:
    title = f"{words[0]}: {message}" if words and not words[0].startswith("-") else message
    return Report(title=title, next_step=next_step, data={"error": message}, exit_code=exit_code)


def _usage(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{context.command_path} --help" if context else "machine --help"
