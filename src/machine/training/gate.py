"""Gate: what `train run` starts the training page through, so that it is ready when the user has agreed.

    python -m machine.training.gate MODULES PAGE [ARGUMENTS]

Loads MODULES (comma-separated; most of a page's first ten seconds), waits for the line `go` on standard input, takes
what follows it (see `handover`), then runs PAGE as if it had been called by itself. Nothing of the page runs before; if
the input ends without that line, none of it ever does.
"""

import contextlib
import importlib
import runpy
import sys

from machine.training.handover import receive

GO = b"go\n"


def main() -> None:
    """Waits, then becomes the page."""
    modules, *sys.argv = sys.argv[1:]
    for module in filter(None, modules.split(",")):
        with contextlib.suppress(ImportError):  # whoever needs it will say what is missing
            importlib.import_module(module)
    if sys.stdin.buffer.readline() == GO:
        if given := sys.stdin.buffer.read():
            receive(given)
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
