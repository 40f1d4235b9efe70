"""Stores of settings: TOML, an INI file whose values refer to one another, a file of paths."""

import json
from collections.abc import Mapping, Sequence

from machine.agentic.chance import Chance
from machine.agentic.piece import Piece
from machine.agentic.theme import Theme

Value = str | int | bool | list[str]

TOML_MODULE = '''"""The settings, from {path}."""

import tomllib
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "{path}"


def {all}():
    """All settings, by section."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def {one}(section, key):
    """One setting."""
    return {all}()[section][key]
'''


def toml(chance: Chance, theme: Theme) -> Piece:
    """A TOML file of three sections and a table for each of a few things; the visible tests name every section."""
    pool: dict[str, dict[str, Value]] = {
        "limits": {"per_day": chance.between(5, 90), "per_person": chance.between(2, 9), "open": chance.odds(50)},
        "report": {
            "title": f"All {theme.things}",
            "width": chance.between(60, 120),
            "columns": chance.some(theme.items, 3),
        },
        "opening": {
            "first": f"{chance.between(6, 9):02}:30",
            "last": f"{chance.between(16, 21)}:15",
            "days": chance.between(4, 7),
        },
        "routing": {
            "start": chance.pick(theme.groups),
            "stops": chance.some(theme.groups, 4),
            "retries": chance.between(2, 8),
        },
        "prices": {
            "currency": "cents",
            "minimum": chance.between(1, 90) * 10,
            "rebate": chance.between(2, 30),
            "gross": True,
        },
    }
    whole = {name: pool[name] for name in chance.some(sorted(pool), 3)}
    tables: list[dict[str, Value]] = [
        {"name": name, "group": chance.pick(theme.groups), "count": chance.between(1, 50)}
        for name in chance.some(theme.items, chance.between(2, 4))
    ]
    every, one = chance.pick(("settings", "all_settings", "configured")), chance.pick(("setting", "lookup", "value_of"))
    path = chance.pick(("settings.toml", "config/settings.toml", f"{theme.things}.toml"))
    text = "".join(f"[{name}]\n{_toml_lines(keys)}\n" for name, keys in whole.items())
    text += "\n".join(f"[[{theme.thing}]]\n{_toml_lines(table)}" for table in tables)
    probe = next(iter(whole))
    key = chance.pick(list(whole[probe]))
    return Piece(
        module=chance.pick(("settings", "options", "configuration")),
        source=TOML_MODULE.format(path=path, all=every, one=one),
        names=(every, one),
        tests={
            every: [
                *(f"self.assertEqual({every}()[{name!r}], {keys})" for name, keys in whole.items()),
                f"self.assertEqual(len({every}()[{theme.thing!r}]), {len(tables)})",
            ],
            one: [f"self.assertEqual({one}({probe!r}, {key!r}), {whole[probe][key]!r})"],
        },
        hidden={every: [f"self.assertEqual({every}(), { {**whole, theme.thing: tables} })"]},
        says=f"`{path}` is TOML. `{every}()`: all settings. `{one}(section, key)`: one of them.",
        files={path: f"# Settings for the {theme.things}.\n{text}"},
    )


