"""Gate: what `train run` starts the training page through, so that it is ready when the user has agreed.

    python -m machine.training.gate MODULES PAGE [ARGUMENTS]

Loads MODULES (comma-separated; most of a page's first ten seconds), waits for the line `go` on standard input, then
runs PAGE as if it had been called by itself. Nothing of the page runs before; if the input ends without that line, none
of it ever does.
"""

import contextlib
import importlib
import runpy
import sys

GO = "go\n"


def main() -> None:
    """Waits, then becomes the page."""
    modules, *sys.argv = sys.argv[1:]
    for module in filter(None, modules.split(",")):
        with contextlib.suppress(ImportError):  # whoever needs it will say what is missing
            importlib.import_module(module)
    if sys.stdin.readline() == GO:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
