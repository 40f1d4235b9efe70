"""A rejected turn, for tests of corrections: its session file, its project and its rows."""

from pathlib import Path

import pytest

from machine.capture.reader import read
from machine.capture.rows import capture
from machine.correction.ledger import Correction, Ledger, Opened, new_id
from machine.correction.reasoning import with_correction
from machine.store.project import Project
from sessions import TOOL, Script

QUESTION = "Which test runner does this repository use?"
WRONG = "It uses unittest."


class Rejected:
    """A turn that read a file and drew the wrong conclusion."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = Script(cwd=str(folder), tools=[TOOL])
        self.script.user(QUESTION)
        self.script.message(
            role="assistant",
            content=[
                {"type": "thinking", "thinking": "Perhaps I simply look at the first file that comes to mind."},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "setup.py"}},
            ],
            api="openai-completions",
            provider="p",
            model="m",
            stopReason="toolUse",
        )
        self.script.result("c1", "import unittest")
        self.script.assistant(WRONG)

    @property
    def file(self) -> Path:
        return self.script.save(self.folder / "s.jsonl")

    @property
    def project(self) -> Project:
        return Project.at(self.folder)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.project)

    def opened(self, words: str = "look at pyproject.toml first", answer: str | None = None) -> Correction:
        """The turn's rows in the pool, and a correction of it in the ledger."""
        id = new_id()
        rows = with_correction(capture(read(self.file), tag="bad").rows, id, None)
        kept = self.project.pool.append_all(rows)
        opened = self.ledger.append(
            Opened(
                correction=id,
                rows=tuple(each.id for each in kept.rows),
                session="session-1",
                entries=rows[0].source.entries,
                question=QUESTION,
                words=words,
                answer=answer,
            )
        )
        assert isinstance(opened, Opened)
        return Correction(opened, [opened])

    def good(self, *, tag="good"):
        """The last turn of the session, as rows that nothing holds yet."""
        return capture(read(self.file), tag=tag).rows


@pytest.fixture
def rejected(tmp_path: Path) -> Rejected:
    return Rejected(tmp_path)
