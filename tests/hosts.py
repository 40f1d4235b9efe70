"""A host whose person and whose models follow a script, for tests of what asks them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from machine.errors import MachineError
from machine.host import Chosen, Completion, LiveSession, Retried, Selection

COSTS = {"input_tokens": 100, "output_tokens": 20, "cost": 0.001}


class ScriptedHost:
    """Answers dialogs and model calls in order; a dialog that the script does not foresee is left (Escape).

    `answers` are (method, answer) pairs: a dialog of another kind than the next one is a fault of the test. An answer
    may be a function of the dialog's title; a text for `select` is the beginning of the option that is chosen.
    """

    def __init__(
        self,
        cwd: Path,
        answers: Sequence[tuple[str, Any]] = (),
        completions: Sequence[str | MachineError] = (),
        retries: Sequence[Retried] = (),
        live: Callable[[], LiveSession] | None = None,
        interactive: bool = True,
        selection: Selection | None = None,
    ) -> None:
        self.cwd = cwd
        self.interactive = interactive
        self.answers = list(answers)
        self.completions = list(completions)
        self.retries = list(retries)
        self.asked: list[tuple[str, str, Sequence[str]]] = []
        self.prompts: list[tuple[str, list[tuple[str, str]], str | None]] = []
        self.hints: list[tuple[str, str, str | None]] = []
        self.said: list[str] = []
        self.selected = selection
        self.chosen: list[tuple[Chosen, Chosen | None]] = []
        self._live = live

    def session(self) -> LiveSession | None:
        return self._live() if self._live else None

    def confirm(self, title: str, message: str = "") -> bool:
        return bool(self._answer("confirm", f"{title}\n{message}", ()))

    def select(self, title: str, options: Sequence[str]) -> str | None:
        answer = self._answer("select", title, options)
        if answer is None:
            return None
        return next(option for option in options if option.startswith(answer))

    def input(self, title: str, placeholder: str = "") -> str | None:
        return self._answer("input", title, ())

    def editor(self, title: str, prefill: str = "") -> str | None:
        return self._answer("editor", prefill, ())

    def notify(self, message: str, level: str = "info") -> None:
        self.said.append(message)

    def progress(self, message: str | None, detail: Sequence[str] = ()) -> None:
        pass

    def selection(self) -> Selection | None:
        return self.selected

    def choose(self, wanted: Chosen, before: Chosen | None = None) -> None:
        self.chosen.append((wanted, before))

    def models_changed(self) -> None:
        pass

    def complete(
        self, system: str, said: Sequence[tuple[str, str]], model: str | None = None, max_tokens: int = 4096
    ) -> Completion | None:
        if not self.completions:
            return None
        self.prompts.append((system, list(said), model))
        answer = self.completions.pop(0)
        if isinstance(answer, MachineError):
            raise answer
        return Completion(text=answer, model=model or "p/work", **COSTS)

    def retry(self, entry: str, hint: str, model: str | None = None) -> Retried | None:
        if not self.retries:
            return None
        self.hints.append((entry, hint, model))
        return self.retries.pop(0)

    def _answer(self, method: str, title: str, options: Sequence[str]) -> Any:
        self.asked.append((method, title, options))
        if not self.answers:
            return None
        wanted, answer = self.answers.pop(0)
        assert wanted == method, f"the script wants {wanted}, the dialog is {method}: {title}"
        return answer(title) if callable(answer) else answer
