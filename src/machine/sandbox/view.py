"""What a box shows of the host, all of it read-only: system programs, the base Python, a made-up `/etc`, the job's own.

The one list that bubblewrap and Docker both build their file systems from.
"""

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from machine.sandbox.job import HOME, Job

PROGRAM = Path(__file__).with_name("inside")
"""The folder of the first process's program."""
RUN = "/run/machine"
INSIDE, SOCKET = f"{RUN}/inside", f"{RUN}/model.sock"
_START = "import sys; sys.path.insert(0, sys.argv[1]); from inside.main import main; main()"
TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SHOWN_ETC = ("/etc/ld.so.cache", "/etc/alternatives")
ROOM = "/box"
"""The folder of the work and the home."""


@dataclass(frozen=True)
class View:
    """`binds` are (host path, path in the box); `links` (name in /, target); `masks` are folders shown empty."""

    binds: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]
    masks: tuple[str, ...]


def view(job: Job, folder: Path, uid: int) -> View:
    """What the box of `job` shows; writes the made-up `/etc` into the private `folder`, where the socket lies too."""
    tops = [Path("/", name) for name in TOP]
    binds = [("/usr", "/usr"), *((str(p), str(p)) for p in tops if p.is_dir() and not p.is_symlink())]
    links = [(p.name, str(p.readlink())) for p in tops if p.is_symlink()]
    binds += [(path, path) for path in SHOWN_ETC if Path(path).exists()]
    binds += [(str(path), f"/etc/{path.name}") for path in _etc(folder, uid)]
    python, masks = base_python()
    binds += [(str(path), str(path)) for path in (*python, *job.visible) if not path.is_relative_to("/usr")]
    binds.append((str(PROGRAM), INSIDE))
    if job.door:
        binds.append((str(folder / "model.sock"), SOCKET))
    return View(tuple(dict.fromkeys(binds)), tuple(links), tuple(str(m) for m in masks))


def interpreter() -> str:
    """The base Python's program: the one that a virtual environment was made from."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def first_process(folder: str) -> list[str]:
    """The command line of the first process, whose program lies in `folder`: a bare Python, its own library alone."""
    return [interpreter(), "-I", "-S", "-B", "-c", _START, folder]


def base_python() -> tuple[list[Path], list[Path]]:
    """What the base Python needs to run (empty where it is the system's), and its folders of installed packages."""
    program, library = Path(interpreter()), Path(sysconfig.get_path("stdlib")).resolve()
    if program.is_relative_to("/usr") and library.is_relative_to("/usr"):
        return [], []
    shown = [program, library]
    shown += [p for p in library.parent.glob("lib*.so*") if p.is_file()]
    return shown, [p for p in (library / "site-packages", library / "dist-packages") if p.is_dir()]


def _etc(folder: Path, uid: int) -> list[Path]:
    texts = {
        "passwd": f"box:x:{uid}:{uid}:box:{HOME}:/bin/sh\n",
        "group": f"box:x:{uid}:\n",
        "hosts": "127.0.0.1 localhost\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    (folder / "etc").mkdir(mode=0o755)
    paths = []
    for name, text in texts.items():
        paths.append(folder / "etc" / name)
        paths[-1].write_text(text)
        paths[-1].chmod(0o644)
    return paths
