"""Faults: what is seeded into a sound repository, one module a family."""

from collections.abc import Mapping

from machine.agentic.damage import Fault
from machine.agentic.faults import encoding, formats, names, rows, slips, spacing, syntax, wiring

FAULTS: Mapping[str, Fault] = {
    "syntax": Fault(syntax.damaged),
    "edit": Fault(slips.edited),
    "constant": Fault(slips.misvalued),
    "merge": Fault(slips.unmerged),
    "import": Fault(names.damaged),
    "json": Fault(formats.json_damaged, ("json",)),
    "toml": Fault(formats.toml_damaged, ("toml",)),
    "csv": Fault(rows.damaged, ("csv",)),
    "ini": Fault(wiring.ini_damaged, ("ini",)),
    "path": Fault(wiring.path_damaged, ("places",)),
    "encoding": Fault(encoding.damaged, ("texts",)),
    "spacing": Fault(spacing.damaged, ("recipes", "texts")),
}
"""All faults by name, in the order in which tasks are drawn."""
