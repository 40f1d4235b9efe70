"""Discovery: where this machine's engine is, and a proof that who answers there is the engine.

The engine says where it is in `engine.json` of its folder, private like its `key`, for as long as it runs. The file
alone proves nothing: a killed engine leaves it behind, and any process may listen at its port by then. So nobody sends
the key before the other end has shown that it has it: it answers a random challenge with an HMAC under the key. The
challenge names the port that was asked, and an engine answers none that names another: who listens where an engine was
cannot have it answered by the engine that runs now.
"""

import hashlib
import hmac
import json
import secrets
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from machine.errors import ServiceError

FILE, KEY, LAST = "engine.json", "key", "last.json"
CHALLENGE = "X-Machine-Challenge"
HEALTH = "/api/v1/healthz"
VERSION = 1


@dataclass(frozen=True)
class Found:
    """What the engine says of itself. `idle`: the minutes after which it ends if nobody asks it anything; 0: never."""

    url: str
    pid: int
    model: str
    model_path: Path
    started_at: str
    idle: float = 0

    def encoded(self) -> bytes:
        """The content of the file."""
        facts = {"version": VERSION, **self.__dict__, "model_path": str(self.model_path)}
        return json.dumps(facts, indent=1).encode()


def read(state: Path) -> Found | None:
    """What the file in `state` says; None where there is none.

    Raises:
        ServiceError: it cannot be read as one.
    """
    path = state / FILE
    try:
        facts = json.loads(path.read_bytes())
        return Found(
            str(facts["url"]),
            int(facts["pid"]),
            str(facts["model"]),
            Path(facts["model_path"]),
            str(facts["started_at"]),
            float(facts.get("idle", 0)),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServiceError(
            f"{path} cannot be read as the engine's discovery file ({error})", next_step="machine engine start"
        ) from error


def key(state: Path) -> str | None:
    """The engine's key; None where there is none yet."""
    try:
        return (state / KEY).read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def proof(key: str, challenge: str) -> str:
    """What an engine with `key` answers to a challenge: HMAC-SHA256 (hex)."""
    return hmac.new(key.encode(), f"engine {challenge}".encode(), hashlib.sha256).hexdigest()


def is_for(challenge: str, port: int | None) -> bool:
    """Whether a challenge was made by who asked an engine at this port."""
    return challenge[:64].rpartition("@")[2] == str(port)


def proves(url: str, key: str, timeout: float = 2.0) -> bool:
    """Whether an engine that has `key` answers at `url`, within `timeout` seconds. The key is not sent."""
    challenge = f"{secrets.token_hex(16)}@{urlsplit(url).port}"
    request = urllib.request.Request(f"{url}{HEALTH}", headers={CHALLENGE: challenge})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as answer:
            said = json.loads(answer.read(4096))
        return hmac.compare_digest(str(said["proof"]), proof(key, challenge))
    except (OSError, ValueError, KeyError, TypeError):
        return False
