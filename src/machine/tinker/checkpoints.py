"""Checkpoints: what the service says of weights that it holds under a `tinker://` path."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from machine.errors import Refused, UsageError
from machine.tinker.service import Service

if TYPE_CHECKING:
    from tinker import SamplingClient

SCHEME = "tinker://"


@dataclass(frozen=True)
class Held:
    """A checkpoint on the service. `kind` is `training` (can be trained on) or `sampler` (can be asked)."""

    path: str
    kind: str
    created_at: str
    bytes: int | None


def held(service: Service) -> list[Held]:
    """Every checkpoint of the account, newest first."""
    listed = service.look_up(service.rest().list_user_checkpoints(limit=1000), "asking for the list of checkpoints")
    found = [
        Held(c.tinker_path, c.checkpoint_type, str(c.time), c.size_bytes) for c in listed.checkpoints if c.tinker_path
    ]
    return sorted(found, key=lambda c: c.created_at, reverse=True)


def base_of(service: Service, path: str) -> str:
    """The base model that the weights at a sampler path belong to.

    Raises:
        UsageError: it is no sampler path.
        ServiceError: the service does not hold it.
    """
    if not path.startswith(SCHEME) or "/sampler_weights/" not in path:
        raise UsageError(
            f"{path!r} is not a sampler path", next_step="give tinker://.../sampler_weights/NAME, a run id or latest"
        )
    info = service.look_up(service.rest().get_weights_info_by_tinker_path(path), f"looking up {path}")
    return str(info.base_model)


def sampler(service: Service, model: str, path: str | None) -> "SamplingClient":
    """A client that asks the weights at `path`, or the base model where it is None.

    Raises:
        Refused: `path` is of another base model.
        ServiceError: the service does not hold it.
    """
    if path is None:
        return service.wait(service.client.create_sampling_client(base_model=model), f"opening a sampler of {model}")
    client = service.wait(service.client.create_sampling_client(model_path=path), f"opening a sampler of {path}")
    if client.get_base_model() != model:
        raise Refused(
            f"{path} was trained from {client.get_base_model()}, not from {model}",
            next_step="machine tinker checkpoints",
        )
    return client
