"""Catalogue: asking the service which models it has, and telling Pi.

    python -m machine.tinker.catalogue

is what the extension runs beside Pi when a session starts: it asks where the list is due (see `provider.is_due`), and
says nothing, whatever happens. A service that is offline, or refuses, leaves the list as it was; how old that is,
`machine tinker doctor` says.
"""

import contextlib
import os

from machine.errors import MachineError
from machine.tinker.provider import is_due, keep
from machine.tinker.service import Service, connect, endpoint
from machine.tinker.students import Model, models


def ask(service: Service) -> tuple[list[Model], bool]:
    """What the service can train or sample, which Pi is told of; and whether that changes anything for Pi.

    Raises:
        ServiceError: the service does not answer, or refuses.
    """
    found = models(service)
    return found, keep(service.endpoint, found)


def main() -> None:
    """Asks, if it is time; where Pi is told to stay offline, only a service of this machine."""
    with contextlib.suppress(MachineError):
        where = endpoint()
        if is_due(where) and (where.local or not _is_offline()):
            with connect(where) as service:
                ask(service)


def _is_offline() -> bool:
    return os.environ.get("PI_OFFLINE", "").lower() in ("1", "true", "yes")


if __name__ == "__main__":
    main()
