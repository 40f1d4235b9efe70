"""`/corrections`: the ledger of this project's corrections: all of them, one whole, dropped, exported as pairs."""

from collections.abc import Sequence

import click
import msgspec

from machine.commands.pairs import damaged, export
from machine.commands.turns import taken_back
from machine.correction.gates import RULES
from machine.correction.ledger import (
    Approved,
    Caught,
    Correction,
    Declined,
    Dropped,
    Event,
    Ledger,
    Linked,
    NotProposed,
    Opened,
    Proposed,
    Retry,
    Unlinked,
)
from machine.correction.link import rows_of
from machine.errors import Refused
from machine.host import Host
from machine.report import Report, Table, one_line
from machine.store.project import Project


class _Corrections(click.Group):
    """A group whose unknown first word is a correction's id."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0].startswith("c_"):
            return "show", show, args
        return super().resolve_command(ctx, args)


@click.group(cls=_Corrections, invoke_without_command=True, subcommand_metavar="[ID | export | drop]")
@click.pass_context
def corrections(context: click.Context) -> Report | None:
    """What was corrected in this project, newest first, or the correction whose id begins with ID (`c_...`) whole."""
    return _listed(Ledger(Project.at(context.obj.cwd))) if context.invoked_subcommand is None else None


@click.command()
@click.argument("id")
@click.pass_obj
def show(host: Host, id: str) -> Report:
    """One correction whole: what was said, proposed, approved, and the rows that it led to."""
    ledger = Ledger(Project.at(host.cwd))
    found = ledger.find(id)
    steps = Table(
        "what happened", ("when", "what", "details"), [(_when(event), *_step(event)) for event in found.events]
    )
    rows = [id for event in found.events if isinstance(event, Opened | Linked) for id in event.rows]
    gone = set(rows) - {row.id for row in rows_of(ledger, rows)}
    return Report(
        title=f"{found.id}: {found.state}",
        rows=[("Question", found.opened.question), *facts_of(found), ("Rows", ", ".join(rows))],
        tables=[steps],
        notes=[f"row {id} is not in the pool" for id in sorted(gone)],
        data={"id": found.id, "state": found.state, "events": msgspec.to_builtins(found.events)},
        next_step=next_of(found),
    )


@corrections.command()
@click.argument("id")
@click.argument("why", nargs=-1)
@click.pass_obj
def drop(host: Host, id: str, why: tuple[str, ...]) -> Report:
    """Give up a correction. Its bad row stays in the pool, and so does what it led to."""
    ledger = Ledger(Project.at(host.cwd))
    found = ledger.find(id)
    if not found.pending:
        raise Refused(f"correction {found.id} is {found.state} already", next_step=f"machine corrections {found.id}")
    ledger.drop(found, " ".join(why))
    notes = taken_back(ledger.project, rows_of(ledger, found.opened.rows))
    return Report(title=f"{found.id} is dropped", notes=notes, next_step="machine corrections", data={"id": found.id})


corrections.add_command(export)


def facts_of(correction: Correction) -> list[tuple[str, str]]:
    """What stands of a correction now, as labelled values."""
    facts = [("Correction", f"{correction.id}, {correction.state}")]
    if correction.opened.words:
        facts.append(("What was wrong", correction.opened.words))
    if correction.opened.answer is not None:
        facts.append(("Should have been", correction.opened.answer))
    if (approved := correction.approved) is not None:
        facts.append(("Reasoning", approved.reasoning))
        facts.append(("Approved", _origin(correction, approved)))
    if retries := correction.of(Retry):
        facts.append(("Retried", f"{retries[-1].outcome}, by {retries[-1].model}"))
    if (link := correction.link) is not None:
        facts.append(("Led to", f"{', '.join(link.rows)} ({link.how})"))
    return facts


def next_of(correction: Correction) -> str:
    """What to type next."""
    match correction.state:
        case "open":
            return f"machine correction --resume {correction.id}"
        case "approved":
            return "ask again, then /good: it is linked to this correction, and learns the reasoning"
        case "retried":
            return "/good where the new answer is right, else ask again: it is linked, and learns the reasoning"
        case "linked":
            return "machine train validate"
        case _:
            return "machine corrections"


def _listed(ledger: Ledger) -> Report:
    read = ledger.read()
    if not read.corrections:
        return Report(
            title="No corrections yet",
            notes=damaged(read),
            next_step='/correction "what was wrong" after an answer that was',
            data={"corrections": []},
        )
    newest = read.corrections[::-1]
    lines = [
        (each.id, each.state, one_line(each.opened.question, 32), one_line(each.opened.words, 32), _reasoning(each, 40))
        for each in newest
    ]
    pending = sum(each.pending for each in newest)
    return Report(
        title=f"{len(newest)} correction(s), {pending} pending",
        tables=[Table("newest first", ("id", "state", "question", "what was wrong", "reasoning"), lines)],
        notes=damaged(read),
        data={
            "corrections": [
                {
                    "id": each.id,
                    "state": each.state,
                    "at": each.opened.at,
                    "question": each.opened.question,
                    "words": each.opened.words,
                    "reasoning": each.approved.reasoning if each.approved else None,
                }
                for each in newest
            ],
            "damaged": [line for line, _ in read.damaged],
        },
        next_step="machine corrections ID"
        if not pending
        else "machine correction --resume ID, machine corrections drop ID",
    )


def _reasoning(correction: Correction, width: int) -> str:
    return one_line(correction.approved.reasoning, width) if correction.approved else ""


def _origin(correction: Correction, approved: Approved) -> str:
    source = next((each for each in correction.of(Proposed) if each.proposal == approved.proposal), None)
    match approved.origin:
        case "written":
            said = "in your own words"
        case "proposed":
            said = f"as {source.evidence.model} proposed it" if source else "as proposed"
        case _:
            said = f"edited by you, first by {source.evidence.model}" if source else "edited by you"
    return f"{said}; set aside: {', '.join(approved.overridden)}" if approved.overridden else said


def _when(event: Event) -> str:
    return event.at[:19].replace("T", " ")


def _step(event: Event) -> tuple[str, str]:
    """What an event was, and its details."""
    match event:
        case Opened():
            return "rejected", f"{event.words or 'no words'} (rows {', '.join(event.rows)})"
        case Proposed():
            seen = event.evidence
            said = event.diagnosis
            tokens = f"{seen.input_tokens} + {seen.output_tokens} tokens, ${seen.cost:.4f}"
            return f"proposal {event.proposal}", " · ".join(
                [
                    event.reasoning,
                    f"did: {said.did}",
                    f"wanted: {said.wanted}",
                    f"went wrong at message {said.message}",
                    f"{seen.model}, {seen.contract}, prompt {seen.prompt[:12]}, {seen.attempts} attempt(s), {tokens}",
                    _gates(event.caught),
                ]
            )
        case NotProposed():
            return "no proposal", f"{event.model}: {event.why}"
        case Declined():
            return "rejected the proposals", ""
        case Approved():
            return f"approved ({event.origin})", f"{event.reasoning} · {_gates(event.caught, event.overridden)}"
        case Retry():
            return "retried", f"{event.outcome}, by {event.model}{f': {event.detail}' if event.detail else ''}"
        case Linked():
            return "linked", f"{', '.join(event.rows)} ({event.how})"
        case Unlinked():
            return "unlinked", "its good turn was tagged otherwise"
        case Dropped():
            return "dropped", event.why


def _gates(caught: Sequence[Caught], overridden: Sequence[str] = ()) -> str:
    if not caught:
        return f"passes all {len(RULES)} gates"
    said = "; ".join(f"{each.rule}: {each.reason}" for each in caught)
    return f"fails {said}" + (f"; set aside: {', '.join(overridden)}" if overridden else "")
