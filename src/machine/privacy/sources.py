"""Sources: what is secret in one project whatever it looks like, and what looks like a secret and is none.

Exact values are the most precise rule there is: those of the user's own environment and of the project's `.env` files
whose names say secret, the passwords in their URLs, and, where a setting asks for it, the user's home folder and e-mail
addresses. What the user allowed is known by its fingerprint, an HMAC with a key of this machine: who reads the list, or
a fingerprint on a screen, cannot try passwords against it.
"""

import contextlib
import functools
import hashlib
import hmac
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from machine.privacy.forms.rule import SHORTEST
from machine.privacy.spellings import spellings

HOME, EMAIL = "home", "email"
_SECRET_NAME = re.compile(
    r"KEY(?!BOARD|RING|MAP|CLOAK)|TOKEN(?!IZER)|SECRET|PASS(?!IVE|ENGER|PORT)|(?<=.)PWD|CREDENTIAL|AUTH(?!OR)|COOKIE"
    r"|WEBHOOK|_DSN",
    re.IGNORECASE,
)
_NAMES_NO_SECRET = re.compile(
    r"PUBLIC|ASKPASS$|_(?:ID|NAME|USER|FILE|PATH|DIR|URL|URI|TYPE|METHOD|MODE|HOST|ALGORITHM|SOCK|ALG|AUDIENCE|BACKEND"
    r"|DOMAIN|DRIVER|ENDPOINT|ENGINE|EVENTS|EXPIRES|EXPIRES_IN|EXPIRY|EXPIRATION|HASHER|HEADER|ISSUER|LIFETIME|MANAGER"
    r"|PREFIX|PROVIDERS?|REALM|REGION|SAMESITE|SCOPES?|STORE|STRATEGY|TTL|VERSION)$",
    re.IGNORECASE,
)
_WEBHOOK_URL = re.compile(r"WEBHOOK.*_(?:URL|URI|ENDPOINT)$", re.IGNORECASE)
_HELD_BY_PATH = re.compile(r"://[^/]+/.*(?=[A-Za-z0-9_-]{6})[A-Za-z_-]*[0-9]")
_EVERYDAY = frozenset(
    """
    password passw0rd changeme changeit postgres postgresql username testtest test1234 12345678 123456789 1234567890
    localhost disabled required optional undefined development production staging internal external filesystem
    keychain keyring anonymous placeholder mysecret mypassword secret123 password1 password123 administrator
    assistant function messages content arguments parameters description properties required thinking
    """.split()  # noqa: SIM905 (a list of words is read as one)
)
"""Values that stand where a secret may and are everybody's: taking them out of a text would hide nothing."""
_ENV_FILE = re.compile(r"\.env(?:\..+)?|.+\.env")
_SAMPLE = re.compile(r"(?:^|[._-])(?:example|sample|template|dist|defaults?|schema)(?:$|[._-])", re.IGNORECASE)
_PRUNED = frozenset({"node_modules", "venv", "site-packages", "__pycache__", "target", "dist", "build", "vendor"})
_DEPTH, _FOLDERS, _LARGEST = 3, 400, 1 << 20


@dataclass(frozen=True)
class Exact:
    """One value: the rule that its findings are of, and whether it may be no part of a longer name."""

    rule: str
    whole: bool = False


@dataclass(frozen=True)
class Sources:
    """What is looked for beside the known forms, and what is let be.

    `values` are the exact values by what they are; `spelt` all the ways in which a text may hold each of them.
    `allowed` are fingerprints (hex), made with `key`; without a key there are none.
    """

    values: Mapping[str, Exact] = field(repr=False)
    allowed: frozenset[str] = frozenset()
    key: bytes = field(default=b"", repr=False)
    files: tuple[Path, ...] = ()
    """The `.env` files that were read."""
    left_out: tuple[str, ...] = ()
    """What was not read, and why."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Sources":
        """Those of an environment alone."""
        return cls({value: Exact(f"env-{_word(name)}") for name, value in _secrets(environ.items())})

    @functools.cached_property
    def spelt(self) -> Mapping[str, tuple[str, Exact]]:
        """Each spelling, with the value that it spells and its rule; a value's own spelling wins over another's."""
        found = {spelling: (value, exact) for value, exact in self.values.items() for spelling in spellings(value)}
        return found | {value: (value, exact) for value, exact in self.values.items()}

    def fingerprint(self, secret: str) -> str:
        """What a secret is known by on the allow-list and on screens: 16 hex digits; empty without a key."""
        if not self.key:
            return ""
        return hmac.new(self.key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]

    def allows(self, secret: str) -> bool:
        """Whether the user said that this is none; without a key, nothing is known to be."""
        return bool(self.key and self.allowed) and self.fingerprint(secret) in self.allowed


def of_project(
    root: Path,
    environ: Mapping[str, str],
    *,
    home: bool = False,
    emails: Iterable[str] = (),
    allowed: Iterable[str] = (),
    key: bytes = b"",
) -> Sources:
    """The sources of the project at `root`: the environment's, its `.env` files', and what the settings ask for.

    Reads files named `.env`, `.env.*` and `*.env`, but for samples, three folders deep; none but regular files of at
    most a MB. What could not be read is named in `left_out`.
    """
    values = dict(Sources.of(environ).values)
    read, left_out = [], list[str]()
    for path in _env_files(root, left_out):
        text = _text(path, left_out)
        if text is not None:
            read.append(path)
            found, unread = _assigned(text)
            values |= {value: Exact(f"env-{_word(name)}") for name, value in _secrets(found)}
            if unread:
                left_out.append(f"{path}: line {unread[0]} is no NAME=VALUE ({len(unread)} such)")
    if home:
        values |= {value: Exact(HOME, whole=True) for value in _homes(environ)}
    values |= {value: Exact(EMAIL, whole=True) for value in emails if "@" in value}
    return Sources(values, frozenset(allowed), key, tuple(read), tuple(left_out))


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment for a program that needs none of the user's secrets: no variable that holds one is left."""
    held = {name for name, _ in _secrets(environ.items())}
    return {name: value for name, value in environ.items() if name not in held}


