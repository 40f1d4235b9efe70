"""Renderers: messages to tokens, the same way at training and at chat.

`dataset` renders rows with these functions and the engine renders chat requests with them, so that a prompt has the
same tokens on both sides. Renderers are tinker-cookbook's, or follow its interface (`chatml`, `template`); here are the
choice of renderer by model, the tokenizers of local models, and the step from JSON messages (a row's, or OpenAI's) to
the cookbook's message objects.
"""

import contextlib
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from machine import discovery
from machine.errors import MachineError, MissingDependency, Refused, ServiceError, UsageError
from machine.home import engine_dir, hub_cache, models_dir

if TYPE_CHECKING:
    from tinker_cookbook.renderers import Message, Renderer, ToolCall
    from transformers import PreTrainedTokenizerFast as Tokenizer

CHATML = "machine/chatml"
"""For ChatML models whose template knows no tools, such as SmolLM2 (see `chatml`)."""
TEMPLATE = "machine/template"
"""The chat template that the model brings (see `template`)."""

_IMAGE_PARTS = ("image", "image_url", "input_image")


def renderer_name(model: str) -> str:
    """The renderer for a base model: a name on the wire, or a local Hugging Face folder.

    A model whose weights are on this machine is written as its own chat template does it; the others, which a service
    has, as the cookbook recommends.

    Raises:
        UsageError: nothing is known about the model's chat format.
    """
    folder = local_model(model)
    if folder is not None and any(folder.glob("*.safetensors")):
        return _renderer_of_folder(folder)
    if model.rpartition("/")[2].lower().startswith(("smollm-", "smollm2-")):
        return CHATML
    cookbook = _cookbook("tinker_cookbook.model_info")
    try:
        return str(cookbook.get_recommended_renderer_name(model))
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"no renderer is known for the model {model!r}", next_step="choose a model that `/tinker models` lists"
        ) from error


def renderers_of(model: str) -> list[str]:
    """The renderers that a base model can be written with, its own first; none where nothing is known of it."""
    try:
        own = renderer_name(model)
    except MachineError:
        return []
    if own in (CHATML, TEMPLATE):
        return [own]
    attributes = _cookbook("tinker_cookbook.model_info").get_model_attributes(model)
    return list(dict.fromkeys([own, *attributes.recommended_renderers]))


def load_tokenizer(model: str) -> "Tokenizer":
    """The tokenizer of a local model folder or of one in `models_dir()`, else a bundled one, else the cookbook's (hub).

    Raises:
        UsageError: the model is not here and cannot be fetched.
    """
    folder = local_model(model)
    if folder is not None:
        return _tokenizer_of_folder(folder)
    cookbook = _cookbook("tinker_cookbook.tokenizer_utils")
    with contextlib.suppress(KeyError):
        return _bundled(model)
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
        UsageError: there is no renderer of that name, or it cannot work with this tokenizer.
    """
    cookbook = _cookbook("tinker_cookbook.renderers")
    for ours, make in ((CHATML, _chatml), (TEMPLATE, _template)):
        if not cookbook.is_renderer_registered(ours):
            cookbook.register_renderer(ours, make)
    try:
        return cookbook.get_renderer(name, tokenizer)
    except MachineError:
        raise
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
    return [*prefix, *_converted(_numbered(rest) if _writes_ids(renderer) else rest)]


def local_model(model: str) -> Path | None:
    """The folder of a model on this machine.

    `model` itself, the folder that the engine serves under this name, its last part in `models_dir()`, or its snapshot
    in the hub's cache.
    """
    for folder in (Path(model), *_served(model), models_dir() / model.rsplit("/", 1)[-1], *_snapshots(model)):
        if (folder / "config.json").is_file() and (folder / "tokenizer.json").is_file():
            return folder.absolute()
    return None


def _served(model: str) -> Iterator[Path]:
    """What the engine of this machine said last (see `engine.life`)."""
    with contextlib.suppress(ServiceError):
        found = discovery.read(engine_dir())
        if found is not None and found.model == model:
            yield found.model_path


def _snapshots(model: str) -> Iterator[Path]:
    """The cached snapshot of the hub's model `owner/name` at its main revision."""
    if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", model):
        folder = hub_cache() / f"models--{model.replace('/', '--')}"
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield folder / "snapshots" / (folder / "refs" / "main").read_text("ascii").strip()


