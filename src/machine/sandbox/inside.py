"""The first process in a box: lays the files, runs the command, watches the limits, kills all that is left, reports.

Runs alone (`python -I -S inside.py`, standard library only, no other module of Machine in reach). On stdin comes a
frame (see `frame.py`) with the job, after it the control channel: the letter `r` ends the job because its requests are
used up, the end of the file because nobody listens any more. On stdout goes one frame with the result. The command
sees neither: its streams are pipes of its own, and this process cannot be traced, read or signalled by others in its
namespace, where it is process 1. Without a box (`isolated` false) it does what a process can do about its descendants.
"""

import contextlib
import ctypes
import json
import math
import os
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TURN = 0.05
"""Seconds between two looks at the limits."""
SLOTS = 32
"""Connections to the model at once."""
FILES, ODD = 20_000, 1_000
"""How many files, and names of odd things, a result holds."""
INODES = 50_000
"""Files of any kind in the box's folders; more of them ends it as a full disk does."""
LONGEST = 1024
_DUMPABLE, _SUBREAPER = 4, 36


def main() -> None:
    """Reads a job from stdin, runs it, writes its result to stdout."""
    _protect()
    head, blob = read_frame(0)
    if head["isolated"] and os.getpid() != 1:
        raise SystemExit("this is not the first process of a process namespace")
    lay(Path(head["root"]), head["files"], blob)
    env = dict(head["env"])
    listener = None
    if head["socket"]:
        listener = socket.create_server(("127.0.0.1", head["port"]), backlog=SLOTS)
        env["MACHINE_MODEL_URL"] = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    run = Run(head)
    if not run.isolated:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        run.start(head["command"], env)
        if listener is not None:
            threading.Thread(target=serve, args=(listener, head["socket"]), daemon=True).start()
        run.watch()
    finally:
        run.kill_all()
    found, contents, odd = collect(Path(head["root"]) / "work", head["limits"]["file"], head["limits"]["disk"])
    result = {"code": run.code, "ended": run.ended, "seconds": run.seconds, "files": found, "odd": odd,
              "stdout": len(run.kept[0]), "stderr": len(run.kept[1])}  # fmt: skip
    write_frame(1, result, [bytes(run.kept[0]), bytes(run.kept[1]), *contents])
    os._exit(0)


