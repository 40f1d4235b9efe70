"""Attempt: one task tried by one model in the real Pi, in a box, and judged in another.

What the model does wrong is a result: nonsense, a loop to the limit of time or requests, a break-out that the box ends.
What the service does wrong is no attempt: the statuses of the model's requests tell the two apart.
"""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from machine.agentic.events import Heard, heard
from machine.agentic.pi import Installed, Model, check, job
from machine.agentic.task import Repository
from machine.agentic.verdict import Verdict, judged
from machine.errors import ServiceError, TrainingError
from machine.sandbox.job import Box, Limits, Outcome

CHECK_SECONDS = 60.0
"""How long a repository's own check may run."""
_STDERR = 2000
_SHORTEST_KEY = 8
"""Characters: a shorter one (a local server's "none") may well occur by chance."""
_TOO_LONG = (400, 413, 422)
"""How services refuse a conversation that has outgrown the model's context."""
_STEPS = {
    400: "see what the service says, then run the command again: it goes on here",
    401: "check the service's key, then run the command again: it goes on here",
    402: "check the account's billing, then run the command again: it goes on here",
    403: "check what the service's key may do, then run the command again: it goes on here",
    404: "check that the service still has the model or checkpoint, then run the command again: it goes on here",
    429: "wait until the service takes requests again, then run the command again: it goes on here",
}
_STEP = "check that the service runs (`machine doctor`), then run the command again: it goes on here"


class Attempt(msgspec.Struct, frozen=True):
    """One task tried by one model, kept whole.

    `passed` and `why` are the verdict; `ended` is how the box ended (`exited`, or the limit that was met). `turns` are
    the model's answers, `calls` its tool calls, by tool in `tools`; `invalid_calls` are those that could not run.
    `seconds` is the wall time of the box with Pi in it. `changed` and `outside` are paths of the repository; `refused`
    is what the box kept from being reached; `error` is what Pi says that its last request failed with. `transcript` is
    the file of Pi's events, in the folder `transcripts` beside; `stderr` is the tail of Pi's.
    """

    task: str
    digest: str
    model: str
    passed: bool
    why: str
    ended: str
    turns: int
    calls: int
    invalid_calls: int
    tools: dict[str, int]
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    changed: tuple[str, ...]
    outside: tuple[str, ...]
    check_code: int | None
    check_output: str
    refused: tuple[str, ...]
    box: str
    transcript: str
    stderr: str = ""
    error: str = ""
    created_at: str = ""


def tried(pi: Installed, model: Model, repository: Repository, box: Box, limits: Limits) -> tuple[Attempt, bytes]:
    """Has the model try a task; returns the attempt and Pi's events.

    Raises:
        ServiceError: the service failed, so that nothing can be said of the model.
        TrainingError: Pi asked the model nothing.
        MachineError: the box cannot run it.
    """
    task = repository.task
    outcome = box.run(job(pi, model, repository.prompt, repository.files, limits))
    events = _without(model.door.key, outcome.stdout)
    said = heard(events)
    ensure_asked(task.id, outcome, said)
    verdict = verdict_of(repository, outcome.files, outcome.odd, box)
    attempt = Attempt(
        task=task.id,
        digest=task.digest,
        model=model.name,
        passed=verdict.passed,
        why=verdict.why if verdict.passed else "; ".join(filter(None, [_end(outcome, said), verdict.why])),
        ended=outcome.ended,
        turns=said.turns,
        calls=said.calls,
        invalid_calls=said.invalid,
        tools=said.tools,
        prompt_tokens=said.prompt_tokens,
        completion_tokens=said.completion_tokens,
        seconds=round(outcome.seconds, 3),
        changed=tuple(verdict.changed),
        outside=tuple(verdict.outside),
        check_code=verdict.check_code,
        check_output=verdict.check_output,
        refused=outcome.refused,
        box=outcome.box,
        transcript=f"{task.id}.jsonl",
        stderr=_without(model.door.key, outcome.stderr)[-_STDERR:].decode(errors="replace"),
        error=said.error,
    )
    return attempt, events


def _without(key: str, said: bytes) -> bytes:
    """What Pi said without the key, which a service may name in an error."""
    return said.replace(key.encode(), b"[key]") if len(key) >= _SHORTEST_KEY else said


def verdict_of(repository: Repository, files: Mapping[str, bytes], odd: tuple[str, ...], box: Box) -> Verdict:
    """Judges what is left of a repository; its check runs in a fresh box that has no model."""
    limits = replace(Limits(), seconds=CHECK_SECONDS, requests=0)

    def run_check(files: Mapping[str, bytes], argv: tuple[str, ...]) -> tuple[int | None, str]:
        outcome = box.run(check(tuple(argv), files, limits))
        output = (outcome.stdout + outcome.stderr).decode(errors="replace")
        return (outcome.code, output) if outcome.ended == "exited" else (None, f"{output}\nended: {outcome.ended}")

    return judged(repository, files, odd, run_check)


def ensure_asked(task: str, outcome: Outcome, said: Heard) -> None:
    """Raises where what happened says nothing of the model.

    Raises:
        ServiceError: the service failed.
        TrainingError: Pi did not ask.
    """
    if not outcome.requests and outcome.ended != "time":
        tail = outcome.stderr[-_STDERR:].decode(errors="replace").strip()
        raise TrainingError(
            f"task {task}: Pi ended ({outcome.ended}, code {outcome.code}) before it asked the model anything"
            + (f": {tail}" if tail else ""),
            next_step="machine doctor",
        )
    fault = _fault(outcome, said)
    if fault:
        status = outcome.requests[-1].status if outcome.requests else 0
        words = f"task {task}: the service {fault}" + (f": {said.error}" if said.error else "")
        raise ServiceError(words, next_step=_STEPS.get(status, _STEP))


def _fault(outcome: Outcome, said: Heard) -> str:
    """What the service did wrong in the end, in words; empty where it is the model's attempt that ended.

    Pi's own word comes before the statuses, since what the model runs can ask the service too.
    """
    if outcome.ended == "time" and not said.turns:
        return f"gave no answer in {outcome.seconds:.0f} s"
    if outcome.ended != "exited" or not said.error:
        return ""
    status = outcome.requests[-1].status
    if said.turns and status in _TOO_LONG:
        return ""
    return "broke off its answer" if 200 <= status < 300 else f"answered with HTTP {status}"


def _end(outcome: Outcome, said: Heard) -> str:
    """How an attempt came to an end before the model had done with it; empty where it said so itself."""
    if outcome.ended == "broken":
        return "what it ran broke the box"
    if outcome.ended != "exited":
        return f"ended by the limit of {outcome.ended}"
    if said.error:
        return f"the last request failed: {said.error[:300]}"
    return "its last answer was cut off at the limit of tokens" if said.stop == "length" else ""
