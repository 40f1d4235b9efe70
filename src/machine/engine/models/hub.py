"""Models by name: a folder on this machine, or one that the Hugging Face hub's cache or the hub itself has.

Only a download asks the network, and only for safetensors, settings and the tokenizer: no pickle, no code. Nothing here
imports torch unless a model must be fetched.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from machine.errors import MissingDependency, ServiceError, UsageError
from machine.home import hub_cache, models_dir
from machine.renderers import local_model

DEFAULT_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""The model that comes without the hub, out of a package (see `convert`)."""
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
ANSWER_SECONDS = 5.0
"""How long the hub may take to answer before it counts as out of reach."""
_SETTINGS = ("*.json", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt")
_WEIGHTS = ("model*.safetensors",)
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_FILE = re.compile(r"[\w-][\w.-]{0,199}\.safetensors", re.ASCII)
_AGAIN = "fetch the model again"


def model_folder(asked: str | None, say: Callable[[str], None] = lambda message: None) -> Path:
    """The folder of the model that `asked` names; `say` hears about what takes long.

    Args:
        asked: a folder; or a name, which is looked for in `models_dir()`, in the hub's cache and on the hub; None is
            the default model, fetched the first time.
        say: hears a line before each download.

    Raises:
        UsageError: there is no such model, or it is not one that the engine can run.
        ServiceError: the model is not here, and the hub cannot be reached.
    """
    asked = asked or DEFAULT_MODEL
    path = Path(asked).expanduser()
    if path.is_dir():
        return _checked(path.absolute())
    found = local_model(asked)
    if found is not None and (found.parent == models_dir() or _complete(found)):
        return found
    if asked in (DEFAULT_MODEL, DEFAULT_MODEL.rpartition("/")[2]):
        from machine.engine.models.convert import ensure_model

        return ensure_model(say)
    if not _NAME.fullmatch(asked):
        raise UsageError(f"there is no model folder {asked}, and none of that name in {models_dir()}",
                         next_step="give --model a folder, or a name of the hub's such as Qwen/Qwen3-0.6B")  # fmt: skip
    return _download(asked, say)


def weight_files(folder: Path) -> list[str]:
    """The names of the safetensors files that a model folder should hold; those of its index need not be there.

    Raises:
        UsageError: there are none, or the index that lists them cannot be read.
    """
    if (folder / INDEX).is_file():
        try:
            names = set(json.loads((folder / INDEX).read_bytes())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"{folder / INDEX} is damaged: {error}", next_step=_AGAIN) from error
        if odd := [name for name in names if not isinstance(name, str) or not _FILE.fullmatch(name)]:
            raise UsageError(f"{folder / INDEX} names {odd[0]!r:.80}, which is no safetensors file beside it",
                             next_step=_AGAIN)  # fmt: skip
        return sorted(names)
    if (folder / SINGLE).is_file():
        return [SINGLE]
    pickled = sorted(path.name for kind in _PICKLES for path in folder.glob(kind))
    if pickled:
        raise UsageError(f"{folder} holds no safetensors, only {pickled[0]}: a pickle can run code when it is read",
                         next_step="save the model anew with transformers' save_pretrained")  # fmt: skip
    raise UsageError(f"{folder} holds no safetensors", next_step=f"use a model folder with {SINGLE}")


def _checked(folder: Path) -> Path:
    if lacking := [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]:
        raise UsageError(f"{folder} is not a Hugging Face model folder: it lacks {' and '.join(lacking)}",
                         next_step="give --model a folder that transformers' save_pretrained wrote")  # fmt: skip
    return folder


def _complete(folder: Path) -> bool:
    try:
        return all((folder / name).is_file() for name in weight_files(folder))
    except UsageError:
        return False


def _download(name: str, say: Callable[[str], None]) -> Path:
    """The snapshot of the hub's model in the hub's cache; `config.json` comes first, and is checked."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        import httpx
        from huggingface_hub import HfApi, constants, snapshot_download
        from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError as error:
        raise MissingDependency("huggingface_hub is not installed", next_step="machine setup") from error
    from machine.engine.models.config import Config

    tried = f"the model {name} is not in {models_dir()} and not whole in {hub_cache()}"
    elsewhere = "or give --model the folder of a model that you have"
    if constants.HF_HUB_OFFLINE:
        raise ServiceError(f"{tried}; the hub was not asked, as HF_HUB_OFFLINE is set",
                           next_step=f"unset HF_HUB_OFFLINE to download it, {elsewhere}")  # fmt: skip
    disable_progress_bars()
    say(f"asking the model hub for {name}")

    def fetch(*patterns: str) -> Path:
        return Path(snapshot_download(name, cache_dir=hub_cache(), allow_patterns=list(patterns),
                                      ignore_patterns=["*/*"], etag_timeout=ANSWER_SECONDS))  # fmt: skip

    try:
        info = HfApi().model_info(name, timeout=ANSWER_SECONDS, files_metadata=True)
        files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        if not files.keys() & {SINGLE, INDEX}:
            raise UsageError(f"the hub's model {name} has no {SINGLE}", next_step="choose one with safetensors")
        Config.read(fetch(*_SETTINGS))
        size = sum(files[file] for file in files if Path(file).match(_WEIGHTS[0]))
        say(f"downloading {name} ({size / 1e9:.1f} GB)")
        return _checked(fetch(*_SETTINGS, *_WEIGHTS))
    except GatedRepoError as error:
        raise UsageError(
            f"the hub's model {name} is gated: its owner asks you to accept conditions",
            next_step=f"accept them at {constants.ENDPOINT}/{name}, then run `hf auth login`",
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise UsageError(
            f"{tried}, and the hub has no such model, or a private one",
            next_step="check the name; for a private model run `hf auth login`",
        ) from error
    except (httpx.HTTPError, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ServiceError(
            f"{tried}, and {constants.ENDPOINT} cannot be reached: {reason}",
            next_step=f"check the network and try again, {elsewhere}",
        ) from error
