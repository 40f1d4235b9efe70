"""`privacy redact` and `privacy erase`: secrets out of rows that are kept already, and rows out of the pool."""

import re
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

import click

from machine.commands.common import consent, shown
from machine.commands.mended import mend
from machine.errors import Refused, UsageError
from machine.host import Host
from machine.report import Report
from machine.store.files import locked
from machine.store.project import Project
from machine.trace import Row

if TYPE_CHECKING:
    from machine.correction.ledger import Correction, Ledger

_SNIPPET = 120
"""Characters of a text of a row by which copies of it are looked for."""
_SHORTEST_SNIPPET = 16
_IMAGE = re.compile("[0-9a-f]{64}")


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "every", is_flag=True, help="Every row of the pool, and every correction.")
@click.option("--erase", is_flag=True, help="Overwrite the old bytes as well.")
@click.option("--yes", is_flag=True, help="With --erase: do not ask.")
@click.pass_obj
def redact(host: Host, ids: tuple[str, ...], every: bool, erase: bool, yes: bool) -> Report:
    """Take the secrets out of rows that are in the pool: a mended row stands for each. ID begins a row's id."""
    if bool(ids) == every or "" in ids:
        raise UsageError("name rows by their ids, or say --all", next_step="machine privacy scan --pool")
    project = Project.at(host.cwd)
    rows = _in_force(project, ids)
    if erase:
        words = f"machine privacy redact {'--all' if every else ' '.join(ids)} --erase --yes"
        consent(host, yes, "Overwrite the old bytes?", f"the old bytes of what is mended in {project.folder}", words)
    found = mend(project, rows)
    mended = found.mended
    ledger = _ledger(project) if every else 0
    old = _mended_before(project, rows) | {old.id for old, _ in mended} | found.replaced if erase else set()
    erased = project.pool.erase(sorted(old), superseded=True) if old else 0
    spellings = [bytes_ for secret in found.held.known for bytes_ in _spelt(secret)]
    lines = [f"{old.id} is {new.id} now: {_said(old, new)}" for old, new in mended]
    lines += found.said(erase)
    lines += [f"{ledger} line(s) of corrections.jsonl mended"] if ledger else []
    lines += [f"{erased} old line(s) of rows that were mended before overwritten"] if erased and not mended else []
    elsewhere = [str(path) for path in _elsewhere(project, spellings)] if mended else []
    data = {
        "mended": [{"old": old.id, "new": new.id} for old, new in mended],
        "ledger": ledger,
        "retagged": [old.id for old, _ in found.anew],
        "erased": erased,
        "elsewhere": elsewhere,
    }
    notes = [*shown(lines), *_left(project, mended, elsewhere, erase)]
    changed = mended or ledger or erased or found.anew
    title = f"{len(mended)} row(s) mended" if changed else "No secret found in these rows; nothing changed"
    return Report(title=title, notes=notes, data=data, next_step="machine privacy scan --pool")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def erase(host: Host, ids: tuple[str, ...], yes: bool) -> Report:
    """Erase rows for good: their bytes are overwritten, with the corrections that reject them. ID: t_..., c_..."""
    project = Project.at(host.cwd)
    corrections, rows = _named(project, ids)
    what = ", ".join([*(row.id for row in rows), *(each.id for each in corrections)])
    consent(host, yes, "Erase for good?", f"{what} in {project.folder}", f"machine privacy erase {' '.join(ids)} --yes")
    sought = [bytes_ for row in rows for text in _snippets(row) for bytes_ in _spelt(text)]
    images = {name for row in rows for name in _IMAGE.findall(str(row.messages))}
    with locked(project.pool.lock):
        project.forgotten.note([row.source.entries for row in rows])
    lines = _forget(project, corrections, {row.id for row in rows})  # first: after a crash, the rows still name them
    erased = project.pool.erase([row.id for row in rows], superseded=True) if rows else 0
    with locked(project.pool.lock):
        unused = images - project.pool.names_blobs(images)
        gone = project.blobs.erase(sorted(unused)) if unused else 0
    elsewhere = [str(path) for path in _elsewhere(project, sought)]
    notes = [f"{path} holds text of it still" for path in elsewhere]
    notes += sorted({f"Pi's session file is as it was: {row.source.file}" for row in rows if row.source.file})
    notes += _trained(project, rows)
    return Report(
        title=f"{len(rows)} row(s) and {len(corrections)} correction(s) erased",
        rows=[("Overwritten", f"{erased} line(s) of the pool, {lines} of corrections.jsonl, {gone} image(s)")],
        notes=shown(notes),
        data={
            "rows": [row.id for row in rows],
            "corrections": [each.id for each in corrections],
            "erased": erased,
            "elsewhere": elsewhere,
        },
        next_step="machine data",
    )


