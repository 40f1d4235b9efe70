"""Faults of a request: what a client did wrong, as an HTTP status or as `{category: "user"}` of a future."""

from machine.errors import Refused

RETRY_SECONDS = "2"
"""When a client that met `Busy` is to try again."""


class Fault(Refused):
    """The client's request cannot be done; `status` is the HTTP status where it is answered at once."""

    status = 400


class NotFound(Fault):
    """A model, sampler, session or checkpoint that is not here."""

    status = 404


class Gone(Fault):
    """A future or session that was here; the Tinker SDK stops asking for it, or asks anew."""

    status = 410


class TooLarge(Fault):
    """More than the engine takes at once."""

    status = 413


class Busy(Fault):
    """Too much is waiting; the client tries again later."""

    status = 429
