"""Parcel: what is about to leave this machine, and the digest of its bytes, by which an agreement is bound to them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

BRIEF = 12
"""Hex digits of a digest that are shown where the whole of it would be noise."""


@dataclass(frozen=True)
class Parcel:
    """Bytes on their way to `destination`: a host, or a file that is written to be given away.

    `rows` counts what `what` says in the plural (rows, cases, pairs), `size` is in bytes, `projects` are the names of
    the projects that they come from, `digest` is the SHA-256 (hex) of the bytes. The bytes themselves are not kept.
    """

    what: str
    rows: int
    size: int
    projects: tuple[str, ...]
    destination: str
    digest: str

    @classmethod
    def of(cls, parts: Iterable[bytes], *, what: str, rows: int, projects: Iterable[str], destination: str) -> "Parcel":
        """The parcel of some bytes, in order. Each part shows by itself where it ends, as a line does."""
        hashed, size = hashlib.sha256(), 0
        for part in parts:
            hashed.update(part)
            size += len(part)
        return cls(what, rows, size, tuple(sorted(set(projects))), destination, hashed.hexdigest())

    @property
    def mark(self) -> str:
        """The beginning of the digest, for the user's eye."""
        return self.digest[:BRIEF]

    def summary(self) -> list[tuple[str, str]]:
        """What leaves, as labelled values."""
        return [
            ("Leaves", f"{self.rows} {self.what}"),
            ("Bytes", f"{self.size:,} (SHA-256 {self.mark})"),
            ("Projects", ", ".join(self.projects)),
            ("Goes to", self.destination),
        ]

    def sentence(self) -> str:
        """The same in one sentence, for a question."""
        names = ", ".join(self.projects)
        return (
            f"{self.rows} {self.what} of {names}, {self.size:,} bytes (SHA-256 {self.mark}), go to {self.destination}"
        )
