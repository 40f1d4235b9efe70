"""Small disk: a file system of a few pages that can be filled to the last of them.

A tmpfs where this user may mount one (bounded by its size); else a limit on the size of each file, which fails a write
half-way just the same, and says so in other words.
"""

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGE = os.sysconf("SC_PAGESIZE")
FULL = ("No space left", "File too large")
"""How the system words it: a full disk, and the limit that stands for it."""


class SmallDisk:
    """The disk at `folder`. `options` of `squeezed` are for `subprocess.Popen`."""

    def __init__(self, folder: Path, mounted: bool) -> None:
        self.folder, self.mounted = folder, mounted

    @contextlib.contextmanager
    def squeezed(self, pages: int) -> Iterator[dict[str, Any]]:
        """While it is open, so many pages are left on the disk (or for each file)."""
        if not self.mounted:
            limit = pages * PAGE
            yield {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))}
            return
        filler = self.folder / "filler"
        self.fill(filler, pages)
        try:
            yield {}
        finally:
            filler.unlink()

    def fill(self, filler: Path, pages: int) -> None:
        """Writes a file that leaves so many pages."""
        free = os.statvfs(self.folder)
        with filler.open("wb") as file:
            file.write(bytes(max(0, free.f_bavail * free.f_frsize - pages * PAGE)))


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    """A disk of `size` bytes at `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = False
    if sys.platform == "linux" and os.geteuid() == 0:
        words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)]
        mounted = subprocess.run(words, capture_output=True).returncode == 0
    try:
        yield SmallDisk(folder, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def sweep(disk: SmallDisk, attempt: Callable[[dict[str, Any]], bool], most: int = 40, step: int = 1) -> int:
    """Has something attempted with 0 pages left, then `step`, and so on, until it is done; with how many it was."""
    for pages in range(0, most, step):
        with disk.squeezed(pages) as options:
            if attempt(options):
                return pages
    raise AssertionError(f"it is not done with {most} pages either")
