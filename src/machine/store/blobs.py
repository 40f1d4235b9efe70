"""Blobs: images of a project, each kept once under the hash of its bytes, which rows name in place of the bytes."""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from machine.errors import StoreError
from machine.store.files import explained, private_folder, write_private


class Blobs:
    """The images in `folder`, as `<first two hex digits>/<SHA-256>`. Nothing is made until something is put in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, images: Iterable[bytes]) -> list[str]:
        """Keeps images, durably, each unless it is there, and returns the SHA-256 of each one's bytes in hex.

        Raises:
            StoreError: one could not be written.
        """
        return [self._put(data) for data in images]

    def get(self, name: str) -> bytes:
        """The image of that hash.

        Raises:
            StoreError: there is none, or its bytes have changed.
        """
        if not re.fullmatch("[0-9a-f]{64}", name):
            raise StoreError(f"{name!r} is not the hash of an image", next_step="machine tagged")
        path = self._path(name)
        with explained(path):
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != name:
            raise StoreError(f"{path} was changed: its bytes no longer have its hash", next_step=f"remove {path}")
        return data

    def _put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        path = self._path(name)
        private_folder(self.folder)
        private_folder(path.parent)
        with explained(path):
            there = path.exists() and path.lstat().st_size == len(data)
        if not there:
            write_private(path, data)
        return name

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name
