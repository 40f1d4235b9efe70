"""Project: the private folder of one project, `~/.machine/<name>-<hash>/`.

A project is the git work tree that a folder lies in, else the folder itself: Pi started in a subfolder learns into the
same pool. The hash is of the absolute path, so that two checkouts of one name never share a pool.
"""

import contextlib
import datetime
import hashlib
import json
import os
import re
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.errors import StoreError
from machine.home import machine_home, user_home
from machine.privacy.sources import Sources, of_project
from machine.store.blobs import Blobs
from machine.store.files import append_line, explained, locked, private_folder, read_private, write_private
from machine.store.forgotten import Forgotten
from machine.store.mends import Mends
from machine.store.pool import Pool
from machine.store.records import records
from machine.store.settings import Settings, changed, read_settings
from machine.trace import well_formed

OLD_NAMES = ("train.jsonl", "rejected.jsonl", "observed.jsonl")
"""Split files of earlier tools; said to be there, never read."""


class Refusal(msgspec.Struct, frozen=True):
    """What a command refused, when and why."""

    at: str
    command: str
    reason: str


@dataclass(frozen=True)
class Project:
    """The store of the project at `root`. Nothing is made on disk until something is written."""

    root: Path
    folder: Path

    @classmethod
    def at(cls, cwd: Path) -> "Project":
        """The project that `cwd` belongs to."""
        root = _root(cwd.resolve())
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", root.name).strip("-.") or "root"
        key = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
        return cls(root, machine_home() / f"{name[:48]}-{key}")

    @property
    def pool(self) -> Pool:
        """The rows."""
        return Pool(self.folder / "traces.jsonl")

    @property
    def blobs(self) -> Blobs:
        """The images that rows name by hash."""
        return Blobs(self.folder / "blobs")

    @property
    def forgotten(self) -> Forgotten:
        """The turns whose rows were erased."""
        return Forgotten(self.folder)

    @property
    def mends(self) -> Mends:
        """Which rows stand for older ones."""
        return Mends(self.folder)

    @property
    def corrections(self) -> Path:
        """The ledger of corrections."""
        return self.folder / "corrections.jsonl"

    @property
    def train(self) -> Path:
        """What `/train sft` writes."""
        return self.folder / "train"

    @property
    def runs(self) -> Path:
        """Training runs, a folder each."""
        return self.folder / "runs"

    @property
    def evals(self) -> Path:
        """Suites and their results."""
        return self.folder / "evals"

    @property
    def releases(self) -> Path:
        """Behavior releases, a folder each, and their log."""
        return self.folder / "releases"

    def make(self) -> Path:
        """Makes the folder, notes which project it is of, and returns it."""
        private_folder(self.folder)
        about = self.folder / "project.json"
        if not about.exists():
            write_private(about, json.dumps({"version": 1, "path": str(self.root)}).encode() + b"\n")
        return self.folder

    def settings(self) -> Settings:
        """The project's settings; defaults where none was set.

        Raises:
            StoreError: the file is damaged, or of a newer Machine.
        """
        return read_settings(self._settings)

    def set(self, **changes: object) -> Settings:
        """Changes some of the settings, durably, and returns them all.

        Raises:
            StoreError: the file is damaged, of a newer Machine, or cannot be written; it is as it was.
        """
        self.make()
        with locked(self.pool.lock):
            write_private(self._settings, changed(self._settings, changes))
        return self.settings()

    def sources(self, *, fingerprints: bool = False) -> Sources:
        """What is secret in this project beside the known forms, and what the user allowed.

        With `fingerprints`, findings have one each; the key that they are made with is made the first time.

        Raises:
            StoreError: the settings are damaged, or the key cannot be read or made.
        """
        settings = self.settings()
        return of_project(
            self._work_tree(),
            os.environ,
            home=settings.redact_home,
            emails=git_emails(self._work_tree()) if settings.redact_email else (),
            allowed=settings.allowed,
            key=fingerprint_key() if fingerprints or settings.allowed else b"",
        )

    def _work_tree(self) -> Path:
        """The project's root; where only its store is known, what that says of it."""
        if self.root != self.folder:
            return self.root
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return Path(json.loads((self.folder / "project.json").read_bytes())["path"])
        return self.root

    def refused(self, command: str, reason: str) -> None:
        """Notes what was refused and why, for `/machine data`."""
        self.make()
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with locked(self.pool.lock):
            append_line(self._refusals, msgspec.json.encode(Refusal(at, command, well_formed(reason))), cut_torn=True)

    def refusals(self) -> list[Refusal]:
        """What was refused, oldest first; lines that are not whole are skipped."""
        return records(self._refusals, Refusal)

    def old_files(self) -> list[Path]:
        """Files of earlier tools that lie in the store or in the project's `data/`: neither selected nor migrated."""
        places = [self.folder, self.root / "data"]
        return [place / name for place in places for name in OLD_NAMES if (place / name).exists()]

    @property
    def _settings(self) -> Path:
        return self.folder / "settings.json"

    @property
    def _refusals(self) -> Path:
        return self.folder / "refusals.jsonl"


def fingerprint_key() -> bytes:
    """The key of this machine that fingerprints of secrets are made with; made the first time.

    Raises:
        StoreError: it cannot be read or made.
    """
    path = machine_home() / "fingerprint.key"
    with explained(path):
        if not path.exists():
            with locked(private_folder(machine_home()) / "fingerprint.lock"):
                if not path.exists():
                    write_private(path, secrets.token_hex(32).encode())
        key = read_private(path).strip()
    if not re.fullmatch(rb"[0-9a-f]{64}", key):
        raise StoreError(
            f"{path} is damaged: it is no key of 64 hex digits",
            next_step=f"rm {path} (a new one is made; what was allowed has to be allowed anew)",
        )
    return key


def git_emails(root: Path) -> list[str]:
    """The addresses that git signs commits of the work tree with; none where there is no git."""
    try:
        asked = ["git", "-C", str(root), "config", "--get-all", "user.email"]
        found = subprocess.run(asked, capture_output=True, timeout=5, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return []
    named = [os.environ.get(name, "") for name in ("EMAIL", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")]
    return [each for each in dict.fromkeys([*found.stdout.decode("utf-8", "replace").split(), *named]) if "@" in each]


def _root(folder: Path) -> Path:
    home = user_home()
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists() and candidate != home:
            return candidate
    return folder