def _protect() -> None:
    """Takes from the command the ways to this process: tracing, its memory, its open files; adopts orphans."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_DUMPABLE, 0, 0, 0, 0) or libc.prctl(_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit(f"prctl: {os.strerror(ctypes.get_errno())}")


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


def serve(listener: socket.socket, path: str) -> None:
    """Joins each connection to the listener with one to the Unix socket `path`; beyond `SLOTS` it hangs up."""
    slots = threading.BoundedSemaphore(SLOTS)
    while True:
        near, _ = listener.accept()
        if not slots.acquire(blocking=False):
            near.close()
            continue
        try:
            threading.Thread(target=_join, args=(near, path, slots), daemon=True).start()
        except RuntimeError:
            near.close()
            slots.release()


def _join(near: socket.socket, path: str, slots: threading.BoundedSemaphore) -> None:
    try:
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(path)
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()
    except (OSError, RuntimeError):
        pass
    finally:
        slots.release()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


class Run:
    """One command under its limits: `code`, `ended`, `seconds` and the kept output once `watch` has returned."""

    def __init__(self, head: dict[str, Any]) -> None:
        self.isolated: bool = head["isolated"]
        self.folder, self.root = Path(head["root"]) / "work", Path(head["root"])
        self.mounts: list[str] = head["mounts"]
        self.limits: dict[str, Any] = head["limits"]
        self.kept = (bytearray(), bytearray())
        self.code: int | None = None
        self.ended = "exited"
        self.seconds = 0.0
        self._began = time.monotonic()
        self._pid = 0
        self._pipes: dict[int, bytearray] = {}

    def start(self, command: list[str], env: dict[str, str]) -> None:
        """Starts the command; one that cannot be started ends as a shell would say it, with code 127 or 126."""
        try:
            child = subprocess.Popen(
                command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, start_new_session=True, preexec_fn=self._bounds(),
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self.kept[1].extend(f"{command[0]}: {getattr(error, 'strerror', None) or error}\n".encode())
            self.code = 127 if isinstance(error, FileNotFoundError) else 126
            return
        assert child.stdout is not None
        assert child.stderr is not None
        self._pid = child.pid
        child.returncode = 0  # it is reaped here, with its orphans
        for pipe, kept in zip((child.stdout, child.stderr), self.kept, strict=True):
            copy = os.dup(pipe.fileno())
            os.set_blocking(copy, False)
            self._pipes[copy] = kept
            pipe.close()

    def _bounds(self) -> Callable[[], None]:
        """What the command's process does before it becomes the command: the limits that the kernel holds for it."""
        bounds = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: self.limits["file"],
            resource.RLIMIT_NOFILE: 1024,
            resource.RLIMIT_CPU: math.ceil(self.limits["seconds"]) * (os.cpu_count() or 1) + 1,
        }
        if not self.isolated:
            bounds[resource.RLIMIT_NPROC] = _tasks_of_user() + self.limits["tasks"]
        elif self.limits["tasks"] and _counts_by_namespace():
            bounds[resource.RLIMIT_NPROC] = self.limits["tasks"]

        def set_bounds() -> None:
            for kind, most in bounds.items():
                hard = resource.getrlimit(kind)[1]
                most = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(kind, (most, most))

        return set_bounds

    def watch(self) -> None:
        """Returns when the command has ended or met a limit, which `ended` then names."""
        looked = 0.0
        while self.code is None and self.ended == "exited":
            self._listen(TURN)
            self._reap()
            if time.monotonic() - looked >= TURN:
                self.ended = self._exceeded() if self.code is None else self.ended
                looked = time.monotonic()
        if self.ended == "exited" and self._pid and self._full():
            self.ended = "disk"
        self.seconds = time.monotonic() - self._began

    def _listen(self, seconds: float) -> None:
        ready, _, _ = select.select([0, *self._pipes], [], [], seconds)
        for descriptor in ready:
            if descriptor == 0:
                if os.read(0, 1) != b"r":
                    raise SystemExit("nobody listens any more")
                self.ended = "requests"
            else:
                self._take(descriptor)

    def _take(self, descriptor: int) -> bool:
        """Reads some output; whether there may be more. Output beyond the limit ends the job."""
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return False
        kept = self._pipes[descriptor]
        room = self.limits["output"] - len(kept)
        kept.extend(data[:room])
        if len(data) > room and self.ended == "exited":
            self.ended = "output"
        if not data:
            os.close(descriptor)
            del self._pipes[descriptor]
        return bool(data) and len(data) <= room

    def _reap(self) -> None:
        for _ in range(1000):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._pid and self.ended == "exited":
                self.code = os.waitstatus_to_exitcode(status)
                if self.code in (-signal.SIGXFSZ, -signal.SIGXCPU):
                    self.ended = "disk" if self.code == -signal.SIGXFSZ else "time"

    def _exceeded(self) -> str:
        limits = self.limits
        pids = list(self._processes())
        if time.monotonic() - self._began > limits["seconds"]:
            return "time"
        if len(pids) > limits["processes"]:
            return "processes"
        if sum(map(_memory, pids)) > limits["memory"]:
            return "memory"
        return "disk" if self._full() else self.ended

    def _full(self) -> bool:
        size, inodes = _use(self.mounts) if self.isolated else _weigh(self.root)
        return size >= self.limits["disk"] or inodes > INODES

    def _processes(self) -> Iterator[int]:
        """The ids of the box's other processes; without a box those of this one's descendants."""
        if not Path("/proc/self/stat").exists():
            return
        pids = {int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()} - {os.getpid()}
        if self.isolated:
            yield from pids
            return
        parents = {pid: _parent(pid) for pid in pids}
        known = {os.getpid()}
        while new := {pid for pid, parent in parents.items() if parent in known} - known:
            known |= new
            yield from new

    def kill_all(self) -> None:
        """Ends every process of the job and waits for them; then takes what output they had left."""
        if self._pid:
            for _ in range(200):
                if self._strike():
                    break
            for descriptor in list(self._pipes):
                while self._take(descriptor):
                    pass

    def _strike(self) -> bool:
        """One round of SIGKILL; whether nothing is left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL) if self.isolated else os.killpg(self._pid, signal.SIGKILL)
        for blow in () if self.isolated else (signal.SIGSTOP, signal.SIGKILL):
            for pid in self._processes():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, blow)
        time.sleep(0.005)
        self._reap()
        return next(self._processes(), None) is None


def _counts_by_namespace() -> bool:
    """Whether the kernel counts a user's processes by user namespace: older ones would count those outside too."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(filter(str.isdigit, minor)) or 0)) >= (5, 14)


def _tasks_of_user() -> int:
    tasks = 0
    for status in Path("/proc").glob("[0-9]*/task") if sys.platform == "linux" else ():
        with contextlib.suppress(OSError):
            tasks += len(list(status.iterdir())) if status.stat().st_uid == os.getuid() else 0
    return tasks or 512


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _memory(pid: int) -> int:
    """Bytes that a process alone answers for: private, shared in memory, swapped; not the programs it maps."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    except OSError:
        return 0
    return sum(int(n.split()[1]) * 1024 for n in lines if n.startswith((b"RssAnon", b"RssShmem", b"VmSwap")))


def _use(mounts: list[str]) -> tuple[int, int]:
    """Bytes and files in the box's own file systems."""
    found = [os.statvfs(mount) for mount in mounts]
    return sum((s.f_blocks - s.f_bfree) * s.f_frsize for s in found), sum(s.f_files - s.f_ffree for s in found)


def _weigh(root: Path) -> tuple[int, int]:
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
        return file.read(most)


if __name__ == "__main__":
    main()