def _toml_lines(keys: Mapping[str, Value]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


INI_MODULE = '''"""The settings, from {path}; ${{section:key}} in a value stands for another one."""

import configparser
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "{path}"


def {all}():
    """The file, read strictly."""
    parser = configparser.ConfigParser(interpolation=configparser.ExtendedInterpolation())
    parser.read_string(FILE.read_text(encoding="utf-8"))
    return parser


def {one}(section, key):
    """One value, with what it refers to filled in."""
    return {all}()[section][key]
'''


def ini(chance: Chance, theme: Theme) -> Piece:
    """An INI file with references within a section and across sections; the visible tests name most values."""
    base, box, sent = (
        chance.pick(theme.groups),
        chance.pick(("inbox", "incoming", "fresh")),
        chance.pick(("sent", "done", "old")),
    )
    host = chance.pick(theme.items)
    written = {
        "place": {"base": f"var/{base}", "owner": chance.pick(theme.items), "depth": str(chance.between(2, 9))},
        "folders": {
            box: f"${{place:base}}/{box}",
            sent: f"${{{box}}}/{sent}",
            "backup": f"${{place:base}}/{chance.pick(theme.items)}",
        },
        "post": {"host": f"{host}.example", "sender": "${place:owner}@${host}", "keep": f"${{folders:{sent}}}"},
    }
    final = {
        "place": written["place"],
        "folders": {
            box: f"var/{base}/{box}",
            sent: f"var/{base}/{box}/{sent}",
            "backup": written["folders"]["backup"].replace("${place:base}", f"var/{base}"),
        },
        "post": {
            "host": f"{host}.example",
            "sender": f"{written['place']['owner']}@{host}.example",
            "keep": f"var/{base}/{box}/{sent}",
        },
    }
    every, one = chance.pick(("read_ini", "parsed_file", "sections")), chance.pick(("entry", "option", "ini_value"))
    path = chance.pick(("setup.ini", "config/main.ini", f"{theme.things}.ini"))
    order = chance.shuffled(sorted(written))
    text = "\n".join(f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in written[name].items()) for name in order)
    asked = [(name, key) for name in order for key in final[name]]
    return Piece(
        module=chance.pick(("setup", "inifile", "environment")),
        source=INI_MODULE.format(path=path, all=every, one=one),
        names=(every, one),
        tests={
            every: [f"self.assertEqual(sorted({every}().sections()), {sorted(order)})"],
            one: [f"self.assertEqual({one}({name!r}, {key!r}), {final[name][key]!r})" for name, key in asked],
        },
        hidden={
            one: [
                f"self.assertEqual({{k: {one}({name!r}, k) for k in {every}()[{name!r}]}}, {final[name]})"
                for name in order
            ]
        },
        says=f"`{path}` is INI with references such as `${{place:base}}`. `{one}(section, key)`: "
        "a value with them filled in.",
        files={path: f"; Settings for the {theme.things}.\n\n{text}"},
    )


PLACES_MODULE = '''"""Where the lists of {things} lie: {path} has their paths, from the top of the repository."""

import json
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def {all}():
    """The path of each list."""
    return json.loads((TOP / "{path}").read_text(encoding="utf-8"))


def {one}(name):
    """The lines of a list."""
    return (TOP / {all}()[name]).read_text(encoding="utf-8").splitlines()
'''


def places(chance: Chance, theme: Theme) -> Piece:
    """A JSON file of paths, `data/GROUP/NAME.EXT`, and those files, each with a few lines."""
    names = chance.some(theme.items, chance.between(3, 6))
    groups = chance.some(theme.groups, 3)
    ending = chance.pick(("txt", "lst", "list"))
    top = chance.pick(("data", "lists", "content"))
    paths = {name: f"{top}/{chance.pick(groups)}/{name}.{ending}" for name in names}
    lines = {
        name: [f"{chance.pick(theme.items)} {chance.between(1, 99)}" for _ in range(chance.between(2, 5))]
        for name in names
    }
    every, one = (
        chance.pick(("places", "known_lists", "list_paths")),
        chance.pick(("lines_of", "content_of", "read_list")),
    )
    path = chance.pick(("config/places.json", "places.json", "config/paths.json"))
    return Piece(
        module=chance.pick(("places", "locations", "finder")),
        source=PLACES_MODULE.format(things=theme.things, path=path, all=every, one=one),
        names=(every, one),
        tests={
            every: [f"self.assertEqual(sorted({every}()), {sorted(names)})"],
            one: [f"self.assertEqual({one}({name!r})[0], {lines[name][0]!r})" for name in names],
        },
        hidden={
            one: [f"self.assertEqual({one}({name!r}), {lines[name]})" for name in names],
            every: [f"self.assertEqual({every}(), {paths})"],
        },
        says=f"Each list lies in `{top}/GROUP/NAME.{ending}`; `{path}` says where. `{one}(name)`: the lines of a list.",
        files={path: json.dumps(paths, indent=2) + "\n"} | {paths[name]: _joined(lines[name]) for name in names},
    )


def _joined(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)
