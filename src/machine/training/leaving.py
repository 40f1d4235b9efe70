"""Leaving: what a training run sends to a service that is not this machine's engine: a last look, and its parcel.

It stands where the bytes are sent (`script.begin`), and, before that, where the user is asked (`machine train run`).
Both make the parcel of what they hold: where the two differ, as where a row was tagged in between, nothing is sent.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from machine.dataset.merge import Pack
from machine.dataset.scan import refuse_secret_texts, refuse_secrets
from machine.privacy.parcel import Parcel
from machine.store.approvals import Approvals
from machine.store.project import Project
from machine.tinker.service import Endpoint
from machine.tinker.students import load_student
from machine.trace import canonical
from machine.training.config import Config

if TYPE_CHECKING:
    from machine.training.script import Data

MEND_SECRET = "machine privacy redact ID (the row's), or leave it out; if it is none, machine privacy allow FINGERPRINT"
APPROVE = "machine train run, which shows what is sent, asks, and runs the page"


def refuse_unapproved(project: Project, config: Config, data: "Data", where: Endpoint) -> None:
    """Lets nothing go that holds a secret, or that was not agreed to.

    Raises:
        Refused: it holds one, or was not.
    """
    look(project, config, data)
    Approvals(project.folder).refuse_unapproved(parcel(config, data, where), APPROVE)


def look(project: Project, config: Config, data: "Data") -> None:
    """Scans the rows, and what their tokens spell.

    Raises:
        Refused: there is a secret; the message names the row, the rule and the place, never the secret.
    """
    sources = project.sources(fingerprints=True)
    refuse_secrets([*data.rows.train, *data.rows.held_out], MEND_SECRET, sources)
    refuse_secret_texts(_spelt(config, data), MEND_SECRET, sources)


def parcel(config: Config, data: "Data", where: Endpoint) -> Parcel:
    """What a run sends: the tokens and weights of every datum, trained or held out, and which model they are for."""
    rows = [*data.rows.train, *data.rows.held_out]
    sides = (data.datums, data.held_out_datums)
    return Parcel.of(
        _parts(config, sides),
        what=f"rows as tokens of {config.model}",
        rows=len(rows),
        projects=[PurePath(row.source.cwd).name or row.source.cwd for row in rows],
        destination=where.goes_to,
    )


def _parts(config: Config, sides: Sequence[Sequence[Pack]]) -> Iterator[bytes]:
    """A line that says what follows, then of each datum its tokens (int32) and weights (float32), little-endian."""
    yield canonical({"model": config.model, "datums": [[len(pack.tokens) for pack in side] for side in sides]}) + b"\n"
    for pack in (pack for side in sides for pack in side):
        for numbers in (array("i", pack.tokens), array("f", pack.weights)):
            if sys.byteorder == "big":
                numbers.byteswap()
            yield numbers.tobytes()


def _spelt(config: Config, data: "Data") -> Iterator[tuple[str, str]]:
    """Of each datum, its longest target and the text of its tokens."""
    sides = [(data.examples, pack) for pack in data.datums] + [(data.held_out, pack) for pack in data.held_out_datums]
    if not sides:
        return
    tokenizer = load_student(config.model, config.renderer).tokenizer
    for examples, pack in sides:
        longest = max((examples[i] for i in pack.examples), key=lambda example: len(example.tokens))
        yield longest.id, tokenizer.decode(pack.tokens)
