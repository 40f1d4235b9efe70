"""PiHost: `machine.host.Host` for a command that was called in Pi."""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, cast

from machine.errors import Refused, ServiceError
from machine.host import Chosen, Completion, Level, LiveSession, Retried, Selection
from machine.report import Report, as_markdown, as_text, printable
from machine.rpc import GONE, Peer, RpcError
from machine.slash import as_typed_in_pi

SESSION = "session"
"""The context of whichever session Pi is in; a command has a context of its own, which ends with its session."""

NO_MODEL, REFUSED, FAILED = -32002, -32003, -32000
"""What `extension/errors.ts` says of a request that Pi could not fulfil; `FAILED` is any other."""

LEVELS: dict[int, Level] = {0: "info", 1: "error", 2: "warning"}


class SessionReplaced(Refused):
    """The user left the session while a command of it was waiting for an answer."""

    def __init__(self) -> None:
        super().__init__(
            "the session was replaced while the command was running",
            next_step="run the command again, in the session that it is about",
        )


class PiHost:
    """Asks Pi over `peer`, in the context `ctx` that the command was called in."""

    LINE_SECONDS = 2.0
    """In headless Pi, one line of progress at most in this time."""

    def __init__(self, peer: Peer, ctx: str) -> None:
        self._peer = peer
        self._ctx = ctx
        self._detailed = False
        self._next_line = 0.0
        self._info: dict[str, Any] = self._ask("session.info")

    @property
    def cwd(self) -> Path:
        """The folder that Pi works in."""
        return Path(self._info["cwd"])

    @property
    def interactive(self) -> bool:
        """True in Pi's terminal and RPC modes, false in print and JSON mode."""
        return bool(self._info["hasUI"])

    def session(self) -> LiveSession:
        """Pi's session as it stands now.

        Pi writes the file of a session with its first answer: until then, and in a session that is not kept, the
        entries come along.
        """
        info = self._info = self._ask("session.info")
        file = Path(info["file"]) if info["file"] else None
        unsaved = file is None or not file.exists()
        return LiveSession(
            host="pi",
            host_version=info["piVersion"] or "unknown",
            session=info["id"],
            cwd=Path(info["cwd"]),
            file=None if unsaved else file,
            leaf=info["leaf"],
            idle=info["idle"],
            entries=self._ask("session.branch") if unsaved else None,
            system_prompt=self._ask("pi.systemPrompt"),
            tools=self._ask("pi.tools"),
        )

    def confirm(self, title: str, message: str = "") -> bool:
        """Asks yes or no."""
        return bool(self._ask("ui.confirm", title=printable(title), message=printable(message)))

    def select(self, title: str, options: Sequence[str]) -> str | None:
        """Lets the user choose one of `options`."""
        shown = [printable(option) for option in options]
        chosen = cast(str | None, self._ask("ui.select", title=printable(title), options=shown))
        return options[shown.index(chosen)] if chosen in shown else chosen

    def input(self, title: str, placeholder: str = "") -> str | None:
        """One line of text."""
        return cast(str | None, self._ask("ui.input", title=printable(title), placeholder=printable(placeholder)))

    def editor(self, title: str, prefill: str = "") -> str | None:
        """Text of any length, in Pi's editor; what of `prefill` would not be seen there is spelt out."""
        return cast(str | None, self._ask("ui.editor", title=printable(title), prefill=printable(prefill)))

    def notify(self, message: str, level: Level = "info") -> None:
        """Shows `message` in Pi's chat, or on stderr of a headless Pi."""
        self._tell("ui.notify", message=printable(message), level=level)

    def progress(self, message: str | None, detail: Sequence[str] = ()) -> None:
        """Shows `message` in Pi's footer and `detail` above its editor; headless, a line on stderr now and then."""
        message = None if message is None else printable(message)
        if not self.interactive:
            if message is not None and time.monotonic() >= self._next_line:
                self._tell("ui.notify", message=message, level="info")
                self._next_line = time.monotonic() + self.LINE_SECONDS
            return
        self._tell("ui.setStatus", text=message)
        if detail or self._detailed:
            self._tell("ui.setWidget", lines=[printable(line) for line in detail] or None)
        self._detailed = bool(detail)

    def complete(
        self,
        system: str,
        said: Sequence[tuple[Literal["user", "assistant"], str]],
        model: str | None = None,
        max_tokens: int = 4096,
    ) -> Completion | None:
        """One answer of one of Pi's models, with Pi's keys, no tools, no thinking; within two minutes."""
        messages = [list(message) for message in said]
        answer = self._ask_model("model.complete", system=system, said=messages, model=model, maxTokens=max_tokens)
        return Completion(
            text=answer["text"],
            model=answer["model"],
            input_tokens=answer["inputTokens"],
            output_tokens=answer["outputTokens"],
            cost=answer["cost"],
        )

    def retry(self, entry: str, hint: str, model: str | None = None) -> Retried | None:
        """Has Pi answer the user's message `entry` anew, on a branch of its own, as `extension/retry.ts` says."""
        ended = self._ask_model("turn.retry", entry=entry, hint=hint, model=model)
        return Retried(outcome=ended["outcome"], leaf=ended["leaf"], model=ended["model"], detail=ended["detail"])

    def selection(self) -> Selection | None:
        """What Pi is set to, and was set to before, as `extension/student.ts` finds it in the session."""
        said = self._ask("model.now")
        now, before = (Chosen(**said[name]) if said[name] else None for name in ("now", "before"))
        return Selection(now, before, student=said["student"], follows=said["follows"], idle=said["idle"])

    def choose(self, wanted: Chosen, before: Chosen | None = None) -> None:
        """Has Pi set its model and its thinking level; `before` is noted in the session."""
        self._ask_model("model.choose", chosen=asdict(wanted), before=asdict(before) if before else None)

    def models_changed(self) -> None:
        """Lets Pi read the list of models anew, and says what is wrong with it."""
        for problem in self._ask("pi.registerProviders"):
            self.notify(problem, "warning")

    def show(self, report: Report) -> None:
        """Shows what a command has to say; a failure of a headless Pi becomes its exit code."""
        level = LEVELS.get(report.exit_code, "error")
        said = replace(report, next_step=as_typed_in_pi(report.next_step))
        parts = {"markdown": as_markdown(said), "text": as_text(said), "level": level}
        self._tell("report.show", **parts, exitCode=said.exit_code)

    def _ask(self, method: str, **params: Any) -> Any:
        try:
            return self._peer.call(method, ctx=self._ctx, **params)
        except RpcError as error:
            if error.code == GONE:
                raise SessionReplaced from error
            raise

    def _ask_model(self, method: str, **params: Any) -> Any:
        try:
            return self._ask(method, **params)
        except RpcError as error:
            if error.code == NO_MODEL:
                raise ServiceError(str(error), next_step="name a model that /model lists") from error
            if error.code == REFUSED:
                raise Refused(str(error), next_step="try again when Pi is idle, in the session of the turn") from error
            if error.code == FAILED:
                raise ServiceError(str(error), next_step="try again, or with another model") from error
            raise

    def _tell(self, method: str, **params: Any) -> None:
        """Says something that needs no answer, in the session that is there now if the command's own is gone."""
        for ctx in (self._ctx, SESSION):
            try:
                self._peer.call(method, ctx=ctx, **params)
            except RpcError as error:
                if error.code != GONE:
                    raise
            else:
                return
