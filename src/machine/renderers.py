"""Renderers: messages to tokens, the same way at training and at chat.

`dataset` renders rows with these functions and the engine renders chat requests with them, so that a prompt has the
same tokens on both sides. The rendering itself is tinker-cookbook's; here are the choice of renderer by model, the
tokenizers of local models, and the step from JSON messages (a row's, or OpenAI's) to the cookbook's message objects.
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from machine.errors import MissingDependency, Refused, UsageError
from machine.home import models_dir

if TYPE_CHECKING:
    from tinker_cookbook.renderers import Message, Renderer, ToolCall
    from transformers import PreTrainedTokenizerFast as Tokenizer

CHATML = "machine/chatml"
"""`<|im_start|>role\\n...<|im_end|>` with Qwen's tool syntax; thinking stays in history, so that every prompt of a
conversation is a prefix of the next one."""

_IMAGE_PARTS = ("image", "image_url", "input_image")


def renderer_name(model: str) -> str:
    """The renderer for a base model: a name on the wire, or a local Hugging Face folder.

    Raises:
        UsageError: nothing is known about the model's chat format.
    """
    if "smollm" in model.lower():
        return CHATML
    if (folder := local_model(model)) is not None:
        return _renderer_of_folder(folder)
    cookbook = _cookbook("tinker_cookbook.model_info")
    try:
        return str(cookbook.get_recommended_renderer_name(model))
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"no renderer is known for the model {model!r}", next_step="choose a model that `/tinker models` lists"
        ) from error


def load_tokenizer(model: str) -> "Tokenizer":
    """The tokenizer of a local model folder, of a model in `models_dir()`, or of the cookbook (hub cache, then hub).

    Raises:
        UsageError: the model is not here and cannot be fetched.
    """
    folder = local_model(model)
    if folder is not None:
        return _tokenizer_of_folder(folder)
    cookbook = _cookbook("tinker_cookbook.tokenizer_utils")
    try:
        return cookbook.get_tokenizer(model)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no tokenizer for the model {model!r}: neither in {models_dir()} nor on the model hub",
            next_step="check the model's name; for the default model run `machine engine start` once",
        ) from error


def get_renderer(name: str, tokenizer: "Tokenizer") -> "Renderer":
    """The cookbook renderer called `name`, ours included.

    Raises:
        UsageError: there is no renderer of that name.
    """
    cookbook = _cookbook("tinker_cookbook.renderers")
    if not cookbook.is_renderer_registered(CHATML):
        cookbook.register_renderer(CHATML, _chatml)
    try:
        return cookbook.get_renderer(name, tokenizer)
    except ValueError as error:
        raise UsageError(f"no renderer is called {name!r}", next_step="see `/tinker models`") from error


def to_conversation(
    renderer: "Renderer", messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> "list[Message]":
    """JSON messages and tool schemas to the cookbook's messages, ready for `build_generation_prompt` and friends.

    Args:
        renderer: from `get_renderer`.
        messages: a row's or a chat request's. Leading system and developer messages become one system prompt; text
            parts are joined; `reasoning_content` becomes a thinking part.
        tools: `{name, description, parameters}`, bare or as OpenAI's `{type, function}`. They enter through the
            renderer's own prefix, as one more system message does, so indices shift by one when `messages` has none.

    Raises:
        Refused: a message has no known role, or content that cannot be rendered (an image).
    """
    system, rest = _split_system(messages)
    prefix: list[Message] = []
    if tools:
        prefix = renderer.create_conversation_prefix_with_tools([_tool(tool) for tool in tools], system or "")
    elif system is not None:
        prefix = [{"role": "system", "content": system}]
    return [*prefix, *_converted(rest)]


def local_model(model: str) -> Path | None:
    """The folder of a model on this machine: `model` itself, or its last part in `models_dir()`."""
    for folder in (Path(model), models_dir() / model.rsplit("/", 1)[-1]):
        if (folder / "config.json").is_file() and (folder / "tokenizer.json").is_file():
            return folder.absolute()
    return None


def _split_system(messages: Sequence[Mapping[str, Any]]) -> tuple[str | None, Sequence[Mapping[str, Any]]]:
    count = 0
    while count < len(messages) and messages[count].get("role") in ("system", "developer"):
        count += 1
    texts = [_joined(_parts(message)) for message in messages[:count]]
    return ("\n\n".join(texts) if texts else None), messages[count:]


def _converted(messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for message in messages:
        role = message.get("role")
        match role:
            case "user" | "system" | "developer":
                yield {"role": "user" if role == "user" else "system", "content": _joined(_parts(message))}
            case "assistant":
                calls = message.get("tool_calls") or []
                names |= {call["id"]: call["function"]["name"] for call in calls if call.get("id")}
                yield _assistant(message, calls)
            case "tool":
                yield _tool_result(message, names)
            case _:
                raise Refused(f"a message has the role {role!r}", next_step="use system, user, assistant or tool")


def _assistant(message: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    parts = list(_parts(message))
    if reasoning := message.get("reasoning_content"):
        parts.insert(0, {"type": "thinking", "thinking": reasoning})
    thinks = any(part["type"] == "thinking" for part in parts)
    converted: dict[str, Any] = {"role": "assistant", "content": parts if thinks else _joined(parts)}
    if calls:
        converted["tool_calls"] = [_tool_call(call) for call in calls]
    return converted


def _tool_result(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    call = message.get("tool_call_id") or ""
    name = message.get("name") or names.get(call) or ""
    return {"role": "tool", "content": _joined(_parts(message)), "tool_call_id": call, "name": name}


def _tool_call(call: Mapping[str, Any]) -> "ToolCall":
    base = _cookbook("tinker_cookbook.renderers.base")
    function = call["function"]
    body = base.ToolCall.FunctionBody(name=function["name"], arguments=_arguments(function.get("arguments")))
    return base.ToolCall(id=call.get("id"), function=body)


def _arguments(arguments: object) -> str:
    """JSON text of an object, whatever the model wrote: what does not parse is kept as text in `unparsed`."""
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except ValueError:
            parsed = arguments
    else:
        parsed = arguments or {}
    return json.dumps(parsed if isinstance(parsed, dict) else {"unparsed": parsed})


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function", tool)
    return {
        "name": function["name"],
        "description": function.get("description") or "",
        "parameters": function.get("parameters") or {"type": "object", "properties": {}},
    }


def _parts(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    if content is None:
        return
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    for part in content:
        kind = part.get("type")
        if kind in _IMAGE_PARTS:
            raise Refused("a message holds an image; this model reads text only", next_step="leave the image out")
        if kind not in ("text", "thinking"):
            raise Refused(f"a message holds a part of type {kind!r}", next_step="use text and thinking parts")
        yield {"type": kind, kind: part[kind]}


def _joined(parts: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> str:
    return "".join(part["text"] for part in parts if part["type"] == "text")


def _chatml(tokenizer: "Tokenizer", image_processor: object = None) -> "Renderer":
    qwen = _cookbook("tinker_cookbook.renderers.qwen3")
    return qwen.Qwen3InstructRenderer(tokenizer, strip_thinking_from_history=False)


def _renderer_of_folder(folder: Path) -> str:
    files = [folder / name for name in ("chat_template.jinja", "tokenizer_config.json")]
    text = "".join(file.read_text("utf-8") for file in files if file.is_file())
    if "<|im_start|>" in text:
        return CHATML
    if "<|start_header_id|>" in text:
        return "llama3"
    raise UsageError(
        f"the chat template of {folder} is neither ChatML nor Llama 3", next_step="use an instruct model with one"
    )


@functools.cache
def _tokenizer_of_folder(folder: Path) -> "Tokenizer":
    transformers = _cookbook("transformers")
    return transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)


def _cookbook(module: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(
            f"{module.partition('.')[0]} is not installed", next_step="run `machine setup`"
        ) from error
