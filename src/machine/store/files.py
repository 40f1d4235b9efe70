"""Private files: 0700 folders, 0600 files whatever the umask, replaced whole or not at all.

`write_private` writes a temporary file in the same folder (O_EXCL, never through a link), syncs it, renames it over the
target and syncs the folder: a crash leaves the old bytes or the new ones, at worst a stray `.tmp-*` beside them. A
link, a file with a second name, or another user's file or folder in the way is refused instead of followed, wherever it
lies below Machine's home; what is asked of the folders above is in `owners`.
"""

import contextlib
import datetime
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from machine.errors import StoreError
from machine.home import machine_home
from machine.store.owners import closable, own_file, own_folder, safe_parents

FOLDER_MODE = 0o700
FILE_MODE = 0o600
LOCK_SECONDS = 30.0
_POLL_SECONDS = 0.01
"""How often a held lock is asked for: a holder is done in milliseconds."""
_READS = 9
"""How often a file is read that was replaced meanwhile: its old bytes may be overwritten (`machine.store.wipe`)."""
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""A pipe in the way is opened at once, and refused; a file knows no difference."""


def private_folder(path: Path) -> Path:
    """Makes `path` (and missing parents) a folder of mode 0700 and returns it.

    Raises:
        StoreError: a link, a file, or another user's folder is in the way, somebody else could change the folders
            above, or it cannot be made.
    """
    with explained(path):
        missing = [path, *path.parents]
        missing = missing[: next(i for i, p in enumerate(missing) if p.exists() or p.is_symlink())]
        if missing:
            safe_parents(missing[-1].parent)
        for folder in reversed(missing):
            folder.mkdir(FOLDER_MODE, exist_ok=True)
            folder.chmod(FOLDER_MODE)
            sync_folder(folder.parent)
        _own_folders(path)
    return path


def _inside(path: Path, *, reading: bool) -> None:
    """Refuses a file below Machine's home whose folder is not private; a file elsewhere is its user's matter."""
    if path.is_relative_to(machine_home()):
        _own_folders(path.parent, reading=reading)


def _own_folders(path: Path, *, reading: bool = False) -> None:
    """Refuses a folder that is not private, or lies in one that is not; mends the mode of those that are the user's.

    Looked at are the folders from Machine's home down, or `path` alone where it lies elsewhere, and what is above.
    """
    home = machine_home()
    inside = path.relative_to(home).parts if path.is_relative_to(home) else ()
    folder = home if path.is_relative_to(home) else path
    safe_parents(folder.parent)
    for name in ("", *inside):
        folder = folder / name
        status = folder.lstat()
        own_folder(folder, status)
        if stat.S_IMODE(status.st_mode) & 0o077:
            closable(folder)
            with _if_possible(reading):
                folder.chmod(FOLDER_MODE)


def _if_possible(reading: bool) -> contextlib.AbstractContextManager[None]:
    """Around a change of mode: what is only read may lie where nothing can be changed."""
    return contextlib.suppress(OSError) if reading else contextlib.nullcontext()


def open_private(path: Path, flags: int) -> int:
    """Opens a file of mode 0600 and returns its descriptor.

    Raises:
        StoreError: it is a link, a folder, another user's or of a second name, or it lies below Machine's home in a
            folder that is not private, or it cannot be opened.
    """
    reading = flags & os.O_ACCMODE == os.O_RDONLY
    with explained(path):
        _inside(path, reading=reading)
        descriptor = os.open(path, flags | os.O_CLOEXEC | _NO_FOLLOW | _NO_WAIT, FILE_MODE)
        try:
            status = os.fstat(descriptor)
            own_file(path, status)
            mode = stat.S_IMODE(status.st_mode)
            if mode & ~FILE_MODE or (mode != FILE_MODE and not reading):
                with _if_possible(reading):
                    os.fchmod(descriptor, FILE_MODE)
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def read_private(path: Path) -> bytes:
    """The bytes of a private file.

    Raises:
        StoreError: as `open_private`; its cause is a FileNotFoundError where there is no such file.
    """
    with explained(path):
        for _ in range(_READS):
            with open(open_private(path, os.O_RDONLY), "rb") as file:
                data = file.read()
                if os.fstat(file.fileno()).st_nlink:
                    break
    return data


def is_private(path: Path) -> bool:
    """Whether a private file is there, for readers that open it themselves.

    Raises:
        StoreError: what is there is no regular file, another user's, or of a second name, or lies in such a folder.
    """
    with explained(path):
        try:
            _inside(path, reading=True)
            status = path.lstat()
        except FileNotFoundError:
            return False
        own_file(path, status)
    return True


def write_private(path: Path, data: bytes) -> None:
    """Replaces `path` with `data`, atomically and durably."""
    if path.is_symlink():
        raise StoreError(f"{path} is a symbolic link; it was not written through", next_step=f"remove {path}")
    temporary = path.with_name(f".tmp-{path.name}-{secrets.token_hex(4)}")
    descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with explained(path):
            try:
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.replace(path)
            sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def append_line(
    path: Path,
    line: bytes,
    *,
    cut_torn: bool = False,
    torn: Path | None = None,
    is_whole: Callable[[bytes], bool] = lambda tail: False,
) -> None:
    """Appends one line (its LF is added) and syncs; for small logs that one process at a time writes.

    A line that cannot be written whole is cut off again. What a crash left of a line is moved to the file `torn`, where
    one is given, or cut off with `cut_torn`, so that it cannot spoil this one; a last line that only lacks its LF, as
    `is_whole` says, stays.
    """
    descriptor = open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        with explained(path):
            size, tail = torn_tail(descriptor)
            if tail and is_whole(tail):
                line = b"\n" + line
            elif tail and torn is not None:
                size = set_aside(descriptor, tail, torn)
            elif tail and cut_torn:
                size -= len(tail)
                os.ftruncate(descriptor, size)
            if not size:
                sync_folder(path.parent)
            write_or_cut(descriptor, line + b"\n", size)
    finally:
        os.close(descriptor)


def set_aside(descriptor: int, tail: bytes, torn: Path) -> int:
    """Moves the last bytes of a file, which are `tail`, to the file `torn`; returns the size in bytes that is left."""
    stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    append_line(torn, f"# set aside {stamp}\n".encode() + tail)
    size = os.fstat(descriptor).st_size - len(tail)
    os.ftruncate(descriptor, size)
    return size


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a file that end; none where there is no file.

    Raises:
        StoreError: it cannot be read.
    """
    return read_private(path).split(b"\n")[:-1] if is_private(path) else []


