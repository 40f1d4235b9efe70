"""Scan: the last look for secrets in what is about to leave the machine."""

from collections.abc import Iterable
from typing import Any, Protocol

from machine.errors import Refused
from machine.privacy.redact import Finding, redacted
from machine.privacy.sources import Sources


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


def refuse_secrets(conversations: Iterable[Conversation], next_step: str, sources: Sources | None = None) -> None:
    """Scans conversations as the pool scans rows.

    Raises:
        Refused: one holds a secret; the message names the rule and the place (and the fingerprint by which it may be
            allowed, where the sources make one), never the secret.
    """
    for each in conversations:
        if (found := secret_in(each, sources)) is not None:
            raise Refused(f"{each.id} holds a secret ({found}); nothing was sent", next_step=next_step)


def refuse_secret_texts(texts: Iterable[tuple[str, str]], next_step: str, sources: Sources | None = None) -> None:
    """Scans texts, each with its name: what tokens spell, or what a file will hold.

    Raises:
        Refused: one holds a secret; the message names the rule and the text, never the secret.
    """
    for name, text in texts:
        if (found := _first(redacted(text, sources)[1])) is not None:
            raise Refused(f"{name} holds a secret ({found}); nothing was sent", next_step=next_step)


def secret_in(conversation: Conversation, sources: Sources | None = None) -> str | None:
    """The rule and the place of the first secret in a conversation, never the secret; None where there is none."""
    _, findings = redacted({"messages": list(conversation.messages), "tools": list(conversation.tools)}, sources)
    return _first(findings)


def _first(findings: list[Finding]) -> str | None:
    if not findings:
        return None
    mark = findings[0].fingerprint
    return f"{findings[0]}, fingerprint {mark}" if mark else str(findings[0])