def _secrets(variables: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The names and the secrets of variables: whole values whose names say secret, and the passwords in URLs."""
    for name, value in variables:
        value = value.strip()
        if password := _password(value):
            yield name, password
        elif (_says_secret(name) or _is_webhook(name, value)) and _is_value(value) and not _is_path(value):
            yield name, value


def _is_value(value: str) -> bool:
    """Whether a value may be a secret: long enough, nobody else's, and no line of dashes."""
    return (
        len(value) >= SHORTEST
        and value.lower() not in _EVERYDAY
        and len(set(value)) > 1
        and any(character.isalnum() for character in value)
    )


def _says_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None and _NAMES_NO_SECRET.search(name) is None


def _is_webhook(name: str, value: str) -> bool:
    """Whether a URL is a secret itself: who knows it may post there."""
    return _WEBHOOK_URL.search(name) is not None and _HELD_BY_PATH.search(value[:500]) is not None


def _password(value: str) -> str | None:
    """The password in a URL, as it is meant; None where there is none of note."""
    if "://" not in value or "@" not in value:
        return None
    try:
        password = urlsplit(value).password
    except ValueError:
        return None
    password = unquote(password) if password else ""
    return password if _is_value(password) else None


def _is_path(value: str) -> bool:
    if value.startswith(("/", "~")):
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # too long for a path; no such user; a NUL
            return Path(value).expanduser().exists()
    return False


def _word(name: str) -> str:
    """A variable's name as part of a rule's: what a placeholder may hold."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "value"


def _env_files(root: Path, left_out: list[str]) -> Iterator[Path]:
    waiting, folders = [(root, 0)], 0
    while waiting:
        folder, depth = waiting.pop(0)
        folders += 1
        if folders > _FOLDERS:
            left_out.append(f"folders below {folder.parent}: more than {_FOLDERS} were looked through for .env files")
            return
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH and not entry.name.startswith(".") and entry.name not in _PRUNED:
                    waiting.append((Path(entry.path), depth + 1))
            elif _ENV_FILE.fullmatch(entry.name) and not _SAMPLE.search(entry.name) and entry.is_file():
                yield Path(entry.path)


def _text(path: Path, left_out: list[str]) -> str | None:
    try:
        if path.stat().st_size > _LARGEST:
            left_out.append(f"{path}: larger than a MB")
            return None
        return path.read_text("utf-8", "replace")
    except OSError as error:
        left_out.append(f"{path}: {error.strerror or error}")
        return None


def _assigned(text: str) -> tuple[list[tuple[str, str]], list[int]]:
    """The variables that a `.env` file sets, each time that it sets one; and the lines that set none as they should."""
    from dotenv.parser import parse_stream

    found, unread = list[tuple[str, str]](), list[int]()
    for binding in parse_stream(io.StringIO(text)):
        if binding.error:
            unread.append(binding.original.line)
            name, _, value = binding.original.string.partition("=")
            found.append((name, value.strip().strip("'\"")))
        elif binding.key and binding.value:
            found.append((binding.key, binding.value))
    return found, unread


def _homes(environ: Mapping[str, str]) -> Iterator[str]:
    """The user's home folder, and how Pi spells it in the names of session folders."""
    for home in dict.fromkeys(filter(None, (environ.get("HOME"), environ.get("USERPROFILE")))):
        if len(home.strip("/\\")) > 1:
            yield home.rstrip("/\\")
            yield "--" + re.sub(r"[/\\:]+", "-", home.strip("/\\"))
