"""Stores: modules of made repositories that read a file, and that file: JSON, CSV, TOML, INI, paths, texts, recipes."""

from collections.abc import Callable, Mapping

from machine.agentic.chance import Chance
from machine.agentic.piece import Piece
from machine.agentic.stores import records, settings, texts
from machine.agentic.theme import Theme

STORES: Mapping[str, Callable[[Chance, Theme], Piece]] = {
    "json": records.catalogue,
    "csv": records.listed,
    "toml": settings.toml,
    "ini": settings.ini,
    "places": settings.places,
    "texts": texts.phrases,
    "recipes": texts.recipes,
}
"""What makes each kind of store."""
