"""Who may ask: only this machine, and only with the key or a token that was signed with it.

The key is compared in constant time. The Host header must name the loopback interface, and so must the Origin header
where there is one: a web page that a browser on this machine shows can reach the engine neither through a name of its
own (DNS rebinding) nor by its address. A token (`tokens`) stands for the key except where tokens are given out, so that
it cannot outlive its time. Downloads show a token of another kind in their URL, which their endpoint reads.
"""

import hmac
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from machine.discovery import HEALTH
from machine.engine.api.tokens import API, Tokens

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
EXCHANGE = "/api/v1/auth/token"
DOWNLOADS = "/api/v1/downloads/"
_STALE = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
"""Tells the SDK to exchange its key for a new token."""


class Guard:
    """ASGI middleware that lets only those through who may."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app, self._key, self._tokens = app, key.encode(), Tokens(key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers 403 or 401 in the application's place, or lets the request through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not is_loopback(headers.get("host", "")):
            response = JSONResponse(_refusal("the Host header is not this machine"), status_code=403)
        elif not is_local_origin(headers.get("origin")):
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
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK
    except ValueError:
        return False


def is_local_origin(origin: str | None) -> bool:
    """Whether a request comes from no web page (no Origin header), or from one that this machine serves."""
    return origin is None or is_loopback(origin.partition("://")[2])


def _refusal(message: str) -> dict[str, Any]:
    """A body that both the Tinker SDK (`detail`) and OpenAI clients (`error`) read."""
    return {"detail": message, "error": {"message": message, "type": "invalid_request_error", "code": "refused"}}
