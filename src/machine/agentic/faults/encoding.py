"""Encoding: a text file that is not the UTF-8 that the program reads."""

import codecs
from collections.abc import Callable

from machine.agentic.chance import Chance
from machine.agentic.damage import Damage
from machine.agentic.project import Project

TOLD = (
    "{path} was saved by another editor, and now its texts come out wrong or not at all.",
    "A translator has sent {path} back, and the check does not like it.",
    "Reading {path} fails since yesterday; what it says has not been touched.",
)
SAVED: dict[str, Callable[[str], bytes]] = {
    "UTF-16, little end first": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "UTF-16, big end first": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "Latin-1": lambda text: text.encode("latin-1"),
    "UTF-8 after a byte order mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "UTF-8 twice": lambda text: text.encode().decode("latin-1").encode(),
    "code page 850": lambda text: text.encode("cp850"),
}


def damaged(chance: Chance, project: Project) -> Damage:
    """One file of texts in another encoding."""
    path = chance.pick(sorted(project.store.files))
    saved = SAVED[chance.pick(sorted(SAVED))](project.store.files[path])
    return Damage({path: saved}, chance.pick(TOLD).format(path=path))
