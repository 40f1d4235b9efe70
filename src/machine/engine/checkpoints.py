"""Checkpoints on disk: `<root>/<run>/<kind>/<name>/`, named `tinker://<run>/<kind>/<name>` on the wire.

A checkpoint is a PEFT adapter folder (`adapter_config.json`, `adapter_model.safetensors`), with the optimiser's state
(`optimizer.safetensors`) where training is to go on, and `checkpoint.json` for what the API tells about it. It is
written to a temporary folder beside its place and renamed: a crash leaves the whole of it or nothing. No pickle.
"""

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from machine.engine.faults import Fault, NotFound
from machine.store.files import private_folder, sync_folder, write_private

KINDS = {"weights": "training", "sampler_weights": "sampler", "external_weights": "external"}
"""Kind in the path, and what the API calls it."""
WEIGHTS, CONFIG, OPTIMIZER, META = (
    "adapter_model.safetensors",
    "adapter_config.json",
    "optimizer.safetensors",
    "checkpoint.json",
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")


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


class Checkpoints:
    """The checkpoints folder. Every method may be called from any thread; the file system is the only state.

    Opening it removes what a crash left half written, and checkpoints whose time is over.
    """

    def __init__(self, root: Path) -> None:
        self.root = private_folder(root)
        found = [meta for meta in root.glob(f"*/*/[!.]*/{META}") if _readable(meta)]
        expired = [meta.parent for meta in found if self._expired(meta.parent)]
        for stale in (*root.glob("*/*/.tmp-*"), *expired):
            shutil.rmtree(stale, ignore_errors=True)

    def save(self, path: CheckpointPath, files: CheckpointFiles, meta: Mapping[str, Any]) -> None:
        """Writes a checkpoint; one of the same name is replaced."""
        place = self._place(path)
        parent = private_folder(place.parent)
        temporary = private_folder(parent / f".tmp-{secrets.token_hex(6)}")
        try:
            write_private(temporary / CONFIG, files.config)
            write_private(temporary / WEIGHTS, files.weights)
            if files.optimizer is not None:
                write_private(temporary / OPTIMIZER, files.optimizer)
            write_private(temporary / META, _json({"time": _now().isoformat(), **meta}))
            if place.exists():
                old = parent / f".tmp-{secrets.token_hex(6)}"
                place.rename(old)
                temporary.rename(place)
                shutil.rmtree(old, ignore_errors=True)
            else:
                temporary.rename(place)
            sync_folder(parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def save_run(self, run: str, facts: Mapping[str, Any]) -> None:
        """Writes what the API tells about a training run."""
        write_private(private_folder(self.root / run) / "run.json", _json({**facts, "time": _now().isoformat()}))

    def read(self, path: CheckpointPath, *, optimizer: bool = False) -> CheckpointFiles:
        """Reads a checkpoint, its optimiser state too if asked.

        Raises:
            NotFound: it is not here, or holds no optimiser state.
        """
        folder = self.folder(path)
        state = None
        if optimizer:
            if not (folder / OPTIMIZER).is_file():
                raise NotFound(f"path: {path} holds no optimiser state", next_step="load it without the optimiser")
            state = (folder / OPTIMIZER).read_bytes()
        return CheckpointFiles((folder / CONFIG).read_bytes(), (folder / WEIGHTS).read_bytes(), state)

    def folder(self, path: CheckpointPath) -> Path:
        """Where a checkpoint lies.

        Raises:
            NotFound: it is not here, or has expired.
        """
        folder = self._place(path)
        if not (folder / META).is_file() or self._expired(folder):
            raise NotFound(f"path: there is no checkpoint {path}", next_step="see `/tinker checkpoints`")
        return folder

    def version(self, path: CheckpointPath) -> tuple[int, int]:
        """Changes whenever the weights of a checkpoint do."""
        try:
            status = (self.folder(path) / WEIGHTS).stat()
        except OSError as error:
            raise NotFound(f"path: the weights of {path} are gone", next_step="delete the checkpoint") from error
        return status.st_ino, status.st_mtime_ns

    def delete(self, path: CheckpointPath) -> None:
        """Removes a checkpoint for good."""
        place = self.folder(path)
        gone = place.with_name(f".tmp-{secrets.token_hex(6)}")
        place.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def update(self, path: CheckpointPath, **changes: Any) -> None:
        """Changes facts of a checkpoint: `public`, `expires_at`."""
        folder = self.folder(path)
        write_private(folder / META, _json(_read(folder / META) | changes))

    def describe(self, path: CheckpointPath) -> dict[str, Any]:
        """A checkpoint as the API tells about it."""
        folder = self.folder(path)
        meta = _read(folder / META)
        return {
            "checkpoint_id": f"{path.kind}/{path.name}",
            "checkpoint_type": KINDS[path.kind],
            "time": meta["time"],
            "tinker_path": str(path),
            "size_bytes": sum(file.stat().st_size for file in folder.iterdir()),
            "public": meta.get("public", False),
            "user_metadata": meta.get("user_metadata"),
            "expires_at": meta.get("expires_at"),
        }

    def of_run(self, run: str) -> list[dict[str, Any]]:
        """The checkpoints of a run, oldest first."""
        found = [self.describe(path) for path in self._paths(run)]
        return sorted(found, key=lambda checkpoint: str(checkpoint["time"]))

    def run(self, run: str) -> dict[str, Any]:
        """What `save_run` wrote.

        Raises:
            NotFound: there is no such run, or its file is damaged.
        """
        if not _NAME.fullmatch(run):
            raise NotFound(f"training_run_id: there is no run {run!r}")
        return _read(self.root / run / "run.json")

    def runs(self) -> list[str]:
        """The names of all runs, latest first; damaged ones are left out."""
        files = [file for file in self.root.glob("*/run.json") if _readable(file)]
        files.sort(key=lambda file: file.stat().st_mtime_ns, reverse=True)
        return [file.parent.name for file in files]

    def _paths(self, run: str) -> Iterator[CheckpointPath]:
        for kind in KINDS:
            for meta in (self.root / run / kind).glob(f"[!.]*/{META}"):
                if _readable(meta) and not self._expired(meta.parent):
                    yield CheckpointPath(run, kind, meta.parent.name)

    def _place(self, path: CheckpointPath) -> Path:
        return self.root / path.run / path.kind / path.name

    def _expired(self, folder: Path) -> bool:
        until = _read(folder / META).get("expires_at")
        return until is not None and datetime.fromisoformat(until) < _now()


def _read(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise NotFound(f"there is no {path.parent.name!r} here") from error
    except (OSError, ValueError) as error:
        raise NotFound(f"{path} is damaged: {error}", next_step=f"remove {path.parent}") from error
    if not isinstance(facts, dict):
        raise NotFound(f"{path} is damaged: it is no JSON object", next_step=f"remove {path.parent}")
    return facts


def _readable(path: Path) -> bool:
    try:
        return bool(_read(path))
    except NotFound:
        return False


def expiry(ttl_seconds: int | None) -> str | None:
    """The moment `ttl_seconds` from now, as the API writes it; None stays None."""
    return None if ttl_seconds is None else (_now() + timedelta(seconds=ttl_seconds)).isoformat()


def fingerprint(weights: bytes) -> str:
    """SHA-256 (hex) of a weights file: what a chat answer names as its `system_fingerprint`."""
    return hashlib.sha256(weights).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1).encode()
