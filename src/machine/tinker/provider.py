"""Provider: what Pi is told of the Tinker service, in `providers.json`, which the extension reads when Pi starts.

One provider, `tinker`. The base models that the service lists are `tinker/<model>` in Pi, the models that the user
registered are `tinker/<alias>` beside them (see `card`). The file holds no key: it says where Pi can read one, as
`$NAME` or `!command`.

Pi talks to the OpenAI-compatible endpoint. Tinker's Anthropic-compatible one serves the same models, and neither caches
prompts; but the engine on this machine speaks the former alone, Pi can give another model id and a temperature along
with it (that is how an alias asks for a `tinker://` path), and Inkling's effort has documented names there.

The file keeps one list for each service, the one written last first. Pi, like every command, takes the list of the
service that its own environment means: with a key in `TINKER_API_KEY` the one at that address, else the engine's. So an
alias of one service is never asked of another, and comes back with its service. The base models of a list are as old as
`asked_at`; offline they stay as they are.
"""

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine.errors import Refused, StoreError, UsageError
from machine.home import machine_home
from machine.store.files import locked, private_folder, write_private
from machine.tinker.card import NAME, Entry, card, read_back, stored
from machine.tinker.service import CHAT, ENVIRONMENT, Endpoint, named
from machine.tinker.students import Model

__all__ = ["FRESH", "NAME", "Entry", "asked_at", "base_models", "is_due", "keep", "listed", "providers_file",
           "refresh", "register", "unregister"]  # fmt: skip

FRESH = datetime.timedelta(hours=6)
"""How long a list of base models is not asked for again unasked."""

_VERSION = 1
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


def providers_file() -> Path:
    """Where the extension finds it."""
    return machine_home() / "providers.json"


def listed() -> list[Entry]:
    """The models that the user registered with the service that is meant, in the order in which they came."""
    return _registered(_meant(_read()))


def base_models() -> list[Entry]:
    """The base models of the service that is meant, as it last listed them."""
    return _base(_meant(_read()))


def asked_at() -> datetime.datetime | None:
    """When the service that is meant was last asked for its base models (UTC); None: never."""
    return _time(_meant(_read()))


def is_due(where: Endpoint) -> bool:
    """Whether the service's list is old, is not there, or is of another account."""
    mine = _of(_read(), where)
    asked = _time(mine)
    is_old = asked is None or not datetime.timedelta() <= _now() - asked < FRESH
    return is_old or mine.get("account") != where.account


def keep(where: Endpoint, models: Sequence[Model]) -> bool:
    """Keeps the service's list of models: those that can be asked are models of Pi from now on.

    Returns whether Pi has something new to read.

    Raises:
        Refused: the user's own `prices.yaml` cannot be read.
        StoreError: the file cannot be read or written.
    """
    base = [stored(Entry(m.name, m.name, m.name, m.context)) for m in models if m.sampleable]
    with _changed() as document:
        before = json.dumps(_of(document, where).get("config"))
        mine = {**_of(document, where), "base": base, "asked_at": _now().isoformat(timespec="seconds")}
        mine["account"] = where.account
        return json.dumps(_put(document, where, mine)["config"]) != before


