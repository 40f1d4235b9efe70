"""Approvals: which bytes the user let out of this machine, when, and whereto; the project's `approvals.jsonl`.

An approval is of a digest and a destination. Other bytes, or the same ones to another place, need one of their own. The
file is append-only. What a crash can lose: nothing that `approve` has returned from; bytes of a line that was not
written whole are moved to `approvals.torn`. A line that cannot be read approves nothing.
"""

import contextlib
import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from machine.errors import Refused
from machine.privacy.parcel import Parcel
from machine.store.files import append_line, locked, private_folder
from machine.store.records import records
from machine.trace import well_formed

How = Literal["asked", "--yes"]


class Approval(msgspec.Struct, frozen=True):
    """One line: at `at` (UTC, ISO 8601) it was agreed to what a `Parcel` says, by an answer or by `--yes`."""

    at: str
    what: str
    digest: str
    rows: int
    bytes: int
    projects: tuple[str, ...]
    destination: str
    by: How


@dataclass(frozen=True)
class Approvals:
    """The approvals of the project whose store is `folder`."""

    folder: Path

    @property
    def file(self) -> Path:
        """Where they are kept."""
        return self.folder / "approvals.jsonl"

    def approve(self, parcel: Parcel, by: How) -> None:
        """Notes durably that `parcel` may leave.

        Raises:
            StoreError: it cannot be noted; nothing is approved.
        """
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        found = Approval(
            at, parcel.what, parcel.digest, parcel.rows, parcel.size, parcel.projects, parcel.destination, by
        )
        private_folder(self.folder)
        with locked(self.file.with_suffix(".lock")):
            line = msgspec.json.encode(well_formed(msgspec.to_builtins(found)))
            append_line(self.file, line, torn=self.file.with_suffix(".torn"), is_whole=_is_whole)

    def all(self) -> list[Approval]:
        """Those that can be read, oldest first.

        Raises:
            StoreError: the file cannot be read.
        """
        return records(self.file, Approval)

    def approved(self, parcel: Parcel) -> bool:
        """Whether these very bytes may go to this very place."""
        return any((each.digest, each.destination) == (parcel.digest, parcel.destination) for each in self.all())

    def refuse_unapproved(self, parcel: Parcel, next_step: str) -> None:
        """Lets nothing go that was not agreed to.

        Raises:
            Refused: it was not.
        """
        if not self.approved(parcel):
            raise Refused(
                f"these bytes were not approved for {parcel.destination} (SHA-256 {parcel.mark}): they changed since, "
                "or nobody was asked; nothing of them was sent",
                next_step=next_step,
            )


def _is_whole(line: bytes) -> bool:
    with contextlib.suppress(msgspec.MsgspecError, RecursionError):
        msgspec.json.decode(line, type=Approval)
        return True
    return False
