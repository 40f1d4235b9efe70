"""The last turn of a path: from the user's message that began it to the last answer.

The rule: the turn ends at the last assistant message that is still in the model's context, and starts at the last user
message before it that came when no run was under way. A user message right after a tool result steered a run, so it
belongs to the turn. `!commands`, custom messages, labels, model changes and the like neither start nor end a turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from machine.capture.session import Entry
from machine.errors import Refused

_FAILED = {"aborted": "was aborted", "error": "failed", "deferred": "was deferred"}


@dataclass(frozen=True)
class Turn:
    """Indices into the path: the user message that began the turn, and its last assistant message."""

    start: int
    end: int


def last_turn(path: Sequence[Entry]) -> Turn:
    """Finds the last turn.

    Raises:
        Refused: there is none, it has no answer yet, its last attempt failed, or a compaction lies inside it.
    """
    omitted = {e["targetId"] for e in path if e["type"] == "context_edit" and e.get("replacement") is None}
    spoken = [
        index
        for index, entry in enumerate(path)
        if entry["type"] == "message"
        and entry["message"]["role"] in ("user", "assistant", "toolResult")
        and entry["id"] not in omitted
    ]
    if not any(_role(path[i]) == "user" for i in spoken):
        raise Refused("there is no turn to tag in this session", next_step="ask something first, then tag the answer")
    end = spoken[-1]
    last = path[end]
    if _role(last) != "assistant":
        attempts = [entry for entry in path[end + 1 :] if entry["type"] == "message" and _role(entry) == "assistant"]
        tried = attempts[-1] if attempts else last
        why = _FAILED.get(tried["message"].get("stopReason"), "ended before it")
        raise Refused(
            f"the last turn has no answer: it {why} (entry {tried['id']})",
            next_step="send the question again, then tag",
        )
    reason = last["message"].get("stopReason")
    if reason in _FAILED:
        raise Refused(f"the last turn {_FAILED[reason]} (entry {last['id']})", next_step="send it again, then tag")
    starts = [
        index
        for before, index in zip([None, *spoken], spoken, strict=False)
        if _role(path[index]) == "user" and (before is None or _role(path[before]) != "toolResult") and index < end
    ]
    if not starts:
        raise Refused(
            f"no user message begins the turn that ends at entry {last['id']}",
            next_step="ask something, then tag the answer",
        )
    start = starts[-1]
    for entry in path[start:end]:
        if entry["type"] == "compaction":
            raise Refused(
                f"a compaction (entry {entry['id']}) lies inside the last turn: its steps saw different contexts",
                next_step="tag the next turn; this one cannot be rebuilt as one trajectory",
            )
    return Turn(start, end)


def _role(entry: Entry) -> str:
    return str(entry["message"]["role"])
