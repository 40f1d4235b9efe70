"""A box made by a Docker engine on this machine: an image of nothing, made once, and this machine's programs in it.

Nothing is pulled. The engine must run on this Linux: elsewhere a container runs another system, in which this machine's
Node, Python and Pi do not run.
"""

import functools
import hashlib
import io
import os
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from machine.errors import Refused
from machine.sandbox import frame, running
from machine.sandbox.job import MIB, PORT, TEMPORARY, Ended, Job, Limits, Outcome
from machine.sandbox.view import ROOM, RUN, SOCKET, TOP, View, first_process, view

NOBODY = 65534
_SLACK = 64 * MIB
_TALK = 30.0
"""Seconds that the engine may take to answer."""
_FOLDERS = ("proc", "sys", "dev", "etc", "tmp", "run", "usr", ROOM.strip("/"))


class Docker:
    """Runs jobs in containers of the local engine."""

    name = "docker"

    def run(self, job: Job) -> Outcome:
        """Runs the job to its end; the container is removed.

        Raises:
            Refused: there is no engine here that can run this machine's programs.
            BrokenBox: the container did not start.
        """
        image = prepare()
        name = f"machine-box-{secrets.token_hex(6)}"
        user = user_of_box()
        place = frame.Place(
            ROOM, TEMPORARY, (ROOM, TEMPORARY, "/dev/shm"), socket=SOCKET if job.door else "", port=PORT
        )
        with running.private_folder() as folder:
            return running.run(
                job,
                folder,
                self.name,
                lambda: running.Plan(
                    command(name, image, view(job, folder, user), user, job.limits),
                    place,
                    _env(),
                    lambda: _met(name),
                    lambda: _remove(name),
                ),
            )


def prepare() -> str:
    """The name of the image, made now where it is not there yet.

    Raises:
        Refused: no client, no engine, or an engine of another system.
    """
    if sys.platform != "linux":
        raise Refused(
            "Docker here runs another system, which cannot run this machine's programs", next_step="use Linux"
        )
    system = _docker(["info", "--format", "{{.OSType}} {{.ServerVersion}}"])
    if not system.startswith("linux "):
        raise Refused("the Docker engine is not one for Linux", next_step="start Docker on this machine")
    layers = root_layer()
    image = f"machine-box:{hashlib.sha256(layers).hexdigest()[:12]}"
    if not _docker(["image", "ls", "--quiet", image]).strip():
        _docker(["import", "-", image], layers)
    return image


def root_layer() -> bytes:
    """A tar with the empty folders that things are mounted on, and the host's own links in `/`."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in _FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name in (n for n in TOP if Path("/", n).is_symlink()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, str(Path("/", name).readlink())
            tar.addfile(entry)
    return out.getvalue()


def user_of_box() -> int:
    """This user, so that its own programs can be read; for root nobody, who owns nothing."""
    return os.getuid() or NOBODY


def command(name: str, image: str, shown: View, user: int, limits: Limits) -> list[str]:
    """The command line of one container, named so that it can be asked about and removed."""
    memory = limits.memory + 3 * limits.disk + 2 * limits.output + _SLACK
    tmpfs = f"rw,exec,nosuid,nodev,mode=0755,uid={user},gid={user},size={limits.disk + MIB}"
    words = ["docker", "run", "--interactive", "--sig-proxy=false", "--name", name, "--hostname", "box"]
    words += ["--network", "none", "--ipc", "private", "--read-only", "--log-driver", "none", "--pull", "never"]
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", f"{user}:{user}"]
    words += ["--memory", str(memory), "--memory-swap", str(memory), "--pids-limit", str(8 * limits.processes + 16)]
    words += ["--shm-size", str(limits.disk + MIB), "--tmpfs", f"{ROOM}:{tmpfs}", "--tmpfs", f"{TEMPORARY}:{tmpfs}"]
    for source, place in shown.binds:
        if "," in source + place or '"' in source + place:
            raise Refused(f"{source} cannot be shown in Docker: its name has a comma or a quote",
                          next_step="move it, or use bubblewrap")  # fmt: skip
        words += ["--mount", f"type=bind,source={source},target={place},readonly"]
    for mask in shown.masks:
        words += ["--tmpfs", f"{mask}:ro,size=4096"]
    return [*words, "--workdir", ROOM, image, *first_process(RUN)]


def _met(name: str) -> Ended | None:
    return "memory" if _ask(name, "{{.State.OOMKilled}}") == "true" else None


def _ask(name: str, what: str) -> str:
    try:
        return _docker(["inspect", "--format", what, name]).strip()
    except Refused:
        return ""


def _remove(name: str) -> None:
    subprocess.run(["docker", "rm", "--force", "--volumes", name], capture_output=True, timeout=_TALK, env=dict(_env()))


def _docker(words: list[str], data: bytes | None = None) -> str:
    try:
        done = subprocess.run(
            ["docker", *words], input=data, stdin=None if data is not None else subprocess.DEVNULL,
            capture_output=True, timeout=_TALK, env=dict(_env()),
        )  # fmt: skip
    except FileNotFoundError as error:
        raise Refused("docker is not installed", next_step="install Docker and start it") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"Docker does not answer in {_TALK:.0f} s", next_step="start Docker again") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise Refused(f"Docker refuses: {lines[-1][:300]}", next_step="start Docker on this machine")
    return done.stdout.decode(errors="replace")


@functools.cache
def _kept_names() -> tuple[str, ...]:
    return ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH",
            "DOCKER_TLS_VERIFY")  # fmt: skip


def _env() -> Mapping[str, str]:
    """What the client may know; the container gets none of it."""
    return {name: os.environ[name] for name in _kept_names() if name in os.environ}
