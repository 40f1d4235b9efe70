"""Mends: which rows stand for older ones whose secrets were taken out later; the project's `mends.jsonl`.

What names a row by its id (the ledger) finds the mended one by this. A mend is noted before its row is written: where a
crash came between, the newer row is not there, and the older one still stands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.store.files import append_line, private_folder
from machine.store.records import records


class Mend(msgspec.Struct, frozen=True):
    """One line: the row `new` stands for the row `old` since `at` (UTC, ISO 8601)."""

    old: str
    new: str
    at: str


@dataclass(frozen=True)
class Mends:
    """The mends of the project whose store is `folder`; written to under the project's lock."""

    folder: Path

    def note(self, mend: Mend) -> None:
        """Notes a mend durably.

        Raises:
            StoreError: it could not be noted; the file is as it was.
        """
        private_folder(self.folder)
        append_line(self._file, msgspec.json.encode(mend), cut_torn=True)

    def all(self) -> Mapping[str, str]:
        """The newer row of each mended one; lines that cannot be read name none.

        Raises:
            StoreError: the file cannot be read.
        """
        return {mend.old: mend.new for mend in records(self._file, Mend)}

    def heirs(self, id: str) -> list[str]:
        """The ids under which a row may be found, the newest first, its own last."""
        known, found = self.all(), [id]
        while (newer := known.get(found[-1])) is not None and newer not in found:
            found.append(newer)
        return found[::-1]

    @property
    def _file(self) -> Path:
        return self.folder / "mends.jsonl"
