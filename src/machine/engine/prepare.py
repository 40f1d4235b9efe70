"""What set-up makes once, so that the first start is quick: the default model and the kernels that decode it.

python -m machine.engine.prepare
"""

import sys
import threading
from collections.abc import Callable

from machine.engine.models.convert import ensure_model
from machine.engine.sampling import passes
from machine.errors import MachineError

_QUICK = 5.0
"""Seconds in which kernels are loaded that were compiled before."""


def prepare(say: Callable[[str], None]) -> None:
    """Makes what is not there yet; `say` hears about what takes long.

    Raises:
        MissingDependency, StoreError: see `convert.ensure_model`.
    """
    ensure_model(say)
    slow = threading.Timer(_QUICK, say, ["compiling the decoding kernels (some 20 s)"])
    slow.start()
    try:
        passes.prepare()
    finally:
        slow.cancel()


def main() -> int:
    """Returns the exit code."""
    try:
        prepare(lambda line: print(f"  {line}", flush=True))
    except MachineError as error:
        print(f"{error.message}\nNext: {error.next_step}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
