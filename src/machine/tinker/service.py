"""Which Tinker service is meant, and an open connection to it.

The environment (`TINKER_API_KEY`, `TINKER_BASE_URL`) names the service; without it, the engine that runs on this
machine does, by its discovery file. After `endpoint()` nothing depends on which of the two it is.

The SDK retries a dead connection for five minutes before it says so. `connect` gives it `PATIENCE` seconds to open a
session. `Service.wait` looks beside it whether the service's port still answers, and gives up after as long a silence.
"""

import concurrent.futures
import contextlib
import ipaddress
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlsplit

from machine.errors import MissingDependency, ServiceError, UsageError
from machine.home import engine_dir

if TYPE_CHECKING:
    from tinker import RestClient, ServiceClient

PATIENCE = 20.0
"""Seconds for which a service may be unreachable before a wait on it ends."""

_HOSTED = "https://tinker.thinkingmachines.dev/services/tinker-prod"
_ENVIRONMENT = "$TINKER_API_KEY"
_POLL = 2.0
_CLOSE_SECONDS = 5.0

T = TypeVar("T")


class Pending(Protocol[T]):
    """What every call of the SDK returns: something whose future can be had."""

    def future(self) -> "concurrent.futures.Future[T]":
        """The future of the call's result."""
        ...


@dataclass(frozen=True)
class Endpoint:
    """A Tinker service: where it is, and the key to it (never shown).

    `base_url` None is the SDK's own default, hosted Tinker. `key_source` says, in the words of Pi's configuration,
    where the key can be read (`$NAME` or `!command`), so that it need not be copied anywhere.
    """

    base_url: str | None
    key: str = field(repr=False)
    key_source: str

    @property
    def url(self) -> str:
        """The service's address."""
        return (self.base_url or _HOSTED).rstrip("/")

    @property
    def local(self) -> bool:
        """Whether what is sent there stays on this machine."""
        host = urlsplit(self.url).hostname or ""
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host).is_loopback
        return host == "localhost"

    @property
    def destination(self) -> str:
        """Where the bytes go, for the user."""
        return "this machine" if self.local else urlsplit(self.url).hostname or self.url

    @property
    def origin(self) -> str:
        """What named this service, for the user."""
        return "named by TINKER_API_KEY" if self.key_source == _ENVIRONMENT else "the engine's discovery file"

    @property
    def chat_url(self) -> str:
        """The base of the service's OpenAI-compatible endpoints."""
        return self.url + "/oai/api/v1"

    def answers(self, timeout: float = 3.0) -> bool:
        """Whether something accepts connections there."""
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((parts.hostname or "", port), timeout).close()
        except OSError:
            return False
        return True


def endpoint() -> Endpoint:
    """The service that this machine's user means.

    Raises:
        ServiceError: neither a key nor a running engine is there.
        UsageError: `TINKER_BASE_URL` is set without a key, or is no URL.
    """
    key, url = os.environ.get("TINKER_API_KEY"), os.environ.get("TINKER_BASE_URL")
    if url and not _is_address(url):
        raise UsageError(
            f"TINKER_BASE_URL is {url!r}, which is not an http(s) address",
            next_step="set it to the address of a Tinker service, or unset it",
        )
    if key:
        return Endpoint(url or None, key, _ENVIRONMENT)
    if url:
        raise UsageError(
            "TINKER_BASE_URL is set, but TINKER_API_KEY is not",
            next_step="export TINKER_API_KEY, or unset TINKER_BASE_URL to use the engine on this machine",
        )
    return _engine()


class Service:
    """An open session with a Tinker service. `client` is the SDK's; wait for its futures with `wait`."""

    def __init__(self, where: Endpoint, client: "ServiceClient") -> None:
        self.endpoint = where
        self.client = client

    def rest(self) -> "RestClient":
        """The client for listing and describing runs and checkpoints."""
        from tinker import RestClient

        return RestClient(base_url=self.endpoint.base_url, api_key=self.endpoint.key)

    def wait(self, pending: Pending[T], doing: str) -> T:
        """The result of a call to the service.

        Raises:
            ServiceError: the service refused it, failed, or has been unreachable for `PATIENCE` seconds; the message
                begins with `doing`.
        """
        future = pending.future()
        reached = time.monotonic()
        while not concurrent.futures.wait([future], timeout=_POLL).done:
            if self.endpoint.answers():
                reached = time.monotonic()
            elif time.monotonic() - reached > PATIENCE:
                future.cancel()
                raise _unreachable(self.endpoint, doing)
        with explained(self.endpoint, doing):
            return future.result()


