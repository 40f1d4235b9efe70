from machine import bootstrap
from machine.commands.document import document


def test_the_reference_is_the_commands_own():
    written = (bootstrap.PACKAGE / "docs" / "commands.md").read_text()
    assert written == document(), "python -m machine.commands.document > docs/commands.md"
