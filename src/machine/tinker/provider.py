"""Provider: what Pi is told of the Tinker service, in `providers.json`, which the extension reads when Pi starts.

One provider, `tinker`; a model is `tinker/<alias>` in Pi. The file holds no key: it says where Pi can read it
(`$NAME` or `!command`). It speaks of one service at a time: registering with another service starts the list anew,
since checkpoints of one are unknown to the other.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine.errors import Refused, StoreError, UsageError
from machine.home import machine_home
from machine.store.files import private_folder, write_private
from machine.tinker.service import Endpoint

NAME = "tinker"
_VERSION = 1
_CONTEXT = 8192
_FREE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
_COMPAT = {"supportsDeveloperRole": False, "supportsStore": False, "maxTokensField": "max_tokens"}
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


@dataclass(frozen=True)
class Entry:
    """A registered model: its name in Pi, and what the service knows it as (a base model or a `tinker://` path)."""

    alias: str
    model: str

    @property
    def ref(self) -> str:
        """What to give Pi as `--model`."""
        return f"{NAME}/{self.alias}"


def providers_file() -> Path:
    """Where the extension finds it."""
    return machine_home() / "providers.json"


def listed() -> list[Entry]:
    """The registered models, in the order in which they came."""
    return [_entry(model) for model in _models(_read())]


def register(
    where: Endpoint,
    model: str,
    alias: str | None = None,
    context: int | None = None,
    *,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> tuple[Entry, int]:
    """Registers `model` (a base model or a sampler path) with Pi; an alias that is there is replaced.

    `context` and `max_tokens` are in tokens; without a `temperature` the service's own default holds.

    Returns the entry, and how many models of another service had to go.

    Raises:
        UsageError: the alias cannot be a model's name in Pi.
    """
    alias = alias or (model.rsplit("/", 1)[-1] if model.startswith("tinker://") else model)
    if not _ALIAS.fullmatch(alias):
        raise UsageError(f"{alias!r} cannot be an alias", next_step="use letters, digits, '.', '_', '-' and '/'")
    before = _read()
    kept = _models(before) if _key(before) == where.key_source else []
    added = _model(alias, model, context or _CONTEXT, temperature, max_tokens)
    models = [m for m in kept if m["id"] != alias] + [added]
    _write(where, models)
    return Entry(alias, model), len(_models(before)) - len(kept)


def unregister(alias: str) -> None:
    """Takes a model out of Pi's list; the checkpoint stays.

    Raises:
        Refused: no model has that alias.
    """
    document = _read()
    models = _models(document)
    left = [m for m in models if m["id"] != alias]
    if len(left) == len(models):
        raise Refused(f"no model is registered as {alias!r}", next_step="machine tinker list")
    document["providers"][0]["config"]["models"] = left
    _save(document)


def refresh(where: Endpoint) -> bool:
    """Follows the service to its present address (the engine has another port at each start). True: it had moved."""
    document = _read()
    if _key(document) != where.key_source or document["providers"][0]["config"]["baseUrl"] == where.chat_url:
        return False
    _write(where, _models(document))
    return True


def _model(alias: str, model: str, context: int, temperature: float | None, max_tokens: int | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": alias,
        "name": alias if alias == model else f"{alias} ({model})",
        "reasoning": False,
        "input": ["text"],
        "cost": _FREE,
        "contextWindow": context,
        "maxTokens": max_tokens or max(1, min(4096, context // 4)),
        "compat": _COMPAT,
    }
    # Pi sends `id` as the request's model; sampling parameters are merged over the request, so this one renames it.
    sampling = ({} if alias == model else {"model": model}) | (
        {} if temperature is None else {"temperature": temperature}
    )
    return entry | ({"samplingParams": sampling} if sampling else {})


def _entry(model: Mapping[str, Any]) -> Entry:
    return Entry(model["id"], model.get("samplingParams", {}).get("model", model["id"]))


def _write(where: Endpoint, models: list[dict[str, Any]]) -> None:
    config = {
        "name": "Tinker",
        "baseUrl": where.chat_url,
        "api": "openai-completions",
        "apiKey": where.key_source,
        "authHeader": True,
        "models": models,
    }
    _save({"version": _VERSION, "providers": [{"name": NAME, "config": config}]})


def _save(document: dict[str, Any]) -> None:
    private_folder(machine_home())
    write_private(providers_file(), json.dumps(document, indent=2).encode() + b"\n")


def _read() -> dict[str, Any]:
    path = providers_file()
    try:
        document = json.loads(path.read_bytes())
        if document["version"] == _VERSION and all(p["config"]["models"] is not None for p in document["providers"]):
            return dict(document)
        fault = f"version {document['version']}"
    except FileNotFoundError:
        return {"version": _VERSION, "providers": []}
    except (OSError, ValueError, KeyError, TypeError) as error:
        fault = str(error)
    raise StoreError(f"{path} cannot be read ({fault})", next_step=f"move {path} away, then register your models again")


def _models(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(document["providers"][0]["config"]["models"]) if document["providers"] else []


def _key(document: Mapping[str, Any]) -> str | None:
    return document["providers"][0]["config"]["apiKey"] if document["providers"] else None
