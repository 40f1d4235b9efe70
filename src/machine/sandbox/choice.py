"""Which box works on this machine, found out by running something in it."""

from collections.abc import Callable, Mapping

from machine.errors import MachineError, Refused
from machine.sandbox.bare import Bare
from machine.sandbox.bubblewrap import INSTALL, Bubblewrap
from machine.sandbox.docker import Docker
from machine.sandbox.job import Box, Job, Limits

BOXES: Mapping[str, Callable[[], Box]] = {"docker": Docker, "bubblewrap": Bubblewrap}
"""In the order in which they are tried."""
_PROBE = Job(["true"], limits=Limits(seconds=20.0))


def choose(*, unsafe: bool = False, only: str | None = None) -> Box:
    """The first box that works: Docker, else bubblewrap; with `unsafe` none at all, where neither does.

    `only` names the one to take: "docker", "bubblewrap", or, with `unsafe`, "none".

    Raises:
        Refused: no box works; the message says why of each.
    """
    if only is not None and only not in (*BOXES, "none"):
        raise Refused(f"there is no sandbox called {only!r}", next_step=f"say {', '.join(BOXES)}")
    reasons = []
    for name, kind in BOXES.items():
        if only in (None, name):
            box = kind()
            reason = why_not(box)
            if reason is None:
                return box
            reasons.append(f"{name}: {reason}")
    if unsafe and only in (None, "none"):
        return Bare()
    raise Refused(
        "no sandbox works here: " + ("; ".join(reasons) or "none is not one"),
        next_step=f"{INSTALL}, start Docker, or say --unsafe to run the model's commands on this machine without one",
    )


def why_not(box: Box) -> str | None:
    """Why a box does not work here; None where it does: `true` was run in it."""
    try:
        outcome = box.run(_PROBE)
    except (MachineError, OSError) as error:
        return str(error)
    return None if outcome.code == 0 else f"a command that does nothing ended with {outcome.code} ({outcome.ended})"
