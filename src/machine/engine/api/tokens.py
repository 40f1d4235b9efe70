"""Signed tokens: short-lived proof of the key, for a client that shows a JWT and for a download that has only its URL.

A token is a JWT (RFC 7519) signed with HMAC-SHA256 under a key derived from the engine's own: it needs no memory of
what was given out, cannot be guessed, and is void once its time is over or the key is another. `aud` says what it is
good for, so that a download's token opens nothing else.
"""

import base64
import binascii
import hashlib
import hmac
import json
import time
from typing import Any

API, DOWNLOAD = "api", "download"
_HEADER = {"alg": "HS256", "typ": "JWT"}


class Tokens:
    """Signs and reads the tokens of one key."""

    def __init__(self, key: str) -> None:
        self._key = hmac.new(key.encode(), b"tokens of the engine", hashlib.sha256).digest()

    def sign(self, audience: str, seconds: float, **claims: Any) -> str:
        """A token that says `claims` and is good for `seconds`."""
        now = time.time()
        body = {**claims, "aud": audience, "iat": int(now), "exp": int(now + seconds)}
        head = f"{_encode(json.dumps(_HEADER).encode())}.{_encode(json.dumps(body).encode())}"
        return f"{head}.{_encode(self._signature(head))}"

    def read(self, token: str, audience: str) -> dict[str, Any] | None:
        """What a token says; None unless it was signed here, for this audience, and its time is not over."""
        head, _, signature = token.rpartition(".")
        if not hmac.compare_digest(_encode(self._signature(head)).encode(), signature.encode()):
            return None
        try:
            claims: dict[str, Any] = json.loads(_decode(head.partition(".")[2]))
        except (ValueError, binascii.Error):
            return None
        return claims if claims["aud"] == audience and claims["exp"] > time.time() else None

    def _signature(self, head: str) -> bytes:
        return hmac.new(self._key, head.encode(), hashlib.sha256).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
