"""Rows and students for tests: small conversations, and a tokenizer that needs no model."""

from pathlib import Path
from typing import Any

from machine.tinker.students import Student
from machine.trace import Row, Source, digest

WEATHER = {
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def row(*messages: dict[str, Any], number: int = 0, target: tuple[int, ...] | None = None, **fields: Any) -> Row:
    """A good row; its target is every assistant message unless said otherwise."""
    chosen = target if target is not None else tuple(i for i, m in enumerate(messages) if m["role"] == "assistant")
    tools = tuple(fields.pop("tools", ()))
    session = fields.pop("session", f"session-{number}")
    return Row(
        id=f"t_{number:026d}",
        tag=fields.pop("tag", "good"),
        messages=messages,
        tools=tools,
        target=chosen,
        created_at="2026-01-01T00:00:00+00:00",
        source=Source("pi", "1.6.0", session, f"leaf-{number}", (f"entry-{number}",), "/project"),
        digest=digest(messages, tools, chosen),
        **fields,
    )


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": text} | ({"tool_calls": list(calls)} if calls else {})


def call(name: str, arguments: str, id: str = "c1") -> dict[str, Any]:
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}


def result(text: str, id: str = "c1", name: str = "weather") -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": id, "name": name}


def questions(count: int, session: str | None = None) -> list[Row]:
    """Rows of one short question each, answered in one style, each a conversation of its own (or all of `session`)."""
    return [
        row(
            system("You are brief."),
            user(f"What is {i} plus one?"),
            assistant(f"ANSWER: {i + 1}."),
            number=i,
            session=session or f"session-{i}",
        )
        for i in range(count)
    ]


def weather_row(arguments: str = '{"city": "Oslo"}', number: int = 100) -> Row:
    """A row with a tool call, its result and an answer: two targets."""
    return row(
        system("You are brief."),
        user("Is it cold in Oslo?"),
        assistant("", call("weather", arguments)),
        result("-5 degrees"),
        assistant("Yes, -5 degrees."),
        tools=[WEATHER],
        number=number,
    )


def byte_student(folder: Path) -> Student:
    """A ChatML student over single bytes: every renderer rule applies, no model is needed."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from machine.renderers import CHATML, get_renderer

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<|im_start|>", "<|im_end|>")])
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    fast = PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token="<|im_end|>", bos_token="<|im_start|>")
    return Student("bytes", CHATML, get_renderer(CHATML, fast), fast)
