"""The flow: the dialogs of a correction, from a diagnosis to an approved reasoning and a retried turn.

Every step is in the ledger before the next one begins, so that it can be left anywhere and taken up again.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from machine.capture.rows import text_of
from machine.correction.contributor import caught_by, propose
from machine.correction.gates import Moment
from machine.correction.ledger import (
    Approved,
    Caught,
    Correction,
    Declined,
    Event,
    Ledger,
    NotProposed,
    Proposed,
    Retry,
)
from machine.correction.moment import calls_of
from machine.errors import Refused
from machine.host import Host, LiveSession
from machine.privacy.redact import redacted
from machine.report import one_line, printable
from machine.trace import Row, well_formed

HINT = """\
A note for this request alone. Before you act, think the following through as your own thought, then act on it. Do not \
mention this note.

{reasoning}"""
"""What the teacher is told when it does the turn again; it stays out of the session."""

APPROVE, EDIT, AGAIN, WRITE, REJECT = "Approve", "Edit", "Ask again", "Write my own", "Reject"
LEAVE = "Leave it open"
BACK = "Back"
RETRY, NOT_NOW = "Do the turn again with this reasoning", "Not now"
GOOD, ONCE_MORE, LEAVE_ANSWER = "Good: keep it, linked to this correction", "Once more", "Leave it untagged"

NEVER = "hidden-reasoning"
"""The gate that nobody sets aside: what the observed model thought in private is kept nowhere."""

_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false")
"""Looks, locks nothing, and starts no program that the work tree's own settings name."""

Origin = Literal["proposed", "edited", "written"]
_Kind = TypeVar("_Kind", bound=Event)


