"""Moment: what a gate judges a reasoning against, and the finding that it gives."""

from collections.abc import Sequence
from dataclasses import dataclass

from machine.privacy.sources import Sources


@dataclass(frozen=True)
class Moment:
    """What was there when the turn was decided, and what came later."""

    context: Sequence[str]
    """Every text that the model could see before its first target: system prompt, messages, tool results, calls."""
    question: str
    """The user's message that began the turn."""
    later: Sequence[str]
    """What came after: the turn's own answers, calls and tool results."""
    correction: str
    """The user's words of what was wrong; empty if there are none."""
    answer: str = ""
    """What the answer should have been, where somebody said it."""
    observed: Sequence[str] = ()
    """The hidden reasoning of the observed model in that turn. It is looked at and never kept."""
    sources: Sources | None = None
    """What is secret in the project, beside the known forms; None: what this process's environment holds."""


@dataclass(frozen=True)
class Finding:
    """A gate that a reasoning fails: the rule's id, and in plain words what is wrong and where."""

    rule: str
    reason: str
