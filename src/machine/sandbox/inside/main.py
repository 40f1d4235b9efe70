"""From the job on stdin to the result on stdout."""

import ctypes
import os
import signal
import sys
from pathlib import Path

from . import door, tree, wire
from .run import Run

_DUMPABLE, _SUBREAPER = 4, 36


def main() -> None:
    """Reads a job from stdin, runs it, writes its result to stdout."""
    _protect()
    head, blob = wire.read_frame(0)
    if head["isolated"] and os.getpid() != 1:
        raise SystemExit("this is not the first process of a process namespace")
    root, limits, env = Path(head["root"]), head["limits"], dict(head["env"])
    wire.lay(root, head["files"], blob)
    listener = None
    if head["socket"]:
        listener = door.listen(head["port"])
        env["MACHINE_MODEL_URL"] = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    run = Run(head)
    if not run.isolated:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wire.write_begun(1)
    try:
        run.start(head["command"], env)
        if listener is not None:
            door.serve(listener, head["socket"])
        run.watch()
    finally:
        run.end()
    found, contents, odd = tree.collect(root / "work", limits["file"], limits["disk"])
    result = {"code": run.code, "ended": run.ended, "seconds": run.seconds, "files": found, "odd": odd,
              "stdout": len(run.kept[0]), "stderr": len(run.kept[1])}  # fmt: skip
    wire.write_frame(1, result, [bytes(run.kept[0]), bytes(run.kept[1]), *contents])
    os._exit(0)


def _protect() -> None:
    """Takes from the command the ways to this process: tracing, its memory, its open files; adopts orphans."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_DUMPABLE, 0, 0, 0, 0) or libc.prctl(_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit(f"prctl: {os.strerror(ctypes.get_errno())}")
