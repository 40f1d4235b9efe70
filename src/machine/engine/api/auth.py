"""Who may ask: only this machine, and only with the key or a token that was signed with it.

The key is compared in constant time. There must be one Host header, and it must name the loopback interface; so must
the Origin header where there is one. What a browser says was asked for by a page of another origin (Sec-Fetch-Site,
which a page cannot change) is refused whatever page it is. So a web page that a browser on this machine shows can reach
the engine neither through a name of its own (DNS rebinding) nor by its address. No answer has a CORS header, and there
are no WebSockets. A token (`tokens`) stands for the key except where tokens are given out, so that it cannot outlive
its time. Downloads show a token of another kind in their URL, which their endpoint reads.
"""

import hmac
import re
from collections.abc import Sequence
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from machine.discovery import HEALTH
from machine.engine.api.tokens import API, Tokens

EXCHANGE = "/api/v1/auth/token"
DOWNLOADS = "/api/v1/downloads/"
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
_SCHEME = re.compile("https?://", re.IGNORECASE)
_OWN_SITES = frozenset({"same-origin", "none"})
"""What a browser says where no other page is at work: a page of the same address, or its user (the address bar)."""
_STALE = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
"""Tells the SDK to exchange its key for a new token."""


class Guard:
    """ASGI middleware that lets only those through who may."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        if not key:
            raise ValueError("an empty key would let everyone in")
        self.app, self._key, self._tokens = app, key.encode(), Tokens(key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers 403 or 401 in the application's place, or lets the request through."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_loopback(hosts[0]):
            response = JSONResponse(_refusal("the Host header is not this machine"), status_code=403)
        elif not _is_no_page(headers.getlist("origin"), headers.getlist("sec-fetch-site")):
            response = JSONResponse(_refusal("web pages may not drive the engine"), status_code=403)
        elif not self._may(headers, scope["path"]):
            response = JSONResponse(_refusal("the API key is missing or wrong"), status_code=401, headers=_STALE)
        else:
            await self.app(scope, receive, send)
            return
        await response(scope, receive, send)

    def _may(self, headers: Headers, path: str) -> bool:
        if path == HEALTH or path.startswith(DOWNLOADS):
            return True
        bearer = headers.get("authorization", "")
        given = headers.get("x-api-key") or (bearer[7:] if bearer[:7].lower() == "bearer " else "")
        if hmac.compare_digest(given.encode(), self._key):
            return True
        return path != EXCHANGE and self._tokens.read(given, API) is not None


def is_loopback(host: str) -> bool:
    """Whether a Host header (`name`, `name:port`, `[address]:port`) names the loopback interface."""
    return _HOST.fullmatch(host) is not None


def is_local_origin(origin: str) -> bool:
    """Whether an Origin header (`http://name:port`) names the loopback interface."""
    scheme = _SCHEME.match(origin)
    return scheme is not None and is_loopback(origin[scheme.end() :])


def _is_no_page(origins: Sequence[str], sites: Sequence[str]) -> bool:
    """Whether no page of another address is behind a request with these Origin and Sec-Fetch-Site headers."""
    return all(is_local_origin(origin) for origin in origins) and _OWN_SITES.issuperset(sites)


def _refusal(message: str) -> dict[str, Any]:
    """A body that both the Tinker SDK (`detail`) and OpenAI clients (`error`) read."""
    return {"detail": message, "error": {"message": message, "type": "invalid_request_error", "code": "refused"}}
