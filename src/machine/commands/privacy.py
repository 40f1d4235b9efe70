"""`/machine privacy`: what counts as a secret in this project, what becomes of it, where one is."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from machine.commands.common import POLICIES, STATES, shown, switched
from machine.commands.mending import erase, redact
from machine.errors import Refused, UsageError
from machine.host import Host
from machine.report import Report, Table
from machine.store.project import Project, git_emails

if TYPE_CHECKING:
    from machine.privacy.redact import Finding
    from machine.privacy.sources import Sources

SCANNED = 20
"""Findings that a listing shows; `--json` gives them all."""
LARGEST = 1 << 28
"""Bytes of a file that is no JSON lines: it is looked at whole, since a secret may go over lines."""


@click.group(
    "privacy",
    invoke_without_command=True,
    subcommand_metavar="[policy | scan | redact | erase | allow | home | email | sent]",
)
@click.pass_context
def privacy(context: click.Context) -> Report | None:
    """What counts as a secret in this project, and what becomes of a turn that holds one."""
    return _status(Project.at(context.obj.cwd)) if context.invoked_subcommand is None else None


privacy.add_command(redact)
privacy.add_command(erase)


@privacy.command()
@click.argument("chosen", required=False, type=click.Choice(list(POLICIES)), metavar="[redact|refuse|ask]")
@click.pass_obj
def policy(host: Host, chosen: str | None) -> Report:
    """What becomes of a turn that holds a secret: kept without it (redact), not kept (refuse), or you are asked."""
    project = Project.at(host.cwd)
    settings = project.settings() if chosen is None else project.set(privacy=chosen)
    return Report(
        title=f"Policy of this project: {settings.privacy}",
        rows=[("Project", str(project.root)), ("Means", POLICIES[settings.privacy])],
        notes=["before anything leaves this machine, secrets are refused whatever the policy"],
        data={"policy": settings.privacy, "project": str(project.root)},
        next_step="machine privacy",
    )


@privacy.command()
@click.argument("state", type=STATES, required=False)
@click.pass_obj
def home(host: Host, state: str | None) -> Report:
    """Whether your home folder's path is a secret too: `<secret:home:1>/src/app.py`. Off at first."""
    return _switched(host, "redact_home", "Your home folder's path", "home", state)


@privacy.command()
@click.argument("state", type=STATES, required=False)
@click.pass_obj
def email(host: Host, state: str | None) -> Report:
    """Whether the addresses that git signs your commits with are secrets too. Off at first."""
    return _switched(host, "redact_email", "Your e-mail address in git", "email", state)


@privacy.command()
@click.argument("fingerprints", nargs=-1, metavar="[FINGERPRINT...]")
@click.option("--remove", is_flag=True, help="Take them off the list again.")
@click.pass_obj
def allow(host: Host, fingerprints: tuple[str, ...], remove: bool) -> Report:
    """Say that what a scan found is no secret, by its fingerprint; without one, list what is allowed."""
    from machine.capture.policy import allow as add_allowed

    project = Project.at(host.cwd)
    known = project.settings().allowed
    for each in fingerprints:
        if len(each) != 16 or set(each) - set("0123456789abcdef"):
            raise UsageError(f"{each!r} is no fingerprint (16 hex digits)", next_step="machine privacy scan --pool")
        if remove and each not in known:
            raise Refused(f"{each} is not on the list", next_step="machine privacy allow")
    if remove:
        known = project.set(allowed=tuple(each for each in known if each not in fingerprints)).allowed
    elif fingerprints:
        known = add_allowed(project, fingerprints)
    return Report(
        title=f"{len(known)} allowed in this project",
        tables=[Table("no secrets, by fingerprint", ("fingerprint",), [(each,) for each in known])] if known else [],
        notes=["a fingerprint is of this machine: it tells nobody what it was made of"] if known else [],
        data={"allowed": list(known)},
        next_step="machine privacy scan --pool",
    )


@privacy.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--pool", is_flag=True, help="The rows of this project's pool, and its corrections.")
@click.pass_obj
def scan(host: Host, file: Path | None, pool: bool) -> Report:
    """Look for secrets in FILE (a session, JSON lines, any text) or in the pool: rules and places, no values."""
    if (file is None) != pool:
        raise UsageError("name a file, or say --pool", next_step="machine privacy scan --pool")
    project = Project.at(host.cwd)
    sources = project.sources(fingerprints=True)
    found = list(_in_pool(project, sources) if file is None else _in_file(file.expanduser(), sources))
    where = "the pool" if file is None else str(file)
    rules = Counter(finding.rule for _, finding in found)
    ids = list(dict.fromkeys(place.partition(":")[0] for place, _ in found)) if pool else []
    mend = (
        f"machine privacy redact {' '.join(ids[:3])}" if ids else "take them out, or machine privacy allow FINGERPRINT"
    )
    lines = [(place, finding.rule, finding.fingerprint) for place, finding in found]
    more = [f"... and {len(lines) - SCANNED} more (--json shows all)"] if len(lines) > SCANNED else []
    return Report(
        title=f"{len(found)} secret(s) in {where}" if found else f"No secret found in {where}",
        rows=[(rule, f"{count} time(s)") for rule, count in rules.most_common()],
        tables=[Table("where", ("place", "rule", "fingerprint"), lines[:SCANNED])] if found else [],
        notes=[*more, *shown(list(sources.left_out))],
        data={
            "findings": [{"place": place, "rule": rule, "fingerprint": mark} for place, rule, mark in lines],
            "left_out": list(sources.left_out),
        },
        next_step=mend if found else "",
        exit_code=1 if found else 0,
    )


