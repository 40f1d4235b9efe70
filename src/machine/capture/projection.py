"""What the model saw: the projection of a session's active path, as Pi makes it for a request.

Three steps, in Pi's order: the latest compaction replaces what it summarises; context edits replace or omit messages;
what is left becomes messages for a model (system, user, assistant, toolResult), Pi's own roles written out as user
text. Source: Pi's `buildSessionContext` and `convertToLlm`, against which the tests compare.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from machine.capture.session import Entry

Message = dict[str, Any]

_BRANCH = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n{}</summary>"
_COMPACTED = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n{}\n</summary>"
)


@dataclass(frozen=True)
class Seen:
    """One message that the model saw, in Pi's form, and the entry that it comes from."""

    entry: str
    message: Message


def project(path: Sequence[Entry]) -> list[Seen]:
    """The messages that a request at the end of `path` (root first) would carry, system messages in their places."""
    visible = _after_compaction(path)
    edits = {entry["targetId"]: entry for entry in path if entry["type"] == "context_edit"}
    seen: list[Seen] = []
    for entry in visible:
        for message in _messages(entry):
            edited = _edited(message, edits.get(entry["id"]))
            if edited is not None:
                converted = _for_model(edited)
                if converted is not None:
                    seen.append(Seen(entry["id"], converted))
    return seen


def system_state(messages: Iterable[Message]) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt and the tool schemas in force after replaying the system messages among `messages`."""
    contents: list[str] = []
    sections: dict[str, str] = {}
    tools: dict[str, dict[str, Any]] = {}
    for message in messages:
        if message["role"] != "system":
            continue
        if content := text_of(message.get("content")):
            contents.append(content)
        for name, section in (message.get("sections") or {}).items():
            sections.pop(name, None) if section is None else sections.update({name: section})
        for tool in message.get("toolsRemoved") or []:
            tools.pop(tool if isinstance(tool, str) else tool["name"], None)
        for tool in message.get("toolsAdded") or []:
            tools[tool["name"]] = {key: tool[key] for key in ("name", "description", "parameters") if key in tool}
    parts = ["\n\n".join(contents), *sections.values()]
    return "\n\n".join(part for part in parts if part), list(tools.values())


def text_of(content: str | Sequence[dict[str, Any]] | None) -> str:
    """The text of a content, its text parts joined by line feeds."""
    return "\n".join(part["text"] for part in parts_of(content) if part.get("type") == "text")


def parts_of(content: str | Sequence[dict[str, Any]] | None) -> Sequence[dict[str, Any]]:
    """A content as parts: text is one part, and nothing (old session files) is none."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _after_compaction(path: Sequence[Entry]) -> list[Entry]:
    at = max((i for i, entry in enumerate(path) if entry["type"] == "compaction"), default=None)
    if at is None:
        return list(path)
    compaction = path[at]
    kept: list[Entry] = []
    keeping = False
    for entry in path[:at]:
        keeping = keeping or entry["id"] == compaction.get("firstKeptEntryId")
        is_system = entry["type"] == "message" and entry["message"]["role"] == "system"
        if keeping and not is_system and entry["type"] != "compaction":
            kept.append(entry)
    return [compaction, *kept, *path[at + 1 :]]


def _messages(entry: Entry) -> list[Message]:
    match entry["type"]:
        case "message":
            return [entry["message"]]
        case "custom_message":
            return [{"role": "custom", "content": entry.get("content")}]
        case "branch_summary" if entry.get("summary"):
            return [{"role": "branchSummary", "summary": entry["summary"]}]
        case "compaction":
            system = [entry["systemMessage"]] if entry.get("systemMessage") else []
            return [*system, {"role": "compactionSummary", "summary": entry["summary"]}]
        case _:
            return []


def _edited(message: Message, edit: Entry | None) -> Message | None:
    if edit is None:
        return message
    if edit.get("replacement") is None:
        return None
    content = edit["replacement"].get("content")
    if message["role"] in ("assistant", "toolResult"):
        content = parts_of(content)
    editable = message["role"] in ("user", "assistant", "toolResult", "custom")
    return {**message, "content": content} if editable else message


def _for_model(message: Message) -> Message | None:
    match message["role"]:
        case "bashExecution":
            return None if message.get("excludeFromContext") else _user(_ran(message))
        case "custom":
            return {"role": "user", "content": parts_of(message.get("content"))}
        case "branchSummary":
            return _user(_BRANCH.format(message["summary"]))
        case "compactionSummary":
            return _user(_COMPACTED.format(message["summary"]))
        case _:
            return message


def _ran(message: Message) -> str:
    """A `!command` of the user's, as Pi tells the model of it."""
    output = f"```\n{message['output']}\n```" if message.get("output") else "(no output)"
    text = f"Ran `{message['command']}`\n{output}"
    if message.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif message.get("exitCode"):
        text += f"\n\nCommand exited with code {message['exitCode']}"
    if message.get("truncated") and message.get("fullOutputPath"):
        text += f"\n\n[Output truncated. Full output: {message['fullOutputPath']}]"
    return text


def _user(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}]}
