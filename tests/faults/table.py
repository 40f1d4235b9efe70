"""The table of the faults that Machine survives: plays every scenario and prints what came of it.

    python tests/faults/table.py [--markdown] [--quick] [NAME ...]

`--markdown` prints it as `docs/reliability.md` has it, `--quick` leaves out what `make test` leaves out, names (of
scenarios, or of the modules that they stand in) play these alone. Exits with 1 if a cell is not as it should be.
"""

import os
import sys
import time
from argparse import ArgumentParser
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE.parent / "store")]
os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "TINKER_TELEMETRY": "0", "HF_HUB_OFFLINE": "1"}
os.environ.setdefault("MACHINE_MODELS_DIR", str(Path.home() / ".machine" / "models"))

import stands  # noqa: E402
from played import GROUPS, Played, play  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

COLUMNS = ("fault", "what was done", "acknowledged, and still there", "what comes next", "what the user is told")


def cells(played: Played) -> tuple[str, ...]:
    """A row as text."""
    survived = played.survived
    if survived is None:
        return played.scenario.fault, f"NOT SO: {played.raised}", "", "", ""
    return played.scenario.fault, survived.done, str(survived.kept), str(survived.after), str(survived.message)


def markdown(rows: list[tuple[str, ...]]) -> str:
    """The table in Markdown."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


def main() -> int:
    """The command line."""
    parser = ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    console, rows, bad = Console(stderr=True), [], 0
    for group in GROUPS:
        chosen = [
            each
            for each in group.scenarios
            if not (asked.quick and each.slow) and (not asked.names or {each.id, group.name} & {*asked.names})
        ]
        for played in play(group, chosen):
            rows.append(cells(played))
            bad += not played.good
            console.print(
                f"{'ok ' if played.good else 'NOT'} {played.seconds:5.1f} s  {played.scenario.fault}", highlight=False
            )
    if not asked.names:
        for standing in stands.ALL:
            began, fault = time.monotonic(), standing.run()
            rows.append((standing.fault, standing.done, standing.kept if fault is None else f"NOT SO: {fault}", standing.after, standing.message))  # fmt: skip
            bad += fault is not None
            console.print(
                f"{'NOT' if fault else 'ok '} {time.monotonic() - began:5.1f} s  {standing.fault}", highlight=False
            )
    if asked.markdown:
        print(markdown(rows))
    else:
        table = Table(*COLUMNS, show_lines=True)
        for line in rows:
            table.add_row(*line)
        Console().print(table)
    console.print(f"{len(rows) - bad} of {len(rows)} as it should be")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