def register(
    where: Endpoint,
    model: str,
    alias: str | None = None,
    context: int | None = None,
    *,
    base: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> Entry:
    """Registers `model` (a base model, or a sampler path of the base model `base`) with Pi.

    An alias that is there is replaced. `context` and `max_tokens` are in tokens; without a `temperature` the service's
    own default holds.

    Raises:
        UsageError: the alias cannot be a model's name in Pi.
        Refused: the alias is the name of another base model.
    """
    alias = alias or (model.rsplit("/", 1)[-1] if model.startswith("tinker://") else model)
    if alias != model and not _ALIAS.fullmatch(alias):
        raise UsageError(f"{alias!r} cannot be an alias", next_step="use letters, digits, '.', '_', '-' and '/'")
    entry = Entry(alias, model, base, context, temperature, max_tokens)
    with _changed() as document:
        mine = _of(document, where)
        if alias != model and alias in {e.alias for e in _base(mine)}:
            raise Refused(f"{alias} is a base model's own name", next_step="choose another alias")
        kept = [stored(e) for e in _registered(mine) if e.alias != alias]
        _put(document, where, {**mine, "registered": [*kept, stored(entry)]})
    return entry


def unregister(alias: str) -> None:
    """Takes a model out of Pi's list; the checkpoint stays.

    Raises:
        Refused: no model has that alias, or it is a base model, which the service lists.
    """
    with _changed() as document:
        mine = _meant(document)
        left = [e for e in _registered(mine) if e.alias != alias]
        if len(left) == len(_registered(mine)):
            raise _not_registered(alias, mine)
        _put(document, _where(mine), {**mine, "registered": [stored(e) for e in left]})


def refresh(where: Endpoint) -> bool:
    """Follows the service to its present address (the engine has another port at each start). True: it had moved."""
    mine = _of(_read(), where)
    if not mine or mine["config"]["baseUrl"] == where.chat_url:
        return False
    with _changed() as document:
        _put(document, where, _of(document, where))
    return True


def _not_registered(alias: str, mine: Mapping[str, Any]) -> Refused:
    if alias in {e.alias for e in _base(mine)}:
        return Refused(
            f"{alias} is a base model of the service, which is always a model in Pi; a checkpoint can be removed",
            next_step="machine tinker list",
        )
    return Refused(f"no model is registered as {alias!r}", next_step="machine tinker list")


def _base(mine: Mapping[str, Any]) -> list[Entry]:
    return [Entry(**entry) for entry in mine.get("base", [])]


def _registered(mine: Mapping[str, Any]) -> list[Entry]:
    if "registered" in mine or "base" in mine:
        return [Entry(**entry) for entry in mine.get("registered", [])]
    return [
        read_back(model) for model in mine.get("config", {}).get("models", [])
    ]  # written before there were base models


def _put(document: dict[str, Any], where: Endpoint, mine: Mapping[str, Any]) -> dict[str, Any]:
    """Puts a service's list first; a registered model takes the place of a base model of its name."""
    registered = _registered(mine)
    own = {entry.alias for entry in registered}
    entries = [*registered, *(entry for entry in _base(mine) if entry.alias not in own)]
    config = {
        "name": "Tinker",
        "baseUrl": where.chat_url,
        "api": "openai-completions",
        "apiKey": where.key_source,
        "authHeader": True,
        "models": [card(where, entry) for entry in entries],
    }
    made = {**mine, "name": NAME, "registered": [stored(entry) for entry in registered], "config": config}
    document["providers"] = [made, *(p for p in document["providers"] if not _is_of(p, where))]
    return made


def _of(document: Mapping[str, Any], where: Endpoint) -> dict[str, Any]:
    """What is kept of a service; empty where nothing is."""
    return next((p for p in document["providers"] if _is_of(p, where)), {})


def _is_of(provider: Mapping[str, Any], where: Endpoint) -> bool:
    """A service that the environment names is known by its address, the engine, which moves, by where its key is."""
    config = provider["config"]
    same = config["apiKey"] == where.key_source
    return same and (where.key_source != ENVIRONMENT or config["baseUrl"] == where.chat_url)


def _meant(document: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of the service that is meant, by the rule that `extension/providers.ts` has too."""
    if where := named():
        return _of(document, where)
    return next((p for p in document["providers"] if p["config"]["apiKey"] != ENVIRONMENT), {})


def _where(mine: Mapping[str, Any]) -> Endpoint:
    """The service that a list is of, without its key."""
    return Endpoint(mine["config"]["baseUrl"].removesuffix(CHAT), "", mine["config"]["apiKey"])


def _time(mine: Mapping[str, Any]) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(mine["asked_at"]) if "asked_at" in mine else None


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@contextmanager
def _changed() -> Iterator[dict[str, Any]]:
    """The document, written back at the end; one writer at a time."""
    home = private_folder(machine_home())
    with locked(private_folder(home / "locks") / "providers.lock"):
        document = _read()
        yield document
        write_private(providers_file(), json.dumps(document, indent=2).encode() + b"\n")


def _read() -> dict[str, Any]:
    path = providers_file()
    try:
        document = json.loads(path.read_bytes())
        if document["version"] == _VERSION:
            return {**document, "providers": [_checked(provider) for provider in document["providers"]]}
        fault = f"version {document['version']}"
    except FileNotFoundError:
        return {"version": _VERSION, "providers": []}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        fault = str(error)
    raise StoreError(f"{path} cannot be read ({fault})", next_step=f"move {path} away, then register your models again")


def _checked(provider: Mapping[str, Any]) -> dict[str, Any]:
    """A service's list. Whatever is read of it is read here once, so that a fault shows here."""
    config = provider["config"]
    _ = config["apiKey"].strip(), config["baseUrl"].strip()
    before = [stored(read_back(model)) for model in config["models"]]  # as it was before there were base models
    whole = {"registered": [] if "base" in provider else before, **provider}
    _base(whole), _registered(whole), _time(whole)
    return whole
