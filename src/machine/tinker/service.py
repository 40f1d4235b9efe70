"""Which Tinker service is meant, and an open connection to it.

The environment (`TINKER_API_KEY`, `TINKER_BASE_URL`) names the service; without it, the engine that runs on this
machine does, by its discovery file. After `endpoint()` nothing depends on which of the two it is.

The SDK retries a dead connection, and an answer of 429 or 5xx, for five minutes before it says so, and an account that
lacks billing (402) for as long as the service likes. `connect` gives it `PATIENCE` seconds to open a session, and a
look-up (`Service.look_up`) as long; where that is not enough, the service is asked beside the SDK what its fault is.
`Service.wait` is for work that takes its time: it looks whether the service's port still answers, and hears the SDK say
that it pauses for want of billing.
"""

import concurrent.futures
import contextlib
import functools
import hashlib
import ipaddress
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlsplit

from machine import discovery
from machine.errors import MissingDependency, ServiceError, UsageError
from machine.home import engine_dir

if TYPE_CHECKING:
    from tinker import RestClient, ServiceClient

PATIENCE = 20.0
"""Seconds for which a service may be unreachable before a wait on it ends."""

_HOSTED = "https://tinker.thinkingmachines.dev/services/tinker-prod"
ENVIRONMENT = "$TINKER_API_KEY"
"""Where Pi reads the key of a service that the environment names."""

CHAT = "/oai/api/v1"
"""Below a service's address: its OpenAI-compatible endpoints."""

_POLL = 2.0
_CLOSE_SECONDS = 5.0
_LOOK_SECONDS = 5.0

T = TypeVar("T")


class Pending(Protocol[T]):
    """What every call of the SDK returns: something whose future can be had."""

    def future(self) -> "concurrent.futures.Future[T]":
        """The future of the call's result."""
        ...


class NoEngine(ServiceError):
    """The environment names no service, and this machine's engine does not run."""


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
        """Whether its address is one of this machine's own; what answers there may still send on what it is sent."""
        return _is_loopback(urlsplit(self.url).hostname or "")

    @functools.cached_property
    def stays(self) -> bool:
        """Whether what is sent there stays on this machine: it is this machine's engine, and has proved that it is.

        A loopback address alone is not enough: behind it may be a tunnel to another machine.
        """
        if not self.local:
            return False
        state = engine_dir()
        try:
            found = discovery.read(state)
        except ServiceError:
            return False
        ours = found is not None and _address(found.url) == _address(self.url) and discovery.key(state) == self.key
        return ours and discovery.proves(self.url, self.key)

    @property
    def destination(self) -> str:
        """Where the service is, for the user."""
        return "this machine" if self.local else urlsplit(self.url).hostname or self.url

    @property
    def goes_to(self) -> str:
        """Where the bytes go that are sent there, for the user who is asked."""
        if self.stays or not self.local:
            return self.destination
        return f"{urlsplit(self.url).netloc.rpartition('@')[2]} (which is not this machine's engine)"

    @property
    def origin(self) -> str:
        """What named this service, for the user."""
        return "named by TINKER_API_KEY" if self.key_source == ENVIRONMENT else "the engine's discovery file"

    @property
    def chat_url(self) -> str:
        """The base of the service's OpenAI-compatible endpoints."""
        return self.url + CHAT

    @property
    def account(self) -> str:
        """A mark by which one key can be told from another; the key cannot be had from it."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:12]

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
        NoEngine: neither a key nor a running engine is there.
        ServiceError: the engine's discovery file cannot be read.
        UsageError: `TINKER_BASE_URL` is set without a key, or is no URL.
    """
    if where := named():
        return where
    url = os.environ.get("TINKER_BASE_URL")
    if url:
        raise UsageError(
            "TINKER_BASE_URL is set, but TINKER_API_KEY is not",
            next_step="export TINKER_API_KEY, or unset TINKER_BASE_URL to use the engine on this machine",
        )
    return _engine()


