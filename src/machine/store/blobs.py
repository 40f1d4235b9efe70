"""Blobs: images of a project, each kept once under the hash of its bytes, which rows name in place of the bytes."""

import contextlib
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from machine.errors import StoreError
from machine.store.files import explained, private_folder, read_private, write_private
from machine.store.wipe import wipe, wipe_strays


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

    @contextlib.contextmanager
    def holding(self, images: Collection[bytes]) -> Iterator[None]:
        """Keeps images while rows that name them are written, and looks after them again when they are.

        Who erases images does so under the pool's lock, of those that no row names: between the first look and the
        rows, one that lay there already can go.

        Raises:
            StoreError: one could not be written.
        """
        self.keep(images)
        yield
        self.keep(images)

    def get(self, name: str) -> bytes:
        """The image of that hash.

        Raises:
            StoreError: there is none, or its bytes have changed.
        """
        path = self._path(name)
        data = read_private(path)
        if hashlib.sha256(data).hexdigest() != name:
            raise StoreError(f"{path} was changed: its bytes no longer have its hash", next_step=f"remove {path}")
        return data

    def erase(self, names: Iterable[str]) -> int:
        """Overwrites and removes images, and what a crash left of their writing; returns how many there were.

        The caller holds the pool's lock, and sees to it that no row names them (`Pool.names_blobs`).

        Raises:
            StoreError: one could not be overwritten, or a name is not the hash of an image.
        """
        count = 0
        for path in map(self._path, names):
            wipe_strays(path)
            count += wipe(path)
        return count

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
        if not re.fullmatch("[0-9a-f]{64}", name):
            raise StoreError(f"{name!r} is not the hash of an image", next_step="machine tagged")
        return self.folder / name[:2] / name
