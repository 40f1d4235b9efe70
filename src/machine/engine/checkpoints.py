"""Checkpoints on disk: `<root>/<run>/<kind>/<name>/`, named `tinker://<run>/<kind>/<name>` on the wire.

A checkpoint is a PEFT adapter folder (`adapter_config.json`, `adapter_model.safetensors`), with the optimiser's state
(`optimizer.safetensors`) where training is to go on, and `checkpoint.json` for what the API tells about it. It is
written to a temporary folder beside its place and renamed: a crash leaves the whole of it or nothing, and of one that
was being replaced the old one or the new one. No pickle.

Whoever puts a foreign checkpoint here must not reach anything else by it: no folder or file of the tree is followed
that is a link, and a file is read only if it is a regular one of this user's, under this one name.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from machine.engine.faults import Fault, NotFound
from machine.errors import StoreError
from machine.store.files import open_private, private_folder, read_private, sync_folder, write_private

KINDS = {"weights": "training", "sampler_weights": "sampler", "external_weights": "external"}
"""Kind in the path, and what the API calls it."""
WEIGHTS, CONFIG, OPTIMIZER, META = (
    "adapter_model.safetensors",
    "adapter_config.json",
    "optimizer.safetensors",
    "checkpoint.json",
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")
_HALF, _OLD = ".tmp-", ".old-"
"""How folders begin that are being written or deleted, and that are being replaced."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class CheckpointPath:
    """A tinker path, taken apart and checked: no part can leave the checkpoints folder."""

    run: str
    kind: str
    name: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise Fault(f"path: {self.kind!r} is not a kind of checkpoint; use one of {', '.join(KINDS)}")
        for part in (self.run, self.name):
            if not _NAME.fullmatch(part):
                raise Fault(f"path: {part!r} is not a name; use letters, digits and . _ : -, 200 at most")

    @classmethod
    def parse(cls, text: str) -> "CheckpointPath":
        """Reads `tinker://run/kind/name`.

        Raises:
            Fault: it is not of that form.
        """
        parts = text.removeprefix("tinker://").split("/")
        if not text.startswith("tinker://") or len(parts) != 3:
            raise Fault(f"path: {text!r} is not of the form tinker://run/kind/name")
        return cls(*parts)

    def __str__(self) -> str:
        return f"tinker://{self.run}/{self.kind}/{self.name}"


@dataclass(frozen=True)
class CheckpointFiles:
    """What a checkpoint holds, as bytes."""

    config: bytes
    weights: bytes
    optimizer: bytes | None = None


class _Meta(msgspec.Struct):
    """`checkpoint.json`."""

    time: str
    base_model: str | None = None
    user_metadata: dict[str, str] | None = None
    expires_at: datetime | None = None
    public: bool = False
    sha256: dict[str, str] = {}
    """Of each file (hex), by its name; one saved before there were digests has none."""

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at.timestamp() < _now().timestamp()


class _Run(msgspec.Struct):
    """`run.json`."""

    time: str
    base_model: str
    rank: int
    modules: tuple[str, ...]
    user_metadata: dict[str, str] | None = None


