"""Scan: the last look for secrets in what is about to leave the machine."""

from collections.abc import Iterable
from typing import Any, Protocol

from machine.errors import Refused
from machine.privacy.redact import redacted


class Conversation(Protocol):
    """A row, a case of an evaluation, or what a judge is asked: what a service is sent of it."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        """Its messages."""

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """Its tool schemas."""


def refuse_secrets(conversations: Iterable[Conversation], next_step: str) -> None:
    """Scans conversations as the pool scans rows.

    Raises:
        Refused: one holds a secret; the message names the rule and the place, never the secret.
    """
    for each in conversations:
        if (found := secret_in(each)) is not None:
            raise Refused(f"{each.id} holds a secret ({found}); nothing was sent", next_step=next_step)


def secret_in(conversation: Conversation) -> str | None:
    """The rule and the place of the first secret in a conversation, never the secret; None where there is none."""
    _, findings = redacted({"messages": list(conversation.messages), "tools": list(conversation.tools)})
    return f"{findings[0].rule} at {findings[0].place}" if findings else None