@contextlib.contextmanager
def connect(where: Endpoint) -> Iterator[Service]:
    """A session with the service at `where`, finished when the block ends.

    Raises:
        MissingDependency: the `train` extra is not installed.
        ServiceError: nothing answers there, or nothing that speaks Tinker's API, or the key is refused.
    """
    os.environ["TINKER_TELEMETRY"] = "0"
    try:
        from tinker import ServiceClient
    except ImportError as error:
        raise MissingDependency(f"the tinker SDK cannot be imported ({error})", next_step="machine setup") from error
    if not where.answers():
        raise _unreachable(where, "connecting")
    logging.getLogger("tinker").addHandler(logging.NullHandler())
    client = ServiceClient(base_url=where.base_url, api_key=where.key)
    with explained(where, "opening a session"):
        _open(where, client)
    try:
        yield Service(where, client)
    finally:
        if where.answers():
            concurrent.futures.wait([client.close("success").future()], timeout=_CLOSE_SECONDS)


@contextlib.contextmanager
def explained(where: Endpoint, doing: str) -> Iterator[None]:
    """Turns the SDK's errors into a ServiceError that says what was being done."""
    from tinker import APIConnectionError, APIStatusError, RequestFailedError, TinkerError

    try:
        yield
    except APIConnectionError as error:
        raise _unreachable(where, doing) from error
    except APIStatusError as error:
        raise ServiceError(
            f"{doing}: {where.destination} answered {error.status_code}: {_reason(error)}",
            next_step=_mend(error.status_code),
        ) from error
    except RequestFailedError as error:
        raise ServiceError(
            f"{doing}: {error.message.partition(' for self.request_id')[0]} ({error.category} error)",
            next_step="machine tinker status",
        ) from error
    except (TinkerError, TimeoutError) as error:
        step = "check TINKER_API_KEY" if "api_key" in str(error) else "machine tinker status"
        raise ServiceError(f"{doing}: {error}", next_step=step) from error


def _open(where: Endpoint, client: "ServiceClient") -> None:
    """Has the SDK open its session, which it does when its holder is first asked for, within `PATIENCE` seconds."""
    opened: concurrent.futures.Future[object] = concurrent.futures.Future()

    def work() -> None:
        try:
            opened.set_result(client.holder)
        except Exception as error:
            opened.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    if not concurrent.futures.wait([opened], timeout=PATIENCE).done:
        raise ServiceError(f"what answers at {where.url} does not speak Tinker's API", next_step=_mend_address(where))
    opened.result()


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _engine() -> Endpoint:
    found, key_file = engine_dir() / "engine.json", engine_dir() / "key"
    try:
        info = json.loads(found.read_bytes())
        url, key = info["url"], key_file.read_text().strip()
    except FileNotFoundError:
        raise ServiceError(
            "no Tinker service: TINKER_API_KEY is not set and no engine runs on this machine",
            next_step="machine engine start (or set TINKER_API_KEY for hosted Tinker)",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServiceError(
            f"{found} cannot be read as the engine's discovery file ({error})", next_step="machine engine start"
        ) from error
    here = Endpoint(url, key, f"!cat {_quoted(str(key_file))}")
    if not here.answers():
        raise ServiceError(f"the engine that {found} names no longer answers", next_step="machine engine start")
    return here


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


def _unreachable(where: Endpoint, doing: str) -> ServiceError:
    message = f"{doing}: the Tinker service at {where.destination} does not answer"
    return ServiceError(message, next_step=_mend_address(where))


def _mend_address(where: Endpoint) -> str:
    return "machine engine start" if where.local else "check the network and TINKER_BASE_URL"


def _reason(error: Exception) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        for name in ("detail", "error", "message"):
            if isinstance(body.get(name), str):
                return str(body[name])
    return str(error)


def _mend(status: int) -> str:
    match status:
        case 401 | 403:
            return "check TINKER_API_KEY"
        case 402:
            return "set up billing for the account of TINKER_API_KEY"
        case 404:
            return "machine tinker checkpoints"
        case 429:
            return "wait a minute, then run the command again"
        case _:
            return "machine tinker status"
