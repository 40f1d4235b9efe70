"""Owners: who else could read or change what lies at a path, as far as its owner, mode and links say.

Private data lies in folders and files of this user alone: no link, no second name, nothing of another user's. The
folders above them belong to the user or to root, and nobody else may rename what lies in them: one that others may
write to has the sticky bit (as /tmp has), or is written by the user's own group of one. Links above Machine's own
folder are followed, where root or the user made them. Access lists (setfacl) are not looked at. Nothing is asked on
Windows.
"""

import functools
import os
import shlex
import stat
from pathlib import Path

from machine.errors import StoreError
from machine.home import user_home

_ASKED = hasattr(os, "getuid")
_LINKS = 40
"""So many links on the way to a folder, and the system gives up too."""


def own_file(path: Path, status: os.stat_result) -> None:
    """Refuses what is not a regular file of this user with one name; `status` is `lstat`'s or `fstat`'s.

    Raises:
        StoreError: with the path and what to do.
    """
    if stat.S_ISLNK(status.st_mode):
        raise StoreError(f"{path} is a symbolic link; Machine follows none", next_step=f"rm {_quoted(path)}")
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a regular file", next_step=f"move {path} away")
    _own(path, status)
    if status.st_nlink > 1 and _ASKED:
        raise StoreError(
            f"{path} has a second name (a hard link), through which it could be read or changed",
            next_step=f"find the other name (find ~ /tmp -xdev -inum {status.st_ino}) and remove it",
        )


def own_folder(path: Path, status: os.stat_result) -> None:
    """Refuses what is not a folder of this user alone; `status` is `lstat`'s.

    Raises:
        StoreError: with the path and what to do.
    """
    if not stat.S_ISDIR(status.st_mode):
        link = stat.S_ISLNK(status.st_mode)
        kind, away = ("a symbolic link", f"rm {_quoted(path)}") if link else ("not a folder", f"move {path} away")
        raise StoreError(
            f"{path} is {kind}; Machine keeps private data only in a folder of its own",
            next_step=f"{away}, or set MACHINE_DATA_DIR to another folder",
        )
    _own(path, status)
    if status.st_mode & stat.S_ISVTX and status.st_mode & 0o022:
        raise StoreError(f"{path} is a folder that users share", next_step=f"set MACHINE_DATA_DIR to one in {path}")


def closable(path: Path) -> None:
    """Refuses to close a folder to others that holds more than Machine's files: the user's home folder, or one above.

    Raises:
        StoreError: with the path and what to do.
    """
    home = user_home()
    wide = [Path(path.anchor), *((home, *home.parents) if home else ())]
    if any(each.exists() and each.samefile(path) for each in wide):
        raise StoreError(
            f"{path} holds more than Machine's files, and others may look into it",
            next_step=f"set MACHINE_DATA_DIR to a folder in {path}",
        )


@functools.cache
def safe_parents(folder: Path) -> None:
    """Refuses a folder in which another user could put something else in the place of what lies in it; asked once.

    Raises:
        StoreError: it, or a folder or link on the way to it, belongs to another user, or others may write to it.
        OSError: it is not there, or cannot be looked at.
    """
    if not _ASKED:
        return
    here, todo, links = Path(folder.anchor), list(folder.parts[1:]), 0
    _safe(here, os.lstat(here))
    while todo:
        name = todo.pop(0)
        if name == "..":
            here = here.parent
            continue
        status = os.lstat(here / name)
        _safe(here / name, status)
        if not stat.S_ISLNK(status.st_mode):
            here = here / name
            continue
        links += 1
        if links > _LINKS:
            raise StoreError(f"{here / name} leads in a circle of links", next_step=f"rm {_quoted(here / name)}")
        target = (here / name).readlink()
        here = Path(target.anchor) if target.is_absolute() else here
        todo[:0] = target.parts[1:] if target.is_absolute() else target.parts


def _safe(path: Path, status: os.stat_result) -> None:
    """Refuses a folder, or a link to one, that somebody but the user and root can change."""
    elsewhere = "set MACHINE_DATA_DIR to a folder of your own, below folders that are yours or root's"
    if status.st_uid not in _trusted():
        raise StoreError(f"{path}, above Machine's folder, belongs to another user", next_step=elsewhere)
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return
    everybody = bool(status.st_mode & 0o002)
    group = bool(status.st_mode & 0o020) and not _group_of_one(status.st_gid)
    if everybody or group:
        raise StoreError(
            f"{path}, above Machine's folder, may be written by {'everybody' if everybody else _group(status.st_gid)}",
            next_step=f"chmod {'g' * group}{'o' * everybody}-w {_quoted(path)}, or {elsewhere}",
        )


@functools.cache
def _trusted() -> frozenset[int]:
    """The user, root, and whom `/` belongs to: in a container without a root of its own, root has another number."""
    return frozenset({0, os.getuid(), os.lstat("/").st_uid})


@functools.cache
def _group_of_one(gid: int) -> bool:
    """Whether a group is the user's own: the first of the user's groups, of the same name, and nobody else in it."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _group(gid: int) -> str:
    import grp

    try:
        return f"the group {grp.getgrgid(gid).gr_name}"
    except KeyError:
        return f"the group {gid}"


def _own(path: Path, status: os.stat_result) -> None:
    if _ASKED and status.st_uid != os.getuid():
        raise StoreError(f"{path} belongs to another user", next_step="set MACHINE_DATA_DIR to a folder of your own")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
