"""`corrections export`: rejected turns and their good ones as a file of preference pairs, to be given away."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from machine.commands.common import let_go, shown
from machine.correction.ledger import Ledger, Read
from machine.correction.link import rows_of
from machine.correction.pairs import LeftOut, Pair, pairs
from machine.errors import Refused
from machine.host import Host
from machine.report import Report
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.privacy.sources import Sources


@click.command()
@click.option("--pairs", "file", required=True, type=click.Path(path_type=Path), metavar="FILE", help="Where to.")
@click.option("--force", is_flag=True, help="Replace FILE where it is there already.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def export(host: Host, file: Path, force: bool, yes: bool) -> Report:
    """Write the rejected turns and their good ones as preference pairs, a JSON object a line, to be given away."""
    from machine.privacy.parcel import Parcel
    from machine.privacy.redact import redacted
    from machine.store.files import write_private
    from machine.trace import canonical

    project = Project.at(host.cwd)
    path = file.expanduser()
    if path.exists() and not force:
        raise Refused(f"{path} is there already", next_step=f"machine corrections export --pairs {path} --force")
    if not path.parent.is_dir():
        raise Refused(f"{path.parent} is not a folder", next_step="choose another file")
    ledger = Ledger(project)
    read = ledger.read()
    good = {row.id for row in project.pool.rows("good")}
    found = list(pairs(read.corrections, lambda ids: rows_of(ledger, ids), good))
    kept = [each for each in found if isinstance(each, Pair)]
    left = [each for each in found if isinstance(each, LeftOut)]
    if not kept:
        why = "; ".join(shown([f"{each.correction}: {each.why}" for each in left]))
        raise Refused(f"there is no pair to write{f': {why}' if why else ''}", next_step="machine corrections")
    sources = project.sources(fingerprints=True)
    clean, secrets = redacted([msgspec.to_builtins(pair) for pair in kept], sources)
    data = b"".join(canonical(pair) + b"\n" for pair in clean)
    _look(data, sources)
    parcel = Parcel.of(
        [data],
        what="preference pairs",
        rows=len(kept),
        projects=[project.root.name],
        destination=str(path.absolute()),
    )
    again = f"machine corrections export --pairs {path}{' --force' if force else ''} --yes"
    let_go(host, project, parcel, yes, "Write?", f"{path} is written to be given away", again)
    write_private(path, data)
    notes = [f"left out {each.correction}: {each.why}" for each in left]
    notes += [f"redacted: {finding.rule} at {finding.place}" for finding in secrets]
    return Report(
        title=f"{len(kept)} pair(s) in {path}",
        rows=[
            ("Left out", str(len(left))),
            ("Bytes", f"{parcel.size:,}"),
            ("SHA-256", parcel.digest),
            ("Projects", ", ".join(parcel.projects)),
            ("Seen by", "you alone (mode 0600)"),
        ],
        notes=[*shown(notes), *damaged(read)],
        data={
            "file": str(path),
            "pairs": [pair.correction for pair in kept],
            "left_out": msgspec.to_builtins(left),
            "bytes": parcel.size,
            "sha256": parcel.digest,
            "projects": list(parcel.projects),
        },
    )


def _look(data: bytes, sources: "Sources") -> None:
    """The very bytes of a file hold no secret, nor what its lines say when they are read.

    Raises:
        Refused: one does; nothing was written.
    """
    from machine.privacy.redact import redacted

    for number, line in enumerate(data.splitlines(), start=1):
        if findings := redacted([line.decode(), msgspec.json.decode(line)], sources)[1]:
            raise Refused(
                f"pair {number} still holds a secret ({findings[0].rule}, fingerprint {findings[0].fingerprint}); "
                "nothing was written",
                next_step="machine privacy redact ID (its rows'); if it is none, machine privacy allow FINGERPRINT",
            )


def damaged(read: Read) -> list[str]:
    """The lines of the ledger that are left out, and why."""
    return shown([f"line {line} of corrections.jsonl is left out: {why}" for line, why in read.damaged])
