"""Memory: a bound of our own, so that a request that is too large fails instead of the process.

Linux hands out more memory than there is and kills a process when it is used. `bound` makes the system refuse what is
beyond the memory that is free when the engine starts: torch raises an error, and `futures.failure` answers it.
"""

import sys
from pathlib import Path

SHARE = 0.9
"""Of the free memory; the rest is for those who come later."""


def bound(size: int | None = None) -> None:
    """Limits what this process may allocate from now on, on Linux, to `size` bytes; None is a share of what is free."""
    if not sys.platform.startswith("linux"):
        return
    import resource  # not everywhere

    size = int(SHARE * free()) if size is None else size
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _allocated() + size
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def free() -> int:
    """Bytes that can be had, swap included, on this machine and in this container."""
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    machine = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("MemAvailable:", "SwapFree:")))
    limit, used = (_number(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current"))
    return machine if limit is None or used is None else max(0, min(machine, limit - used))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):  # no such group, or "max"
        return None


def _allocated() -> int:
    """Bytes of private writable memory that this process has: what RLIMIT_DATA counts."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))
