"""Repairs: what base, candidate and control did with each repository of a suite, side by side (see `sides`)."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from machine.agentic.attempt import Attempt
from machine.agentic.kept import TRANSCRIPTS, Header, read_attempts
from machine.errors import MachineError
from machine.page import count
from machine.release.sides import ARMS, Answer, Asked, Room, Shown, Sides


def of_repairs(name: str, gates: Path, room: Room) -> Sides:
    """A suite of repositories, from the folders `<name>-<arm>/` of a gate run's folder.

    Args:
        name: of the suite.
        gates: the folder.
        room: less is left of it afterwards.
    """
    found, tried = Sides(name), dict[str, dict[str, Attempt]]()
    for arm in ARMS:
        folder = gates / f"{name}-{arm}"
        if arm == "control" and not folder.exists():
            continue
        try:
            header, attempts = read_attempts(folder)
        except MachineError as error:
            found.faults.append(f"The attempts of the {arm} cannot be shown: {error.message}.")
            continue
        tried[arm] = {attempt.task: attempt for attempt in attempts}
        found.facts.append((arm, _fact(header, attempts)))

    def asked(task: str) -> Asked:
        arms = [(arm, [_answer(arm, name, each[task], room)]) for arm, each in tried.items() if task in each]
        return Asked(task, Shown(), Shown(), arms)

    found.fill({arm: {id: float(a.passed) for id, a in each.items()} for arm, each in tried.items()}, asked, room)
    return found


def _fact(header: Header, attempts: Sequence[Attempt]) -> str:
    """Who mended how many, in words."""
    mended = f"{sum(each.passed for each in attempts)} of {len(attempts)} mended"
    boxes = ", ".join(sorted({each.box for each in attempts}))
    if attempts:
        turns, seconds = median(each.turns for each in attempts), median(each.seconds for each in attempts)
        mended += f", median {turns:g} turns and {seconds:.0f} s"
    prompted = ", asked for the behaviour in its system prompt" if header.instruction else ""
    return f"{mended}; {header.model}{prompted}, Pi {header.pi}" + (f", in {boxes}" if boxes else "")


def _answer(arm: str, suite: str, attempt: Attempt, room: Room) -> Answer:
    calls = ", ".join(f"{tool} {number}" for tool, number in attempt.tools.items())
    invalid = f", {attempt.invalid_calls} of them invalid" if attempt.invalid_calls else ""
    lines = [
        attempt.why,
        f"{attempt.calls} tool calls{invalid}" + (f" ({calls})" if calls else ""),
        *_paths("Changed", attempt.changed),
        *_paths("OUTSIDE THE TASK", attempt.outside),
        *_paths("Kept from reaching", attempt.refused),
    ]
    if attempt.error:
        lines.append(f"Last request failed: {attempt.error}")
    tokens = attempt.prompt_tokens + attempt.completion_tokens
    turns = "1 turn" if attempt.turns == 1 else f"{attempt.turns} turns"
    note = f"{turns}, {count(tokens)} tokens, {attempt.seconds:.0f} s"
    ended = f", code {attempt.check_code}" if attempt.check_code is not None else ""
    folds = [(f"what the repository's check printed{ended}", attempt.check_output), ("Pi's stderr", attempt.stderr)]
    shown = room.take("\n".join(line for line in lines if line))
    return Answer(
        arm,
        attempt.passed,
        note,
        shown,
        folds=[(title, room.take(text)) for title, text in folds if text.strip()],
        file=f"{suite}-{arm}/{TRANSCRIPTS}/{attempt.transcript}",
    )


def _paths(title: str, paths: Sequence[str]) -> list[str]:
    return [f"{title}: {', '.join(paths)}"] if paths else []
