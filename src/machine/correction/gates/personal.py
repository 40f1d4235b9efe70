"""Personal: home folders and e-mail addresses, which say who somebody is.

What is reserved for examples or belongs to a system account says nothing of anybody and may stand.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from machine.correction.gates.wording import Span

_ACCOUNTS = (
    "runner runneradmin node user users username youruser app vscode ubuntu debian centos fedora ec2-user "
    "jenkins gitlab-runner circleci codespace git www-data linuxbrew vagrant docker container nobody public "
    "shared default you me settings dashboard profile index page about login feed news search"
)
"""Names of accounts that are nobody's, and of pages that a site keeps under `/home`."""
_NOBODY = frozenset(_ACCOUNTS.split())
_HOME = re.compile(
    r"(?:(?<![\w.$}~-])|(?<=file://))(?:/var|/export|/usr)?/home/(?P<unix>[A-Za-z_][\w.-]*)"
    r"|(?:(?<![\w.$}~-])|(?<=file://))(?:/mnt/[a-z]|/[a-z]|/System/Volumes/Data)?/Users/(?P<mac>[A-Za-z_][\w.-]*)"
    r"|(?<!\w)[A-Za-z]:[\\/]{1,2}(?i:users|documents and settings)[\\/]{1,2}(?P<windows>[\w.-]+)"
)
_EMAIL = re.compile(r"(?<![\w.+%-])([\w.+%-]+)@((?:[\w-]+\.)+[A-Za-z]{2,18})(?![\w(@])")
_RESERVED = re.compile(
    r"(?:.*\.)?(?:example(?:\.(?:com|org|net|edu))?|test|invalid|localhost|local|internal|lan|noreply\.github\.com)",
    re.I,
)
_NO_PERSON = _NOBODY | {"hg", "svn", "root", "admin", "noreply", "no-reply", "this", "return", "super", "self"}


def home_folders(text: str) -> Iterator[Span]:
    """Where a path names the home folder of somebody, on any system; the user's own wherever it lies."""
    for match in _HOME.finditer(text):
        name = (match["unix"] or match["mac"] or match["windows"]).rstrip(".").lower()
        if name not in _NOBODY:
            yield match.span()
    own = str(Path.home())
    if len(Path(own).parts) > 2 and Path(own).name.lower() not in _NOBODY:
        yield from (match.span() for match in re.finditer(re.escape(own) + r"(?![\w-])", text))


def emails(text: str) -> Iterator[Span]:
    """Where the address of somebody stands."""
    for match in _EMAIL.finditer(text):
        if not _RESERVED.fullmatch(match[2]) and match[1].lower() not in _NO_PERSON:
            yield match.span()