def named() -> Endpoint | None:
    """The service that the environment names; None where it holds no key.

    Raises:
        UsageError: `TINKER_BASE_URL` is no URL.
    """
    key, url = os.environ.get("TINKER_API_KEY"), os.environ.get("TINKER_BASE_URL")
    if url and not _is_address(url):
        raise UsageError(
            f"TINKER_BASE_URL is {url!r}, which is not an http(s) address",
            next_step="set it to the address of a Tinker service, or unset it",
        )
    return Endpoint(url or None, key, ENVIRONMENT) if key else None


class Service:
    """An open session with a Tinker service. `client` is the SDK's; wait for its futures with `wait`."""

    def __init__(self, where: Endpoint, client: "ServiceClient") -> None:
        self.endpoint = where
        self.client = client
        self._billing = _Billing()

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Listens to the SDK's log, where alone it says that it pauses."""
        logger = logging.getLogger("tinker")
        logger.addHandler(self._billing)
        try:
            yield
        finally:
            logger.removeHandler(self._billing)

    def rest(self) -> "RestClient":
        """The client for listing and describing runs and checkpoints."""
        from tinker import RestClient

        return RestClient(base_url=self.endpoint.base_url, api_key=self.endpoint.key)

    def wait(self, pending: Pending[T], doing: str) -> T:
        """The result of a call to the service.

        Raises:
            ServiceError: the service refused it, failed, wants billing, or has been unreachable for `PATIENCE` seconds;
                the message begins with `doing`.
        """
        future = pending.future()
        reached = began = time.monotonic()
        while not concurrent.futures.wait([future], timeout=_POLL).done:
            if self._billing.paused_at > began:
                future.cancel()
                raise _refused(self.endpoint, doing, 402, self._billing.reason, {})
            if self.endpoint.answers():
                reached = time.monotonic()
            elif time.monotonic() - reached > PATIENCE:
                future.cancel()
                raise _unreachable(self.endpoint, doing)
        with explained(self.endpoint, doing):
            return future.result()

    def look_up(self, pending: Pending[T], doing: str) -> T:
        """The result of a call that a healthy service answers at once.

        Raises:
            ServiceError: as `wait`; or there was no answer within `PATIENCE` seconds, and why, as far as it shows.
        """
        future = pending.future()
        if not concurrent.futures.wait([future], timeout=PATIENCE).done:
            future.cancel()
            raise _fault(self.endpoint, doing) or _unreachable(self.endpoint, doing)
        with explained(self.endpoint, doing):
            return future.result()


class _Billing(logging.Handler):
    """When the SDK last said that it pauses, for up to an hour, because the account lacks billing; and its words."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.paused_at, self.reason = float("-inf"), ""

    def emit(self, record: logging.LogRecord) -> None:
        """Takes up a line of the log."""
        if "billing status" in record.getMessage():
            self.paused_at, self.reason = time.monotonic(), record.getMessage().partition("Error: ")[2]


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
    service, holder = Service(where, client), client.holder
    try:
        with service.heard():
            yield service
    finally:
        if where.answers():
            concurrent.futures.wait([client.close("success").future()], timeout=_CLOSE_SECONDS)
        holder.close()  # where the service is gone, the SDK would look for it as long as this process runs


@contextlib.contextmanager
def explained(where: Endpoint, doing: str) -> Iterator[None]:
    """Turns the SDK's errors into a ServiceError that says what was being done."""
    from tinker import APIConnectionError, APIStatusError, RequestFailedError, TinkerError

    try:
        yield
    except APIConnectionError as error:
        raise _unreachable(where, doing) from error
    except APIStatusError as error:
        raise _refused(where, doing, error.status_code, _reason(error), error.response.headers) from error
    except RequestFailedError as error:
        raise ServiceError(
            f"{doing}: {error.message.partition(' for self.request_id')[0]} ({error.category} error)",
            next_step="machine tinker doctor",
        ) from error
    except (TinkerError, TimeoutError) as error:
        step = "check TINKER_API_KEY" if "api_key" in str(error) else "machine tinker doctor"
        raise ServiceError(f"{doing}: {error}", next_step=step) from error