def torn_tail(descriptor: int) -> tuple[int, bytes]:
    """The file's size in bytes, and what comes after its last LF."""
    size = keep = os.fstat(descriptor).st_size
    chunks: list[bytes] = []
    while keep:
        step = min(keep, 65536)
        chunk = os.pread(descriptor, step, keep - step)
        cut = chunk.rfind(b"\n") + 1
        chunks.append(chunk[cut:])
        if cut:
            break
        keep -= step
    return size, b"".join(reversed(chunks))


def write_or_cut(descriptor: int, data: bytes, size: int) -> None:
    """Writes and syncs `data` after the first `size` bytes of a file; what fails is cut off again."""
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def write_all(descriptor: int, data: bytes) -> None:
    """Writes every byte; a short write goes on where it stopped."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Makes a rename or a new name in `folder` survive a power cut, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Holds the lock file `lock`, alone among processes and threads; a process that dies lets go of it.

    Who takes the lock sets the file's times, so that those who wait know one that is held from one that goes round.

    Raises:
        StoreError: another holds it for longer than `LOCK_SECONDS`, or it cannot be locked.
    """
    from filelock import FileLock, Timeout

    os.close(open_private(lock, os.O_RDWR | os.O_CREAT))
    held = FileLock(lock, timeout=LOCK_SECONDS, mode=FILE_MODE)
    with explained(lock):
        taken = 0
        while not held.is_locked:
            before, taken = taken, lock.stat().st_atime_ns
            if before == taken:
                raise StoreError(
                    f"{lock} has been held by another process for {LOCK_SECONDS:.0f} s",
                    next_step="wait for the other Machine process, then run the command again",
                )
            with contextlib.suppress(Timeout):
                held.acquire(poll_interval=_POLL_SECONDS)
    try:
        with contextlib.suppress(OSError):
            os.utime(lock)
        yield
    finally:
        with explained(lock):
            held.release()


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the system's error about `path` into a StoreError with a next step."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}", next_step=_mend(error, path)) from error


def _mend(error: OSError, path: Path) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"free space on the disk that holds {path.parent}, then run the command again"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"make {path.parent} writable for you, or set MACHINE_DATA_DIR to another folder"
        case errno.EIO | errno.EFBIG | errno.ESTALE | errno.ENOLCK | errno.EXDEV | errno.ENOSYS | errno.EOPNOTSUPP:
            return f"check the disk that holds {path.parent}, or set MACHINE_DATA_DIR to a folder on a local one"
        case errno.EISDIR | errno.ENOTDIR | errno.ENAMETOOLONG | errno.EINVAL:
            return "choose another file"
        case errno.ELOOP:
            return f"{path} is a symbolic link: remove it"
        case _:
            return "run `machine doctor`"
