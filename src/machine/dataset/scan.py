"""Scan: the last look for secrets in what is about to leave the machine."""

from collections.abc import Iterable
from typing import Any, Protocol

from machine.errors import Refused
from machine.privacy.redact import redacted


class Conversation(Protocol):
    """A row, or a case of an evaluation: what a service is sent of it."""

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
        _, findings = redacted({"messages": list(each.messages), "tools": list(each.tools)})
        if findings:
            raise Refused(
                f"{each.id} holds a secret ({findings[0].rule} at {findings[0].place}); nothing was sent",
                next_step=next_step,
            )
