"""The flow: the dialogs of a correction, from a diagnosis to an approved reasoning and a retried turn.

Every step is in the ledger before the next one begins, so that it can be left anywhere and taken up again.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from machine.correction.contributor import caught_by, propose
from machine.correction.gates import Moment
from machine.correction.ledger import Approved, Caught, Correction, Declined, Event, Ledger, Proposed, Retry
from machine.correction.moment import calls_of, text_of
from machine.errors import Refused
from machine.host import Host
from machine.report import one_line
from machine.trace import Row

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

Origin = Literal["proposed", "edited", "written"]


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
            Refused: it fails gates that `overridden` does not name; nothing is approved.
        """
        caught = caught_by(reasoning, self.moment)
        open_ = [each for each in caught if each.rule not in overridden]
        if open_:
            names = " ".join(f"--override {each.rule}" for each in open_)
            raise Refused(
                "the reasoning is not approved: " + "; ".join(f"{each.rule}: {each.reason}" for each in open_),
                next_step=f"mend it, or set the gates aside by name: machine correction --resume {self.correction.id} "
                f'--reasoning "..." {names}',
            )
        self._approved(reasoning, "written", None, caught)

    def ask(self) -> None:
        """Asks for proposals and lets the user choose, until a reasoning is approved, rejected or left."""
        if not self.correction.of(Proposed) or self._declined:
            self._propose("")
        while self.correction.approved is None:
            shown = self._proposals()
            choice = self.host.select(self._said(shown), self._options(shown))
            if choice is None or choice == LEAVE:
                return
            if choice == REJECT:
                return self._say(Declined(correction=self.correction.id))
            if choice == AGAIN:
                wish = self.host.input("What should be different?", "may be empty")
                if wish is not None:
                    self._propose(wish)
            elif choice == WRITE:
                self._edited("", None)
            else:
                verb, proposal = self._chosen(choice, shown)
                if verb == APPROVE:
                    self._gated(proposal.reasoning, proposal.proposal, proposal.caught)
                else:
                    self._edited(proposal.reasoning, proposal.proposal)

    def retry(self, ask: bool = True) -> bool:
        """Has the teacher do the turn again, if the user wants it, and says whether the user finds the answer good.

        Without `ask` it is wanted already.
        """
        approved = self.correction.approved
        if approved is None or (ask and not self._wants_retry()):
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
            self._say(
                Retry(
                    correction=self.correction.id,
                    outcome=retried.outcome,
                    model=retried.model,
                    leaf=retried.leaf,
                    detail=retried.detail,
                )
            )
            good = retried.outcome == "answered"
            options = [GOOD, ONCE_MORE, LEAVE_ANSWER] if good else [ONCE_MORE, LEAVE_ANSWER]
            choice = self.host.select(_ended(retried.outcome, retried.model, retried.detail), options)
            if choice != ONCE_MORE:
                return choice == GOOD

    @property
    def _declined(self) -> bool:
        """Whether the user wants none of what was proposed so far."""
        told = [type(event) for event in self.correction.events if isinstance(event, Proposed | Declined)]
        return bool(told) and told[-1] is Declined

    def _say(self, event: Event) -> None:
        self.correction.events.append(self.ledger.append(event))

    def _propose(self, wish: str) -> None:
        self.host.progress("Asking for a reasoning …")
        try:
            for event in propose(self.host, self.correction, self.rows, self.moment, self.models, wish):
                self._say(event)
                if not isinstance(event, Proposed):
                    self.host.notify(f"No reasoning from {event.model}: {event.why}", "warning")
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
        lines = [f"Did: {said.did}", f"Wanted: {said.wanted}", f"Went wrong at: {self._step(said.message)}", ""]
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

    def _edited(self, text: str, proposal: int | None) -> None:
        written = self.host.editor("The reasoning that the agent should have had", text)
        if written is None or not written.strip():
            return
        written = written.strip()
        self._gated(written, proposal, caught_by(written, self.moment))

    def _gated(self, reasoning: str, proposal: int | None, caught: Sequence[Caught]) -> None:
        """Approves a reasoning that no gate holds, or that the user wants all the same."""
        while caught:
            names = ", ".join(each.rule for each in caught)
            aside = f"Approve all the same: set aside {names}"
            title = "\n".join([reasoning, "", *_failing(caught)])
            choice = self.host.select(title, [EDIT, BACK, aside])
            if choice == aside:
                break
            written = self.host.editor("The reasoning, mended", reasoning) if choice == EDIT else None
            if written is None or not written.strip():
                return
            reasoning = written.strip()
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

    def _wants_retry(self) -> bool:
        session = self.host.session()
        if not self.host.interactive or session is None or session.session != self.correction.opened.session:
            return False
        who = self.teacher or "The model that you work with"
        lines = [f"{who} can do the turn again, from before it; what was rejected stays in the session's tree."]
        if self.rows[0].tools:
            lines.append("Its tools run for real and may change files. Machine resets nothing.")
        if changes := uncommitted(session.cwd):
            lines.append(f"The work tree has {changes} uncommitted change(s), maybe of the rejected turn: look first.")
        return self.host.select("\n".join(lines), [NOT_NOW, RETRY] if changes else [RETRY, NOT_NOW]) == RETRY


def uncommitted(folder: Path) -> int:
    """How many files of the git work tree at `folder` have changes that are in no commit; 0 where there is no git."""
    try:
        status = subprocess.run(
            ["git", "-C", str(folder), "status", "--porcelain", "-z", "--untracked-files=normal"],
            capture_output=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(1 for change in status.stdout.split(b"\0") if change)


def _failing(caught: Sequence[Caught]) -> list[str]:
    return [f"Fails {each.rule}: {each.reason}" for each in caught]


def _ended(outcome: str, model: str, detail: str) -> str:
    match outcome:
        case "answered":
            return f"{model} did the turn again. Is its answer good?"
        case "aborted":
            return "The retry was stopped."
        case "not_started":
            return "The retry did not start."
        case _:
            return f"The retry failed: {one_line(detail, 200)}"
