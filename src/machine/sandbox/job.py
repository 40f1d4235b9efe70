"""What goes into a box and what comes out of it: limits, the model's door, the job, and its outcome."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

from machine.errors import Refused

MIB = 1 << 20
WORK = "/box/work"
"""The work folder, the command's current folder, in Docker and bubblewrap; `MACHINE_WORK` names it in every box."""
HOME = "/box/home"
TEMPORARY = "/tmp"
PORT = 8417
"""Where the model answers on 127.0.0.1 inside a box; without a box any free port, so read `MACHINE_MODEL_URL`."""

Ended = Literal["exited", "time", "memory", "processes", "disk", "output", "requests", "broken"]
_SHORTEST_SECRET = 8
"""Characters: a key shorter than this (a local server's "none") may well occur in a file by chance."""


@dataclass(frozen=True)
class Limits:
    """What a job may use before its box is ended.

    `seconds` is wall time; `memory` bytes of all processes together; `processes` how many at once (where the kernel
    counts, eight times as many threads); `disk` bytes in the work folder, the home and the temporary folders together;
    `file` bytes of the largest file; `output` bytes kept of each of stdout and stderr; `requests` how often the model
    may be asked.
    """

    seconds: float = 300.0
    memory: int = 2048 * MIB
    processes: int = 128
    disk: int = 64 * MIB
    file: int = 16 * MIB
    output: int = 8 * MIB
    requests: int = 200

    def __post_init__(self) -> None:
        bad = [name for name in vars(self) if not vars(self)[name] > 0 and name != "requests"]
        if bad or self.requests < 0:
            raise Refused(f"the box's limit {(bad or ['requests'])[0]} is not positive", next_step="give it a number")


@dataclass(frozen=True)
class Door:
    """The model endpoint: `url` is what stands before `/chat/completions`; `key` never enters a box.

    Where `model` is given only that one can be asked, for one answer at a time of at most `tokens` tokens (0: as many
    as the service gives): what runs in a box could else have a better model do its work, or spend without bound.
    """

    url: str
    key: str = field(default="", repr=False)
    model: str = ""
    tokens: int = 0


@dataclass(frozen=True)
class Job:
    """A command and all that it may see.

    `files` and `home` map relative POSIX paths to contents, laid into the work folder and into the box's own HOME;
    `executable` names those of `files` with mode 0755 (others 0644); `visible` are host files and folders that can be
    read at the same path. `env` is added to a small environment (PATH, HOME, LANG, TMPDIR, MACHINE_WORK and, with a
    door, MACHINE_MODEL_URL), of which only PATH and LANG can be replaced.

    Raises:
        Refused: no command, a path that leaves its folder, a visible path that does not exist or would show a home or
            the whole disk, or the door's key in something that enters the box.
    """

    command: Sequence[str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    executable: Collection[str] = ()
    home: Mapping[str, bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    visible: Sequence[Path] = ()
    door: Door | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.command:
            raise Refused("a job for the sandbox has no command", next_step="name a program to run")
        for paths in (self.files, self.home):
            for path in paths:
                if not is_inside(path):
                    raise Refused(f"{path!r} is not a path inside the box's folder", next_step="use a relative path")
        for shown in self.visible:
            _check_visible(shown)
        _check_secret(self)


@dataclass(frozen=True)
class Request:
    """One question to the model: how long the answer took, its HTTP status, and tokens where the server counts them."""

    seconds: float
    status: int
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    `code` is the command's exit code, minus the signal's number where one ended it, None where the box was ended first;
    `ended` names the limit it met, or is `broken` where what ran broke the box, and no more is known. `stdout` and
    `stderr` are kept up to `Limits.output`. `files` are the regular files of the work folder afterwards; `odd` names
    what else lies there (links, devices, sockets, too large, too many), none of it followed. `refused` is what the
    relay turned away, as "GET /v1/models"; `box` is the box's name.
    """

    code: int | None
    ended: Ended
    stdout: bytes
    stderr: bytes
    files: Mapping[str, bytes]
    odd: tuple[str, ...]
    seconds: float
    requests: tuple[Request, ...]
    refused: tuple[str, ...]
    box: str


class Box(Protocol):
    """A way to run a job; `name` is "docker", "bubblewrap" or "none"."""

    name: str

    def run(self, job: Job) -> Outcome:
        """Runs the job to its end; nothing of it is left when this returns.

        Raises:
            Refused: this kind of box does not work on this machine; the message says why.
        """
        ...


def is_inside(path: str) -> bool:
    """Whether `path` is a plain relative POSIX path that stays in its folder, without control characters."""
    pure = PurePosixPath(path)
    plain = str(pure) == path and path not in ("", ".") and not pure.is_absolute() and ".." not in pure.parts
    return plain and path.isprintable() and len(path) <= 1024


def _check_visible(path: Path) -> None:
    home = Path.home()
    whole = Path(path.resolve())
    if not path.is_absolute() or not path.exists():
        raise Refused(f"{path} cannot be shown in the sandbox: there is no such file", next_step="give its whole path")
    if any(home == shown or home.is_relative_to(shown) for shown in (path, whole)):
        raise Refused(f"{path} would show your home in the sandbox", next_step="name the folder of the program alone")
    for folder in ("/box", "/proc", "/dev", "/sys", "/etc", "/run", "/var"):
        if any(Path(folder) == p or p.is_relative_to(folder) for p in (path, whole)):
            raise Refused(f"{path} cannot be shown in the sandbox", next_step=f"name a folder outside {folder}")


def _check_secret(job: Job) -> None:
    key = job.door.key if job.door else ""
    if len(key) < _SHORTEST_SECRET:
        return
    texts = [*job.command, *job.env, *job.env.values(), *job.files, *job.home]
    contents = [*job.files.values(), *job.home.values()]
    if any(key in text for text in texts) or any(key.encode() in data for data in contents):
        raise Refused(
            "the model endpoint's key stands in the job's command, environment or files",
            next_step="leave it out: the key is added outside the sandbox",
        )