def _in_force(project: Project, ids: Sequence[str]) -> list[Row]:
    """The rows in force whose ids begin so, of all rows where none are named.

    Raises:
        Refused: one begins no such id, or several.
    """
    found = [row for row in project.pool.rows() if not ids or row.id.startswith(tuple(ids))]
    for prefix in ids:
        named = [row.id for row in found if row.id.startswith(prefix)]
        if len(named) > 1:
            raise Refused(f"{prefix!r} begins the ids of several rows", next_step="type more of the id")
        if not named:
            old = project.pool.get(prefix)
            raise Refused(
                f"{old.id} counts no more: a later row of its turn stands for it",
                next_step=f"machine privacy redact {project.mends.heirs(old.id)[0]} --erase, which overwrites it too"
                if len(project.mends.heirs(old.id)) > 1
                else f"machine privacy erase {old.id}",
            )
    return found


def _mended_before(project: Project, rows: Iterable[Row]) -> set[str]:
    """The ids of older rows that some of the rows stand for, since they were mended."""
    ids, known = {row.id for row in rows}, project.mends.all()
    return {old for old in known if old not in ids and ids & {*project.mends.heirs(old)}} if known else set()


def _ledger(project: Project) -> int:
    from machine.correction.ledger import Ledger

    return Ledger(project).mend()


def _named(project: Project, ids: Sequence[str]) -> "tuple[list[Correction], list[Row]]":
    """What is to be erased: rows, and the corrections that were named or that reject one of the rows."""
    from machine.correction.ledger import Ledger

    if "" in ids:
        raise UsageError("an id is empty", next_step="machine tagged")
    ledger = Ledger(project)
    corrections = [ledger.find(id) for id in ids if id.startswith("c_")]
    rows = list({row.id: row for row in [project.pool.get(id) for id in ids if not id.startswith("c_")]}.values())
    gone = {row.id for row in rows}
    opened = [each for each in ledger.read().corrections if _names(ledger, each.opened.rows, gone)]
    return list({each.id: each for each in [*corrections, *opened]}.values()), rows


def _names(ledger: "Ledger", ids: Sequence[str], rows: Set[str]) -> bool:
    """Whether an event that names rows by `ids` is of one of `rows`: those that stand for them now."""
    from machine.correction.link import rows_of

    return bool(rows) and not rows.isdisjoint(row.id for row in rows_of(ledger, ids))


def _forget(project: Project, corrections: "Sequence[Correction]", rows: Set[str]) -> int:
    """Erases corrections, and takes back the links of others to rows that are to go."""
    from machine.correction.ledger import Ledger, Unlinked

    ledger = Ledger(project)
    lines = ledger.erase([each.id for each in corrections]) if corrections else 0
    for each in ledger.read().corrections:
        if each.link is not None and _names(ledger, each.link.rows, rows):
            ledger.append(Unlinked(correction=each.id))
    return lines


def _elsewhere(project: Project, needles: Sequence[bytes]) -> list[Path]:
    """Files of the store, beside the pool, that hold one of the texts."""
    from machine.store.copies import copies

    own = {project.pool.path, project.pool.path.with_suffix(".index")}
    return [path for path in copies(project.folder, needles) if path not in own] if needles else []


def _spelt(text: str) -> list[bytes]:
    from machine.privacy.spellings import spellings

    return [spelling.encode("utf-8", "surrogatepass") for spelling in spellings(text)]


def _snippets(row: Row) -> list[str]:
    """The beginnings of what was said in a row's turn, long enough to be of no other."""
    from machine.capture.rows import question_of, text_of

    said = [question_of(row), *(text_of(row.messages[at]) for at in row.target)]
    return [text[:_SNIPPET] for text in said if len(text) >= _SHORTEST_SNIPPET]


def _said(old: Row, new: Row) -> str:
    """What was taken out of a row, by rule and place."""
    return ", ".join(dict.fromkeys(edit.detail for edit in new.edits[len(old.edits) :]))


def _left(project: Project, mended: Sequence[tuple[Row, Row]], elsewhere: Sequence[str], erased: bool) -> list[str]:
    """What is to be said of where else the secrets are."""
    if not mended:
        return []
    notes = [] if erased else ["the old bytes are in the pool still, and count no more: --erase overwrites them"]
    notes += [f"{path} holds one of them still" for path in elsewhere]
    notes += sorted({f"Pi's session file is as it was: {old.source.file}" for old, _ in mended if old.source.file})
    return [*notes, *_trained(project, [old for old, _ in mended])]


def _trained(project: Project, rows: Sequence[Row]) -> list[str]:
    """The runs that trained on the sessions of the rows: their weights may repeat what they read."""
    from machine.errors import StoreError
    from machine.training.run import runs

    sessions, found = {row.source.session for row in rows}, []
    for run in runs(project.runs):
        try:
            if sessions & {*run.config.get("split", {}).get("train", ())}:
                found.append(f"run {run.id} trained on its session: that checkpoint may repeat it")
        except (StoreError, Refused):
            found.append(f"run {run.id} is damaged: whether it trained on it is not known")
    return found
