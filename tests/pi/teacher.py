"""What the tests of completions and retries share: two models of a scripted provider, and a world whose `/machine ask`
calls a method of the host (`asker.py`)."""

import json
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

from pi.harness import Pi, Record, World
from pi.scripted import Server, _Handler

ASKER = Path(__file__).parent / "asker.py"
TEACHER = "scripted/org/teacher"
HINT = "Have you looked at the file first?"
REASONING = {"reasoning": True, "compat": {"supportsReasoningEffort": True}}


class Teacher(Server):
    """The scripted server, with more scripts: `break ...`, `cut ...`, `think ...`, `blank ...`."""

    def __init__(self) -> None:
        super().__init__()
        self.hung_up = threading.Event()
        self._http.RequestHandlerClass = type("Bound", (_Teacher,), {"owner": self})

    def wait(self, timeout: float = 10) -> None:
        """Waits until something is asked."""
        deadline = time.monotonic() + timeout
        while not self.requests:
            assert time.monotonic() < deadline, "nothing was asked"
            time.sleep(0.02)

    def pi_models(self) -> dict[str, Any]:
        """Two models of one provider, a paid teacher among them; of another; and of one that nobody has a key for."""
        cost = {"input": 100_000, "output": 200_000, "cacheRead": 0, "cacheWrite": 0}
        models = super().pi_models()
        [own] = models["providers"]["scripted"]["models"]
        own |= REASONING | {"input": ["text", "image"]}
        teacher = {**own, "id": "org/teacher", "name": "Teacher", "cost": cost}
        models["providers"]["scripted"]["models"].append(teacher)
        models["providers"]["other"] = models["providers"]["scripted"]
        models["providers"]["keyless"] = {**models["providers"]["scripted"], "apiKey": "$NOBODY_HAS_SET_THIS"}
        return models


class _Teacher(_Handler):
    owner: ClassVar[Teacher]

    def send_response(self, code: int, message: str | None = None) -> None:
        last = json.dumps(self.owner.requests[-1]["messages"][-1])
        super().send_response(500 if '"break' in last else code, message)

    def _stream(self, asked: str, messages: list[dict[str, Any]]) -> None:
        if asked.startswith("cut"):
            self._event({"role": "assistant", "content": "half of"})
            self._end("length")
        elif asked.startswith("think"):
            self._event({"role": "assistant", "reasoning_content": "a thought"})
            self._say("the answer")
        elif asked.startswith("blank"):
            self._say(" ")
        else:
            try:
                super()._stream(asked, messages)
            except OSError:
                self.owner.hung_up.set()
                raise


def install(world: World) -> World:
    """Has the world's Pi run this file as Machine's Python."""
    python = world.base / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{ASKER}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    world.extra |= {"MACHINE_PYTHON": str(python), "ASK": str(world.base / "ask.json")}
    return world


def write(world: World, method: str, **words: Any) -> str:
    """The command that calls the host's `method` with `words`."""
    (world.base / "ask.json").write_text(json.dumps({"method": method, "words": words}))
    return "/machine ask"


def ask(pi: Pi, world: World, method: str, **words: Any) -> Record:
    """What the host's `method` returns; the message that the user gets where it raises, as `error`."""
    start = len(pi.records)
    pi.prompt(write(world, method, **words))
    return answer(pi, start)


def answer(pi: Pi, start: int) -> Record:
    """What `/machine ask` says after record `start`, waiting for it if need be."""
    said = pi.wait(lambda r: r.get("method") == "notify" and r["message"].startswith(("{", "failed: ")), start=start)
    text = said["message"]
    return json.loads(text) if text.startswith("{") else {"error": text.removeprefix("failed: ")}
