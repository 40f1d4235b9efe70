"""Connections: how long a client may take over a request, and how many may wait for one.

Anybody on this machine can connect, key or not. A client that does not get its request out in time is cut off, and one
connection too many closes the one that has been silent the longest: neither holds up those who ask.
"""

import asyncio
import contextlib
import sys
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""For the head of a request (and for the rest of a body whose answer is known): a head is sent at once."""
BODY_SECONDS = 60.0
"""For a body."""
MAX_SILENT = 2048
"""Connections without a request; an SDK that samples much opens 1000 at once."""
OPEN_FILES = 4096
"""Files and connections that the process asks to be allowed; some systems begin with 256."""
_LOOK_SECONDS = 0.5


def allow_files() -> None:
    """Asks the system to let this process have `OPEN_FILES` files and connections open, where it has a say."""
    if sys.platform == "win32":
        return
    import resource  # not everywhere

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES:
        with contextlib.suppress(OSError, ValueError):
            most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def most_silent() -> int:
    """How many connections may wait without a request: they leave half of the open files to the others."""
    if sys.platform == "win32":
        return MAX_SILENT
    import resource  # not everywhere

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_SILENT if soft == resource.RLIM_INFINITY else min(MAX_SILENT, soft // 2)


class Connection(H11Protocol):
    """A connection that its client cannot hold open for nothing."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See uvicorn."""
        super().connection_made(transport)
        self._owed: Any = None
        self._since = self.loop.time()
        if len(self.connections) > (most := most_silent()):
            silent = [other for other in self.connections if isinstance(other, Connection) and other.is_silent]
            if len(silent) > most:
                min(silent, key=lambda other: other._since).transport.abort()
        self._look()

    @property
    def is_silent(self) -> bool:
        """Whether it has no request that is being read or answered."""
        return not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete)

    def _look(self) -> None:
        """Cuts the client off if it has owed the same for too long."""
        if self.transport.is_closing():
            return
        owes_body = not self.is_silent and self.cycle.more_body
        owed = (self.cycle, owes_body) if self.is_silent or owes_body else None
        if owed is None or owed != self._owed:
            self._owed, self._since = owed, self.loop.time()
        elif self.loop.time() - self._since > (BODY_SECONDS if owes_body else HEAD_SECONDS):
            self.transport.abort()
            return
        self.loop.call_later(_LOOK_SECONDS, self._look)
