"""Policy: what becomes of turns that hold secrets, as the project's settings say: redacted, refused, or asked about."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from machine.capture.rows import Captured
from machine.errors import Refused, StoreError
from machine.host import Host
from machine.privacy.redact import Finding, redacted
from machine.privacy.sources import Sources
from machine.store.project import Project
from machine.store.settings import Policy

REDACT = "Keep the turn without them"
ALLOW = "They are no secrets: keep the turn as it is, and never ask for these again"
DISCARD = "Do not keep the turn"
_NAMED = 5


@dataclass(frozen=True)
class Doorkeeper:
    """Lets the turns of one project in, one after another. Without a `host`, nobody can be asked."""

    project: Project
    host: Host | None = None

    def let_in(self, build: Callable[[Sources], Captured]) -> Captured:
        """What `build` makes of a turn with the project's sources, if it may be kept.

        Raises:
            Refused: the policy, or the user, does not want it.
            StoreError: the settings cannot be read or written.
        """
        captured = build(self._sources)
        if not captured.findings or self._policy == "redact":
            return captured
        said = spoken(captured.findings)
        if self._policy == "refuse":
            raise Refused(
                f"the turn holds {said}, and this project keeps no such turn",
                next_step="machine privacy policy redact, or machine privacy policy ask",
            )
        if self.host is None or not self.host.interactive:
            raise Refused(
                f"the turn holds {said}, and this project asks first; nobody is here to answer",
                next_step="tag it inside Pi, or machine privacy policy redact",
            )
        choice = self.host.select(f"The turn holds {said}.", [REDACT, ALLOW, DISCARD])
        if choice == ALLOW:
            allow(self.project, [finding.fingerprint for finding in captured.findings if finding.fingerprint])
            return build(self.project.sources())
        if choice != REDACT:
            raise Refused(f"the turn holds {said}; it is not kept", next_step="machine privacy")
        return captured

    @cached_property
    def _policy(self) -> Policy:
        return self.project.settings().privacy

    @cached_property
    def _sources(self) -> Sources:
        return self.project.sources(fingerprints=self._policy == "ask")


def allow(project: Project, fingerprints: Sequence[str]) -> tuple[str, ...]:
    """Adds to the fingerprints of what looks like a secret and is none; returns all that the project allows.

    Raises:
        StoreError: the settings cannot be read or written.
    """
    known = project.settings().allowed
    return project.set(allowed=tuple(dict.fromkeys([*known, *fingerprints]))).allowed


def plain(project: Project, reason: str) -> str:
    """Why something was refused, without the secrets that it may quote; those of the environment, at the least."""
    try:
        sources = project.sources()
    except StoreError:
        sources = None
    clean: str = redacted(reason, sources)[0]
    return clean


def spoken(findings: Sequence[Finding]) -> str:
    """How many secrets there are, by rule and place, the first of them named."""
    places = list(dict.fromkeys(map(str, findings)))
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return f"{len(places)} secret{'s' if len(places) > 1 else ''} ({', '.join(places[:_NAMED])}{more})"