class Checkpoints:
    """The checkpoints folder. Every method may be called from any thread; the file system is the only state.

    Opening it finishes what a crash left half done, and removes checkpoints whose time is over.
    """

    def __init__(self, root: Path) -> None:
        self.root = private_folder(root)
        for folder in list(self._every()):
            if folder.name.startswith(_HALF):
                shutil.rmtree(folder, ignore_errors=True)
            elif folder.name.startswith(_OLD):
                place = folder.with_name(folder.name.removeprefix(_OLD))
                if place.exists():
                    shutil.rmtree(folder, ignore_errors=True)
                else:
                    folder.rename(place)
        for folder in self._every():
            if (facts := _readable(folder / META, _Meta)) is not None and facts.expired:
                shutil.rmtree(folder, ignore_errors=True)

    def save(self, path: CheckpointPath, files: CheckpointFiles, meta: Mapping[str, Any]) -> None:
        """Writes a checkpoint; one of the same name is replaced."""
        place = self._place(path)
        parent = private_folder(place.parent)
        temporary = private_folder(parent / f"{_HALF}{secrets.token_hex(6)}")
        try:
            held = {CONFIG: files.config, WEIGHTS: files.weights, OPTIMIZER: files.optimizer}
            digests = {}
            for name, data in held.items():
                if data is not None:
                    write_private(temporary / name, data)
                    digests[name] = fingerprint(data)
            write_private(temporary / META, _json({"time": _now().isoformat(), "sha256": digests, **meta}))
            self._put(temporary, place)
            sync_folder(parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def save_run(self, run: str, facts: Mapping[str, Any]) -> None:
        """Writes what the API tells about a training run."""
        write_private(private_folder(self.root / run) / "run.json", _json({**facts, "time": _now().isoformat()}))

    def read(self, path: CheckpointPath, *, optimizer: bool = False) -> CheckpointFiles:
        """Reads a checkpoint, its optimiser state too if asked.

        Raises:
            NotFound: it is not here, holds no optimiser state, or a file of it cannot be read.
        """
        if optimizer and not (self.folder(path) / OPTIMIZER).exists():
            raise NotFound(f"path: {path} holds no optimiser state", next_step="load it without the optimiser")
        return CheckpointFiles(*(self._bytes(path, name) for name in (CONFIG, WEIGHTS, OPTIMIZER)[: 2 + optimizer]))

    def open(self, path: CheckpointPath, name: str) -> BinaryIO:
        """A file of a checkpoint, to be read.

        Raises:
            NotFound: it is not here, or cannot be read.
        """
        file = self.folder(path) / name
        try:
            return os.fdopen(open_private(file, os.O_RDONLY), "rb")
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise NotFound(f"path: {path} is damaged: {name} is gone", next_step="delete it") from error
            raise NotFound(f"path: {path} cannot be used: {error.message}", next_step=error.next_step) from error

    def _bytes(self, path: CheckpointPath, name: str) -> bytes:
        with self.open(path, name) as file:
            data = file.read()
        kept = _read(self.folder(path) / META, _Meta).sha256.get(name)
        if kept is not None and fingerprint(data) != kept:
            fault = f"path: {path} is damaged: {name} is not as it was saved"
            raise NotFound(fault, next_step="copy it again, or delete it")
        return data

    def folder(self, path: CheckpointPath) -> Path:
        """Where a checkpoint lies.

        Raises:
            NotFound: it is not here, or has expired.
        """
        folder = self._place(path)
        if not (folder / META).exists() or _read(folder / META, _Meta).expired:
            raise NotFound(f"path: there is no checkpoint {path}", next_step="see `/tinker checkpoints`")
        return folder

    def version(self, path: CheckpointPath) -> tuple[int, int]:
        """Changes whenever the weights of a checkpoint do."""
        with self.open(path, WEIGHTS) as weights:
            status = os.fstat(weights.fileno())
        return status.st_ino, status.st_mtime_ns

    def delete(self, path: CheckpointPath) -> None:
        """Removes a checkpoint for good, a damaged one too.

        Raises:
            NotFound: it is not here.
        """
        place = self._place(path)
        if not place.is_dir():
            raise NotFound(f"path: there is no checkpoint {path}", next_step="see `/tinker checkpoints`")
        gone = place.with_name(f"{_HALF}{secrets.token_hex(6)}")
        place.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def update(self, path: CheckpointPath, **changes: Any) -> None:
        """Changes facts of a checkpoint: `public`, `expires_at`."""
        meta = self.folder(path) / META
        write_private(meta, _json(msgspec.to_builtins(_read(meta, _Meta)) | changes))

    def describe(self, path: CheckpointPath) -> dict[str, Any]:
        """A checkpoint as the API tells about it."""
        return _described(path, self.folder(path), _read(self.folder(path) / META, _Meta))

    def of_run(self, run: str) -> list[dict[str, Any]]:
        """The checkpoints of a run, oldest first; damaged ones are left out."""
        found = []
        for kind in KINDS:
            for folder in _folders(self.root / run / kind):
                if (facts := _readable(folder / META, _Meta)) is not None and not facts.expired:
                    found.append(_described(CheckpointPath(run, kind, folder.name), folder, facts))
        return sorted(found, key=lambda checkpoint: str(checkpoint["time"]))

    def all(self) -> list[dict[str, Any]]:
        """The checkpoints of all runs, latest run first."""
        return [checkpoint for run in self.runs() for checkpoint in self.of_run(run)]

    def run(self, run: str) -> dict[str, Any]:
        """What `save_run` wrote.

        Raises:
            NotFound: there is no such run, or its file is damaged.
        """
        if not _NAME.fullmatch(run):
            raise NotFound(f"training_run_id: there is no run {run!r}")
        return msgspec.structs.asdict(_read(_unlinked(self.root / run) / "run.json", _Run))

    def runs(self) -> list[str]:
        """The names of all runs, latest first; damaged ones are left out."""
        files = [file for run in _folders(self.root) if _readable(file := run / "run.json", _Run) is not None]
        files.sort(key=lambda file: file.stat().st_mtime_ns, reverse=True)
        return [file.parent.name for file in files]

    def _put(self, temporary: Path, place: Path) -> None:
        """Renames; what was in the way is removed only when the new one is in its place."""
        old = place.with_name(f"{_OLD}{place.name}")
        if place.exists():
            place.rename(old)
        try:
            temporary.rename(place)
        except OSError:
            if old.exists():
                old.rename(place)
            raise
        shutil.rmtree(old, ignore_errors=True)

    def _place(self, path: CheckpointPath) -> Path:
        return _unlinked(_unlinked(_unlinked(self.root / path.run) / path.kind) / path.name)

    def _every(self) -> Iterator[Path]:
        """The folders of all checkpoints, those that are half written or being replaced too."""
        for run in _folders(self.root):
            for kind in KINDS:
                yield from _folders(run / kind, hidden=True)


def _unlinked(folder: Path) -> Path:
    """The folder, which need not be there, but is no link.

    Raises:
        NotFound: it is one.
    """
    if folder.is_symlink():
        raise NotFound(f"path: {folder} is a symbolic link; it was not followed", next_step=f"remove {folder}")
    return folder


def _described(path: CheckpointPath, folder: Path, meta: _Meta) -> dict[str, Any]:
    with os.scandir(folder) as entries:
        size = sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    return {
        "checkpoint_id": f"{path.kind}/{path.name}",
        "checkpoint_type": KINDS[path.kind],
        "time": meta.time,
        "tinker_path": str(path),
        "size_bytes": size,
        "public": meta.public,
        "user_metadata": meta.user_metadata,
        "expires_at": meta.expires_at.isoformat() if meta.expires_at else None,
    }


def _folders(parent: Path, *, hidden: bool = False) -> list[Path]:
    """The folders in it, those whose names begin with a dot only if asked, links never; none if there is no parent."""
    try:
        with os.scandir(parent) as entries:
            found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    if parent.is_symlink():
        return []
    return [parent / name for name in found if hidden or not name.startswith(".")]


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(read_private(path), type=kind)
    except (OSError, ValueError, RecursionError) as error:  # ValueError is msgspec's, too
        if isinstance(error.__cause__, FileNotFoundError):
            raise NotFound(f"there is no {path.parent.name!r} here") from error
        raise NotFound(f"{path.parent.name}/{path.name} is damaged: {error}", next_step="delete it") from error


def _readable(path: Path, kind: type[_T]) -> _T | None:
    try:
        return _read(path, kind)
    except NotFound:
        return None


def expiry(ttl_seconds: int | None) -> str | None:
    """The moment `ttl_seconds` from now, as the API writes it; None stays None."""
    return None if ttl_seconds is None else (_now() + timedelta(seconds=ttl_seconds)).isoformat()


def fingerprint(data: bytes) -> str:
    """SHA-256 (hex) of a file; of the weights it is what a chat answer names as its `system_fingerprint`."""
    return hashlib.sha256(data).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1).encode()