def _split_system(messages: Sequence[Mapping[str, Any]]) -> tuple[str | None, Sequence[Mapping[str, Any]]]:
    count = 0
    while count < len(messages) and messages[count].get("role") in ("system", "developer"):
        count += 1
    texts = [_joined(_parts(message)) for message in messages[:count]]
    return ("\n\n".join(texts) if texts else None), messages[count:]


def _writes_ids(renderer: "Renderer") -> bool:
    """Whether the ids of calls are part of the prompt. Kimi's is the one format in which they are, and have a form."""
    return "kimi" in type(renderer).__module__


def _numbered(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The messages with calls as Kimi names them: `functions.NAME:N`, N counting the calls of the conversation."""
    ids: dict[str, str] = {}
    count = 0
    for message in messages:
        if calls := message.get("tool_calls"):
            named = []
            for call in calls:
                name = f"functions.{call['function']['name']}:{count}"
                ids[call.get("id") or ""] = name
                named.append({**call, "id": name})
                count += 1
            yield {**message, "tool_calls": named}
        elif message.get("role") == "tool":
            yield {**message, "tool_call_id": ids.get(message.get("tool_call_id") or "", message.get("tool_call_id"))}
        else:
            yield message


def _converted(messages: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
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
    from machine.renderers.chatml import ChatmlRenderer

    return ChatmlRenderer(tokenizer)


def _template(tokenizer: "Tokenizer", image_processor: object = None) -> "Renderer":
    from machine.renderers.template import TemplateRenderer

    return TemplateRenderer(tokenizer)


def _renderer_of_folder(folder: Path) -> str:
    template = _tokenizer_of_folder(folder).chat_template
    if not template:
        raise UsageError(
            f"{folder} has no chat template, in tokenizer_config.json or chat_template.jinja",
            next_step="use an instruct model",
        )
    known = json.dumps(template)  # a text, or several by name
    return CHATML if "<|im_start|>" in known and "tools" not in known else TEMPLATE


def _bundled(model: str) -> "Tokenizer":
    from machine.renderers.bundled import BundledTokenizer

    return cast("Tokenizer", BundledTokenizer(model))


@functools.cache
def _tokenizer_of_folder(folder: Path) -> "Tokenizer":
    transformers = _cookbook("transformers")
    # what tokenizer.json says and no more: AutoTokenizer would import every model's code first, for seconds, and
    # tokenizer_config.json could name another file in its place
    own: dict[str, Any] = {
        "tokenizer_file": str(folder / "tokenizer.json"),
        "tokenizer_object": None,
        "gguf_file": None,
    }
    try:
        _refuse_far_files(folder)
        return transformers.PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True, **own)
    except UsageError:
        raise
    except Exception as error:  # transformers and tokenizers fail in many ways on what is not theirs
        why = " ".join(str(error).split())[:200]
        raise UsageError(
            f"the tokenizer in {folder} cannot be read: {why}", next_step="fetch the model again"
        ) from error


def _refuse_far_files(folder: Path) -> None:
    """Refuses a tokenizer whose settings name versions of it that do not lie in its folder."""
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_bytes()) if path.is_file() else {}
    for name in settings.get("fast_tokenizer_files") or ():
        if Path(name).name != name:
            raise UsageError(
                f"{path} names {name!r:.80}, which does not lie beside it", next_step="fetch the model again"
            )


def _cookbook(module: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(
            f"{module.partition('.')[0]} is not installed", next_step="run `machine setup`"
        ) from error
