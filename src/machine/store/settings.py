"""Settings: `settings.json`, what the user chose for one project.

`version` is bumped when a reader of the old form could misread the new one; keys that this version does not know stay.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from machine.errors import StoreError
from machine.store.files import explained

SETTINGS_VERSION = 1

Policy = Literal["redact", "refuse", "ask"]
"""What becomes of a turn that holds a secret: it is kept without it, not kept, or the user is asked."""


class Settings(msgspec.Struct, frozen=True):
    """What the user chose for one project.

    `auto`: compacted spans and headless runs are captured unasked. `footer`: Pi's status line speaks of the pool.
    `contributors`: the models (provider/id) that propose a reasoning in a correction, `teacher`: the one that does a
    turn again; none: the model that the user works with.

    `privacy`: what becomes of a turn that holds a secret. `redact_home`, `redact_email`: the user's home folder and the
    addresses that git signs with are secrets too. `allowed`: fingerprints of what looks like a secret and is none.
    """

    auto: bool = False
    footer: bool = True
    contributors: tuple[str, ...] = ()
    teacher: str | None = None
    privacy: Policy = "redact"
    redact_home: bool = False
    redact_email: bool = False
    allowed: tuple[str, ...] = ()


def read_settings(path: Path) -> Settings:
    """The settings in the file; defaults where there is none.

    Raises:
        StoreError: it is damaged, or of a newer version.
    """
    return _settings(path, _plain(path))


def changed(path: Path, changes: Mapping[str, object]) -> bytes:
    """What the file holds once some of the settings are changed.

    Raises:
        StoreError: it is damaged, or of a newer version.
        TypeError: there is no such setting.
    """
    plain = _plain(path)
    plain |= msgspec.to_builtins(msgspec.structs.replace(_settings(path, plain), **changes))
    return msgspec.json.format(msgspec.json.encode({"version": SETTINGS_VERSION} | plain)) + b"\n"


def _plain(path: Path) -> dict[str, Any]:
    try:
        with explained(path):
            data = path.read_bytes()
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return {}
        raise
    try:
        plain = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _damaged(path, error) from error
    version = plain.get("version")
    if type(version) is not int or version < 1:
        raise _damaged(path, "it has no version")
    if version > SETTINGS_VERSION:
        raise StoreError(
            f"{path} is of version {version}, from a newer Machine; this one reads version {SETTINGS_VERSION}",
            next_step=f"update Machine, or remove {path}: the defaults come back",
        )
    return plain


def _settings(path: Path, plain: dict[str, Any]) -> Settings:
    try:
        return msgspec.convert(plain, Settings)
    except msgspec.ValidationError as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, why: object) -> StoreError:
    return StoreError(f"{path} is damaged: {why}", next_step=f"mend it, or remove {path}: the defaults come back")