@dataclass
class Flow:
    """One correction and what its dialogs need: `rows` of the rejected turn in order, the moment when it was decided.

    `models` are the contributors and `teacher` retries (None: the model that the user works with).
    """

    host: Host
    ledger: Ledger
    correction: Correction
    rows: Sequence[Row]
    moment: Moment
    models: Sequence[str | None] = (None,)
    teacher: str | None = None

    def approve(self, reasoning: str, overridden: Sequence[str] = ()) -> None:
        """Approves a reasoning that the user wrote, without a dialog.

        Raises:
            Refused: it fails gates that `overridden` does not name, or `NEVER`; nothing is approved.
        """
        reasoning = well_formed(reasoning).strip()
        caught = caught_by(reasoning, self.moment)
        failing = [each for each in caught if each.rule not in overridden or each.rule == NEVER]
        if failing:
            resume = f'machine correction --resume {self.correction.id} --reasoning "..."'
            names = " ".join(f"--override {each.rule}" for each in failing)
            raise Refused(
                "the reasoning is not approved: " + "; ".join(f"{each.rule}: {each.reason}" for each in failing),
                next_step=f"say it in your own words: {resume}"
                if _copies_hidden(failing)
                else f"mend it, or set the gates aside by name: {resume} {names}",
            )
        self._approved(reasoning, "written", None, caught)

    def ask(self) -> None:
        """Asks for proposals and lets the user choose, until a reasoning is approved, rejected or left."""
        if not self.correction.of(Proposed) or self._declined:
            self._propose("")
        while self.correction.approved is None:
            shown = self._proposals()
            choice = self._select(self._said(shown), self._options(shown))
            if choice is None or choice == LEAVE:
                return
            if choice == REJECT:
                self._say(Declined(correction=self.correction.id))
                return
            if choice == AGAIN:
                wish = self.host.input("What should be different?", "may be empty")
                if wish is not None:
                    self._propose(wish)
            elif choice == WRITE:
                self._edited("", None)
            else:
                verb, proposal = self._chosen(choice, shown)
                if verb == APPROVE:
                    self._gated(proposal.reasoning, proposal.proposal, self._caught_now(proposal))
                else:
                    self._edited(proposal.reasoning, proposal.proposal)

    def retry(self, ask: bool = True) -> bool:
        """Has the teacher do the turn again, if the user wants it, and says whether the user finds the answer good.

        Without `ask` it is wanted already: a user who is there is asked all the same where the work tree is dirty.
        """
        approved = self.correction.approved
        if approved is None or not self._wants_retry(ask):
            return False
        while True:
            self.host.progress("The turn is done again …")
            try:
                entry, hint = self.correction.opened.entries[0], HINT.format(reasoning=approved.reasoning)
                retried = self.host.retry(entry, hint, self.teacher)
            finally:
                self.host.progress(None)
            if retried is None:
                return False
            told = Retry(
                correction=self.correction.id,
                outcome=retried.outcome,
                model=retried.model,
                leaf=retried.leaf,
                detail=retried.detail,
            )
            options = [GOOD, ONCE_MORE, LEAVE_ANSWER] if told.outcome == "answered" else [ONCE_MORE, LEAVE_ANSWER]
            choice = self._select(_ended(self._say(told)), options)
            if choice != ONCE_MORE:
                return choice == GOOD

    @property
    def _declined(self) -> bool:
        """Whether the user wants none of what was proposed so far."""
        told = [type(event) for event in self.correction.events if isinstance(event, Proposed | Declined)]
        return bool(told) and told[-1] is Declined

    def _say(self, event: _Kind) -> _Kind:
        """Writes an event, and returns what may be shown of it: its secrets are redacted."""
        written = self.ledger.append(event)
        self.correction.events.append(written)
        return written

    def _select(self, title: str, options: Sequence[str]) -> str | None:
        """The option that the user chose; None where it is none of them, as a program may answer."""
        choice = self.host.select(printable(title), options)
        return choice if choice in options else None

    def _propose(self, wish: str) -> None:
        self.host.progress("Asking for a reasoning …")
        [wish], _ = redacted([well_formed(wish)], self.ledger.project.sources())
        told = 0
        try:
            for event in propose(self.host, self.correction, self.rows, self.moment, self.models, wish):
                told += 1
                written = self._say(event)
                if isinstance(written, NotProposed):
                    self.host.notify(printable(f"No reasoning from {written.model}: {written.why}"), "warning")
            if not told:
                self.host.notify("There is no model here that could propose a reasoning.", "warning")
        finally:
            self.host.progress(None)

    def _proposals(self) -> list[Proposed]:
        """The proposals that are on the table: the newest of each model since the last rejection."""
        newest: dict[str, Proposed] = {}
        for event in self.correction.events:
            if isinstance(event, Declined):
                newest.clear()
            elif isinstance(event, Proposed):
                newest[event.evidence.model] = event
        return list(newest.values())

    def _options(self, shown: Sequence[Proposed]) -> list[str]:
        marks = [""] if len(shown) == 1 else [f" {each.proposal}" for each in shown]
        choices = [f"{verb}{mark}" for mark in marks[: len(shown)] for verb in (APPROVE, EDIT)]
        return [*choices, WRITE, AGAIN, *([REJECT] if shown else []), LEAVE]

    def _chosen(self, choice: str, shown: Sequence[Proposed]) -> tuple[str, Proposed]:
        verb, _, number = choice.partition(" ")
        return verb, next(each for each in shown if not number or str(each.proposal) == number)

    def _said(self, shown: Sequence[Proposed]) -> str:
        """What a dialog shows above its options."""
        if not shown:
            return "No reasoning is proposed. What should the agent have noticed?"
        said = shown[-1].diagnosis
        lines = [
            f"Did: {one_line(said.did, 300)}",
            f"Wanted: {one_line(said.wanted, 300)}",
            f"Went wrong at: {self._step(said.message)}",
            "",
        ]
        for each in shown:
            lines += [f"Reasoning {each.proposal}, by {each.evidence.model}:", each.reasoning]
            lines += [*_failing(each.caught), ""]
        return "\n".join([*lines, "May the agent learn this reasoning?"])

    def _step(self, message: int) -> str:
        """What the agent did in a message of the turn, on one line."""
        messages = self.rows[-1].messages
        if message not in range(len(messages)):
            return f"message {message}"
        at = messages[message]
        calls = [f"{name} {arguments}" for name, arguments in calls_of(at)]
        return one_line("; ".join(calls) or text_of(at), 100)

    def _caught_now(self, proposal: Proposed) -> list[Caught]:
        """The gates that a proposal fails today, and those that it failed when it was made."""
        now = caught_by(proposal.reasoning, self.moment)
        rules = {each.rule for each in now}
        return [*now, *(each for each in proposal.caught if each.rule not in rules)]

    def _edited(self, text: str, proposal: int | None) -> None:
        written = self.host.editor("The reasoning that the agent should have had", text)
        if written is None or not (written := well_formed(written).strip()):
            return
        self._gated(written, proposal, caught_by(written, self.moment))

    def _gated(self, reasoning: str, proposal: int | None, caught: Sequence[Caught]) -> None:
        """Approves a reasoning that no gate holds, or that the user wants all the same."""
        while caught:
            names = ", ".join(each.rule for each in caught)
            aside = f"Approve all the same: set aside {names}"
            title = "\n".join([reasoning, "", *_failing(caught)])
            choice = self._select(title, [EDIT, BACK] if _copies_hidden(caught) else [EDIT, BACK, aside])
            if choice == aside:
                break
            written = self.host.editor("The reasoning, mended", reasoning) if choice == EDIT else None
            if written is None or not (reasoning := well_formed(written).strip()):
                return
            caught = caught_by(reasoning, self.moment)
        source = next((each for each in self.correction.of(Proposed) if each.proposal == proposal), None)
        origin: Origin = "written" if source is None else "proposed" if source.reasoning == reasoning else "edited"
        self._approved(reasoning, origin, proposal, caught)

    def _approved(self, reasoning: str, origin: Origin, proposal: int | None, caught: Sequence[Caught]) -> None:
        self._say(
            Approved(
                correction=self.correction.id,
                reasoning=reasoning,
                origin=origin,
                proposal=proposal,
                caught=tuple(caught),
                overridden=tuple(each.rule for each in caught),
            )
        )

    def _wants_retry(self, ask: bool) -> bool:
        session = self.host.session()
        if session is None or (ask and not self._is_here(session)):
            return False
        changes = uncommitted(session.cwd)
        if not ask and not (changes and self.rows[0].tools and self.host.interactive):
            return True
        who = self.teacher or "The model that you work with"
        lines = [f"{who} can do the turn again, from before it; what was rejected stays in the session's tree."]
        if self.rows[0].tools:
            lines.append("Its tools run for real and may change files. Machine resets nothing.")
        if changes:
            lines.append(f"The work tree has {changes} uncommitted change(s), maybe of the rejected turn: look first.")
        return self._select("\n".join(lines), [NOT_NOW, RETRY] if changes else [RETRY, NOT_NOW]) == RETRY

    def _is_here(self, session: LiveSession) -> bool:
        """Whether somebody can be asked, in the session of the turn."""
        return self.host.interactive and session.session == self.correction.opened.session


def uncommitted(folder: Path) -> int:
    """How many files of the git work tree at `folder` have changes that are in no commit; 0 where there is no git."""
    try:
        status = subprocess.run(
            [*_GIT, "-C", str(folder), "status", "--porcelain", "--untracked-files=normal"],
            capture_output=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return len(status.stdout.splitlines())


def _copies_hidden(caught: Sequence[Caught]) -> bool:
    return any(each.rule == NEVER for each in caught)


def _failing(caught: Sequence[Caught]) -> list[str]:
    return [f"Fails {each.rule}: {each.reason}" for each in caught]


def _ended(retried: Retry) -> str:
    detail = one_line(retried.detail, 200)
    match retried.outcome:
        case "answered":
            return f"{retried.model} did the turn again{f', but {detail}' if detail else ''}. Is its answer good?"
        case "aborted":
            return "The retry was stopped."
        case "not_started":
            return f"The retry did not start{f': {detail}' if detail else ''}."
        case _:
            return f"The retry failed: {detail}"
