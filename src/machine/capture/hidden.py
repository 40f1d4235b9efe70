"""Hidden reasoning: what the observed model thought in a turn, read so that nobody can learn it by accident.

It is held in memory only, to be compared with a reasoning that is about to be approved. Nothing here may reach a row,
the ledger or a message.
"""

from collections.abc import Iterable

from machine.capture.entries import value_of
from machine.capture.session import Session


def hidden_reasoning(session: Session, entries: Iterable[str]) -> list[str]:
    """The text of every thinking part of the answers among `entries`, in order; what is encrypted has none.

    Raises:
        SessionFault: the file has changed since it was indexed.
    """
    heads = [head for head in map(session.heads.get, entries) if head is not None and head.type == "message"]
    found: list[str] = []
    for _, record in session.load(heads):
        message = value_of(record).get("message")
        content = message.get("content") if isinstance(message, dict) and message.get("role") == "assistant" else None
        parts = content if isinstance(content, list) else []
        thoughts = [part.get("thinking") for part in parts if isinstance(part, dict) and part.get("type") == "thinking"]
        found += [thought for thought in thoughts if isinstance(thought, str) and thought.strip()]
    return found
