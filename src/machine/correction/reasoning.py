"""Reasoning: an approved reasoning becomes a thinking part in front of the first target of a turn."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from machine.capture.rows import new_id, now
from machine.privacy.redact import Names, redacted
from machine.privacy.sources import Sources
from machine.trace import Edit, Row, canonical, digest, well_formed


def with_correction(rows: Sequence[Row], correction: str, reasoning: str | None) -> list[Row]:
    """The rows of a turn that answers a correction, its approved `reasoning` in front of the turn's first target."""
    named = [structs.replace(row, correction=correction) for row in rows]
    if reasoning is not None:
        named[0] = _reasoned(named[0], reasoning)
    return named


def with_answer(rows: Sequence[Row], answer: str, sources: Sources | None = None, names: Names | None = None) -> Row:
    """The good row of a rejected turn whose answer the user gave (`--as`): only that answer is learnt.

    `rows` are the turn's, in order; what it did before its last message stays as context, the calls of that message go.
    The answer's secrets are replaced, `sources` among them; those of the turn are as `names` has them.
    """
    last = rows[-1]
    at = last.target[-1]
    [clean], found = redacted([well_formed(answer)], sources, names or _taken(last))
    message = {key: value for key, value in last.messages[at].items() if key != "tool_calls"} | {"content": clean}
    messages = (*last.messages[:at], message)
    edits = [edit for edit in last.edits if edit.kind != "not_a_target"]
    edits += [Edit("redacted", f"{finding.rule} at messages[{at}].content") for finding in found]
    edits.append(Edit("answer_replaced", "--as of a correction; its calls were left out", at))
    if before := ", ".join(map(str, last.target[:-1])):
        edits.append(Edit("not_a_target", f"the turn was rejected: its replaced answer is learnt, not {before}"))
    return structs.replace(
        last,
        id=new_id(),
        tag="good",
        messages=messages,
        target=(at,),
        created_at=now(),
        digest=digest(messages, last.tools, (at,)),
        edits=tuple(edits),
    )


def _taken(row: Row) -> Names:
    """Names that give no number which a placeholder of the row has already."""
    names = Names()
    names.leave([canonical([row.messages, row.tools, row.note]).decode()])
    return names


def _reasoned(row: Row, reasoning: str) -> Row:
    at = row.target[0]
    messages = (*row.messages[:at], _thought(row.messages[at], reasoning), *row.messages[at + 1 :])
    edit = Edit("reasoning_added", f"the reasoning that was approved in correction {row.correction}", at)
    changed = digest(messages, row.tools, row.target)
    return structs.replace(row, messages=messages, edits=(*row.edits, edit), digest=changed)


def _thought(message: dict[str, Any], reasoning: str) -> dict[str, Any]:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
    return {**message, "content": [{"type": "thinking", "thinking": reasoning}, *parts]}
