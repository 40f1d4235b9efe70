"""Bodies: how large a request may be, and all of them together."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from machine.engine.faults import RETRY_SECONDS
from machine.engine.wire import requests as wire


class BodyLimit:
    """ASGI middleware: a request larger than `wire.MAX_BODY` gets 413, its length stated or not.

    One that would make the bodies of all that are being answered larger than `wire.MAX_BODIES` gets 429.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Counts the body as it is read."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        total = 0

        async def counted() -> dict[str, object]:
            nonlocal total
            message = dict(await receive())
            size = len(message.get("body", b""))
            total += size
            self._held += size
            if total > wire.MAX_BODY:
                raise HTTPException(413, f"the request is larger than {wire.MAX_BODY} bytes")
            if self._held > wire.MAX_BODIES:
                raise HTTPException(429, "too many large requests at a time", {"Retry-After": RETRY_SECONDS})
            return message

        try:
            await self.app(scope, counted, send)
        finally:
            self._held -= total
