"""What the model saw: the projection of a session's branch, as Pi makes it for a request.

Three steps, in Pi's order: the latest compaction replaces what it summarises; context edits replace or omit messages;
what is left becomes messages for a model (system, user, assistant, tool result), Pi's own roles written out as user
text. Source: Pi's `buildSessionContext` and `convertToLlm`, against which the tests compare.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import msgspec

from machine.capture.entries import (
    UNSENT,
    AnyMessage,
    Assistant,
    BranchSummary,
    Compaction,
    CompactionSummary,
    Custom,
    CustomMessage,
    Edit,
    Entry,
    Hook,
    Message,
    Ran,
    Return,
    Said,
    System,
    Text,
    Tool,
    ToolResult,
    Unread,
    User,
    parts_of,
    text_of,
)
from machine.capture.javascript import stringify
from machine.capture.session import Branch

Sent: TypeAlias = System | User | Assistant | ToolResult

_BRANCH = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n{}</summary>"
COMPACTED = "The conversation history before this point was compacted into the following summary:"
"""How Pi begins a summary of what came before a compaction."""
_COMPACTED = COMPACTED + "\n\n<summary>\n{}\n</summary>"


@dataclass(slots=True)
class Seen:
    """One message that the model saw, and the entry that it comes from (None: a copy that a compaction kept)."""

    entry: str | None
    message: Sent


def project(branch: Branch) -> list[Seen]:
    """The messages that a request at the end of `branch` would carry, system messages in their places."""
    visible = branch.read(_visible(branch))
    edits = {entry.target_id: entry for entry in visible if isinstance(entry, Edit)}
    seen: list[Seen] = []
    for number, entry in enumerate(visible):
        if isinstance(entry, Compaction) and number > 0:  # an older one, within what the latest one kept
            continue
        edit = edits.get(entry.id)
        for origin, message in _messages(entry):
            edited = message if edit is None else _edited(message, edit)
            sent = None if edited is None else _for_model(edited)
            if sent is not None:
                seen.append(Seen(origin, sent))
    return seen


@dataclass(frozen=True)
class Instructions:
    """The system prompt and the tool schemas in force at a request."""

    prompt: str
    tools: list[dict[str, Any]] = field(default_factory=list)


def instructions(messages: Iterable[Sent]) -> Instructions | None:
    """What the system messages among `messages`, replayed in order, leave in force; None if there are none."""
    contents: list[str] = []
    sections: dict[str, str] = {}
    tools: dict[str, Tool] = {}
    patches = [message for message in messages if isinstance(message, System)]
    for patch in patches:
        if content := text_of(patch.content):
            contents.append(content)
        for name, section in (patch.sections or {}).items():
            sections.pop(name, None) if section is None else sections.update({name: section})
        for removed in patch.tools_removed or []:
            tools.pop(removed if isinstance(removed, str) else removed.name, None)
        for tool in patch.tools_added or []:
            tools[tool.name] = tool
    if not patches:
        return None
    texts = ["\n\n".join(contents), *sections.values()]
    return Instructions("\n\n".join(filter(None, texts)), msgspec.to_builtins(list(tools.values())))


def last_compaction(branch: Branch) -> tuple[int, int] | None:
    """Where the latest compaction is, and where what it kept begins (its own place: it kept nothing, or embeds it)."""
    compactions = branch.of_type("compaction")
    if not compactions:
        return None
    at = compactions[-1]
    compaction = branch[at]
    assert isinstance(compaction, Compaction)
    if compaction.retained_tail is not None:
        return at, at
    return at, next((i for i in range(at) if branch.heads[i].id == compaction.first_kept_entry_id), at)


def _visible(branch: Branch) -> list[int]:
    """Where the entries are that a request reads: the latest compaction, what it kept, and all after it."""
    compacted = last_compaction(branch)
    if compacted is None:
        return list(range(len(branch)))
    at, start = compacted
    kept = [i for i in range(start, at) if not _is_system(branch[i])]
    return [at, *kept, *range(at + 1, len(branch))]


def _is_system(entry: Entry) -> bool:
    return isinstance(entry, Message) and isinstance(entry.message, System)


def _messages(entry: Entry) -> list[tuple[str | None, AnyMessage]]:
    match entry:
        case Message():
            return [(entry.id, entry.message)]
        case CustomMessage():
            return [(entry.id, Custom(entry.content))]
        case Return() if entry.summary:
            return [(entry.id, BranchSummary(entry.summary))]
        case Compaction():
            system = [(entry.id, entry.system_message)] if entry.system_message else []
            tail = [(None, message) for message in entry.retained_tail or []]
            return [*system, (entry.id, CompactionSummary(entry.summary)), *tail]
        case _:
            return []


def _edited(message: AnyMessage, edit: Edit) -> AnyMessage | None:
    if edit.replacement is None:
        return None
    content: Any = edit.replacement.content
    if isinstance(message, Assistant | ToolResult):
        content = parts_of(content)
    if isinstance(message, User | Assistant | ToolResult | Custom):
        return msgspec.structs.replace(message, content=content)
    return message


def _for_model(message: AnyMessage) -> Sent | None:
    match message:
        case ToolResult() | User() | System():
            return message
        case Ran():
            return None if message.exclude_from_context else User([Text(_ran(message))])
        case Custom():
            return User(cast(Any, parts_of(cast(Said, message.content))))
        case BranchSummary():
            return User([Text(_BRANCH.format(message.summary))])
        case CompactionSummary():
            return User([Text(_COMPACTED.format(message.summary))])
        case Hook() | Unread():
            return None
        case Assistant():
            return None if message.stop_reason in UNSENT else message


def _ran(message: Ran) -> str:
    """A `!command` of the user's, as Pi tells the model of it."""
    output = f"```\n{message.output}\n```" if message.output else "(no output)"
    text = f"Ran `{message.command}`\n{output}"
    if message.cancelled:
        text += "\n\n(command cancelled)"
    elif message.exit_code:
        text += f"\n\nCommand exited with code {stringify(message.exit_code)}"
    if message.truncated and message.full_output_path:
        text += f"\n\n[Output truncated. Full output: {message.full_output_path}]"
    return text