@privacy.command()
@click.pass_obj
def sent(host: Host) -> Report:
    """What you let out of this machine, newest first: when, how much, whereto, and the digest of the bytes."""
    from machine.privacy.parcel import BRIEF
    from machine.store.approvals import Approvals

    project = Project.at(host.cwd)
    found = Approvals(project.folder).all()[::-1]
    lines = [
        (
            each.at[:19].replace("T", " "),
            f"{each.rows} {each.what}",
            f"{each.bytes:,}",
            each.destination,
            each.digest[:BRIEF],
        )
        for each in found
    ]
    columns = ("when (UTC)", "what", "bytes", "went to", "SHA-256")
    return Report(
        title=f"{len(found)} time(s) something was let out" if found else "Nothing of this project was ever let out",
        tables=[Table("newest first", columns, lines[:SCANNED])] if found else [],
        notes=["agreed to is not yet sent: a run that failed before its first request is here too"] if found else [],
        data={"approvals": msgspec.to_builtins(found)},
        next_step="machine privacy",
    )


def _in_pool(project: Project, sources: "Sources") -> Iterator[tuple[str, "Finding"]]:
    """The secrets of the rows in force and of the ledger, each with the row or the line it is in, and where there."""
    from machine.capture.rows import without_secrets
    from machine.privacy.redact import Names

    for row in project.pool.rows():
        for finding in without_secrets([row], sources, Names())[1]:
            yield f"{row.id}: {finding.place}", finding
    if project.corrections.exists():
        for place, finding in _in_file(project.corrections, sources):
            yield f"{project.corrections.name} {place}", finding


def _in_file(path: Path, sources: "Sources") -> Iterator[tuple[str, "Finding"]]:
    """The secrets of a file, each with its line and, in JSON lines, its place in the line.

    Raises:
        Refused: it is no file, or a text larger than `LARGEST`.
        StoreError: it cannot be read.
    """
    from machine.privacy.redact import located, redacted
    from machine.store.files import explained

    if not path.is_file():
        raise Refused(f"{path} is no file", next_step="machine privacy scan FILE")
    with explained(path):
        values = _json_lines(path)
        if values is not None:
            for number, value in values:
                for finding in redacted(value, sources)[1]:
                    yield f"line {number}: {finding.place}".rstrip(": "), finding
            return
        if path.stat().st_size > LARGEST:
            raise Refused(f"{path} is larger than {LARGEST >> 20} MB", next_step="split it, and scan the parts")
        text = path.read_text("utf-8", "replace")
    line, at = 1, 0
    for start, finding in located(text, sources):
        line, at = line + text.count("\n", at, start), start
        yield f"line {line}", finding


def _json_lines(path: Path) -> Iterator[tuple[int, object]] | None:
    """The lines of a file of JSON lines, numbered from 1; None where its first line is no JSON object or list.

    A later line that is no JSON is looked at as text.
    """

    def value(line: bytes) -> object:
        try:
            return msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return line.decode("utf-8", "replace")

    with path.open("rb") as file:
        if not isinstance(value(file.readline(LARGEST)), dict | list):
            return None

    def lines() -> Iterator[tuple[int, object]]:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, value(line)

    return lines()


def _status(project: Project) -> Report:
    from machine.privacy.forms.patterns import rules

    settings, sources = project.settings(), project.sources()
    files = [str(path.relative_to(project.root)) for path in sources.files]
    values = Counter(exact.rule for exact in sources.values.values())
    exact = len([rule for rule in values if rule.startswith("env-")])
    where = "your environment" + (f" and {', '.join(files[:5])}" if files else "")
    more = f" and {len(files) - 5} more files" if len(files) > 5 else ""
    rows = [
        ("Project", str(project.root)),
        ("Policy", f"{settings.privacy}: {POLICIES[settings.privacy]}"),
        ("Looked for", f"credentials of {len({rule.name for rule in rules()})} known forms"),
        ("Exact values", f"{exact}, of {where}{more}"),
        ("Home folder", "replaced" if settings.redact_home else "kept: machine privacy home on"),
        ("E-mail", "replaced" if settings.redact_email else "kept: machine privacy email on"),
        ("Allowed", f"{len(settings.allowed)} of what looks like a secret and is none"),
    ]
    return Report(
        title=f"Privacy of this project: {settings.privacy}",
        rows=rows,
        notes=[
            "before a row is kept, and again before anything leaves this machine",
            "images are kept as they are: nothing looks into them",
            *shown(list(sources.left_out)),
        ],
        data={
            "policy": settings.privacy,
            "home": settings.redact_home,
            "email": settings.redact_email,
            "allowed": list(settings.allowed),
            "exact": sorted(values),
            "env_files": files,
            "left_out": list(sources.left_out),
        },
        next_step="machine privacy scan --pool",
    )


def _switched(host: Host, name: str, what: str, word: str, state: str | None) -> Report:
    project = Project.at(host.cwd)
    on = switched(project, name, state)
    notes = []
    if on and word == "email" and not git_emails(project.root):
        notes.append("git knows no address of yours here, so there is none to look for")
    if state == "on":
        notes.append("rows that are in the pool already are as they were: machine privacy redact --all")
    return Report(
        title=f"{what} is {'replaced' if on else 'kept'} in this project's rows",
        rows=[("Project", str(project.root))],
        notes=notes,
        data={word: on, "project": str(project.root)},
        next_step=f"machine privacy {word} {'off' if on else 'on'}",
    )
