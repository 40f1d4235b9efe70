"""Forgotten: turns whose rows the user erased, so that nothing captures them again unasked; `forgotten.jsonl`.

A turn is known by a hash of its entry ids, which says nothing of what it held. The user may tag it again all the same.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.store.files import append_line, private_folder
from machine.store.index import turn_key
from machine.store.records import records


class _Line(msgspec.Struct, frozen=True):
    turn: str
    at: str


@dataclass(frozen=True)
class Forgotten:
    """The forgotten turns of the project whose store is `folder`; written to under the project's lock."""

    folder: Path

    def note(self, turns: Sequence[tuple[str, ...]]) -> None:
        """Notes turns durably, each given by its entry ids.

        Raises:
            StoreError: one could not be noted; those before it are.
        """
        private_folder(self.folder)
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        for turn in turns:
            append_line(self._file, msgspec.json.encode(_Line(turn_key(turn).hex(), at)), cut_torn=True)

    def holds(self, turns: Sequence[tuple[str, ...]]) -> list[bool]:
        """Whether each of the turns was forgotten.

        Raises:
            StoreError: the file cannot be read.
        """
        known = {line.turn for line in records(self._file, _Line)}
        return [turn_key(turn).hex() in known for turn in turns]

    @property
    def _file(self) -> Path:
        return self.folder / "forgotten.jsonl"
