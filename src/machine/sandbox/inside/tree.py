"""What lies in the box: how much it is, and the work folder's files, read as the work of an enemy."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILES, ODD = 20_000, 1_000
"""How many files, and names of odd things, a result holds."""
INODES = 50_000
"""Files of any kind in the box's folders; more of them ends it as a full disk does."""
LONGEST = 1024
"""Characters of the longest path that a result holds."""


def use(mounts: list[str]) -> tuple[int, int]:
    """Bytes and files in the box's own file systems."""
    found = [os.statvfs(mount) for mount in mounts]
    return sum((s.f_blocks - s.f_bfree) * s.f_frsize for s in found), sum(s.f_files - s.f_ffree for s in found)


def weigh(root: Path) -> tuple[int, int]:
    """Bytes on disk and files under a folder, counted one by one."""
    size = count = 0
    for path in _walk(root):
        with contextlib.suppress(OSError):
            size += path.lstat().st_blocks * 512
            count += 1
        if count > INODES:
            break
    return size, count


def _walk(folder: Path, *, unlock: bool = False) -> Iterator[Path]:
    """All that lies under a folder on its own file system, but folders that can be listed; follows no link.

    With `unlock` folders are made readable first.
    """
    device = folder.lstat().st_dev
    stack = [folder]
    while stack:
        here = stack.pop()
        try:
            if unlock:
                here.chmod(0o700)
            names = sorted(path.name for path in here.iterdir())
        except OSError:
            yield here
            continue
        for path in (here / name for name in names):
            if _is_folder(path, device):
                stack.append(path)
            else:
                yield path


def _is_folder(path: Path, device: int) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_dev == device


def collect(work: Path, largest: int, most: int) -> tuple[list[list[Any]], list[bytes], list[str]]:
    """The work folder's regular files as [path, size] with their contents, and the names of what else there is."""
    found: list[list[Any]] = []
    contents: list[bytes] = []
    odd: list[str] = []
    left, uncounted = most, 0
    for path in _walk(work, unlock=True):
        name = str(path.relative_to(work))
        plain = name.isprintable() and len(name) <= LONGEST
        data = _regular(path, min(largest, left)) if plain and len(found) < FILES else None
        if data is not None:
            found.append([name, len(data)])
            contents.append(data)
            left -= len(data)
        elif len(odd) < ODD:
            odd.append(name if plain else ascii(name)[:LONGEST])
        else:
            uncounted += 1
    return found, contents, odd + ([f"... and {uncounted} more"] if uncounted else [])


def _regular(path: Path, most: int) -> bytes | None:
    """A regular file's bytes; None where it is something else, or larger than `most`."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        path.chmod(0o600)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        return file.read(status.st_size)