def _open(where: Endpoint, client: "ServiceClient") -> None:
    """Has the SDK open its session, which it does when its holder is first asked for, within `PATIENCE` seconds."""
    opened: concurrent.futures.Future[object] = concurrent.futures.Future()

    def work() -> None:
        try:
            opened.set_result(client.holder)
        except Exception as error:
            opened.set_exception(_underlying(error))

    threading.Thread(target=work, daemon=True).start()
    if not concurrent.futures.wait([opened], timeout=PATIENCE).done:
        raise _fault(where, "opening a session") or ServiceError(
            f"what answers at {where.url} does not speak Tinker's API", next_step=_mend_address(where)
        )
    opened.result()


def _underlying(error: BaseException) -> BaseException:
    """What the service answered, where the SDK (0.38, at a 402) stumbles over its handling of it; else the error."""
    from tinker import APIStatusError

    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, APIStatusError):
        inner = inner.__context__
    return inner or error


def _address(url: str) -> tuple[str, int | None]:
    """Host and port; every name of this machine's own is one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return ("localhost" if _is_loopback(host) else host, parts.port)


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _engine() -> Endpoint:
    state = engine_dir()
    found, key = discovery.read(state), discovery.key(state)
    if found is None or key is None:
        raise NoEngine(
            "no Tinker service: TINKER_API_KEY is not set and no engine runs on this machine",
            next_step="machine engine start (or set TINKER_API_KEY for hosted Tinker)",
        )
    if not discovery.proves(found.url, key):  # it is gone; whoever has its port by now is not told the key
        raise NoEngine(
            f"the engine that {state / discovery.FILE} names no longer answers", next_step="machine engine start"
        )
    return Endpoint(found.url, key, f"!cat {_quoted(str(state / discovery.KEY))}")


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


def _fault(where: Endpoint, doing: str) -> ServiceError | None:
    """What the SDK retries and does not tell: a 402, 429 or 5xx that the service answers now; None: none of these."""
    import httpx

    try:
        with httpx.Client(trust_env=not where.local, timeout=_LOOK_SECONDS) as client:
            answer = client.get(f"{where.url}/api/v1/get_server_capabilities", headers={"X-API-Key": where.key})
    except httpx.HTTPError:
        return None
    if answer.status_code in (402, 429) or answer.status_code >= 500:
        return _refused(where, doing, answer.status_code, _said(answer.text), answer.headers)
    return None


def _said(body: str) -> str:
    """The reason in a refusal's body."""
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, LookupError, TypeError):
        return " ".join(body.split())[:200] or "no reason given"


def _refused(where: Endpoint, doing: str, status: int, reason: str, headers: Mapping[str, str]) -> ServiceError:
    """A refusal of the service's; whatever it said, the key is not repeated."""
    reason = reason.replace(where.key, "(the key)") if where.key else reason
    return ServiceError(
        f"{doing}: {where.destination} answered {status}: {reason}",
        next_step=_mend(where, doing, status, headers.get("retry-after")),
    )


def _mend(where: Endpoint, doing: str, status: int, retry_after: str | None) -> str:
    match status:
        case 401 | 403:
            return "check TINKER_API_KEY"
        case 402:
            return "set up billing for the account of TINKER_API_KEY"
        case 404:
            return "machine tinker checkpoints" if "tinker://" in doing else _mend_address(where)
        case 429:
            return f"wait {f'{retry_after} seconds' if retry_after else 'a minute'}, then run the command again"
        case _ if status >= 500:
            return (
                "machine engine start"
                if where.local
                else "the service has a fault of its own: try again in a few minutes"
            )
        case _:
            return "machine tinker doctor"
