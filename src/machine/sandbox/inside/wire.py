"""The two frames that pass the wall, and the job's files laid where they belong."""

import json
import os
from pathlib import Path
from typing import Any


def read_frame(descriptor: int) -> tuple[dict[str, Any], bytes]:
    """The head and the bytes after it, of which `head["size"]` says how many."""
    head = json.loads(_exactly(descriptor, int.from_bytes(_exactly(descriptor, 8), "big")))
    return head, _exactly(descriptor, head["size"])


def _exactly(descriptor: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(descriptor, min(size - len(parts), 1 << 20))
        if not part:
            raise SystemExit("the job was cut off")
        parts += part
    return bytes(parts)


def write_begun(descriptor: int) -> None:
    """Says that the command is about to start: see `machine.sandbox.frame.BEGUN`."""
    os.write(descriptor, b"\x01")


def write_frame(descriptor: int, head: dict[str, Any], parts: list[bytes]) -> None:
    """Writes head and parts."""
    data = json.dumps(head, ensure_ascii=False).encode()
    for part in (len(data).to_bytes(8, "big"), data, *parts):
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view) :]


def lay(root: Path, files: list[list[Any]], blob: bytes) -> None:
    """Writes the job's files; `files` are [path under root, size in bytes, mode], contents in a row in `blob`."""
    for folder in ("work", "home"):
        (root / folder).mkdir()
    at = 0
    for name, size, mode in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(blob[at : at + size])
            os.fchmod(out.fileno(), mode)
        at += size
