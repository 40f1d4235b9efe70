"""Stores of text: phrases in some languages, and recipes whose steps begin with a tab."""

from machine.agentic.chance import Chance
from machine.agentic.piece import Piece
from machine.agentic.theme import Theme

PHRASES = {
    "de": {
        "greeting": "Schönen Tag und grüß Gott",
        "closed": "Heute geschlossen, morgen geöffnet",
        "thanks": "Vielen Dank für Ihre Mühe",
        "error": "Das hat leider nicht geklappt: ungültige Größe",
        "next": "Nächste Übersicht",
        "price": "Preis je Stück, Gebühr inbegriffen",
        "empty": "Hier fehlt noch ein Eintrag für später",
        "bye": "Tschüss und schöne Grüße",
    },
    "fr": {
        "greeting": "Bonjour à vous, très chère équipe",
        "closed": "Fermé aujourd'hui, ouvert dès demain",
        "thanks": "Merci, c'était bien aimé",
        "error": "Échec : la quantité n'a pas été donnée",
        "next": "Page suivante, à droite",
        "price": "Prix par pièce, frais inclus après remise",
        "empty": "La liste est vide, désolé",
        "bye": "À bientôt, bonne soirée",
    },
    "es": {
        "greeting": "Buenos días, señoras y señores",
        "closed": "Cerrado hoy, mañana abrimos",
        "thanks": "Gracias por su atención",
        "error": "Algo salió mal: tamaño inválido",
        "next": "Página siguiente",
        "price": "Precio por unidad, envío según destino",
        "empty": "Aún no hay nada aquí",
        "bye": "Adiós y hasta el año próximo",
    },
    "sv": {
        "greeting": "God dag på er alla",
        "closed": "Stängt i dag, öppet i morgon",
        "thanks": "Tack så mycket för hjälpen",
        "error": "Det gick fel: måttet är för stort",
        "next": "Nästa översikt",
        "price": "Pris per styck, avgiften ingår även här",
        "empty": "Här finns inget ännu",
        "bye": "Hej då, vi ses på lördag",
    },
}
"""Our own phrases, by language; every character of them is in Latin-1."""

TEXTS_MODULE = '''"""Texts for people, from {folder}/: one UTF-8 file a language, lines end with a line feed alone."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "{folder}"


def {all}(language):
    """The texts of a language by key; a line without " = " raises ValueError with its number."""
    found = {{}}
    for number, line in enumerate((FOLDER / f"{{language}}.txt").read_bytes().decode("utf-8").split("\\n"), 1):
        if not line or line.startswith("#"):
            continue
        key, equals, text = line.partition(" = ")
        if not equals:
            raise ValueError(f"{{language}}.txt, line {{number}}: no key")
        found[key] = text
    return found


def {one}(language, key):
    """One text; the key itself where the language has none."""
    return {all}(language).get(key, key)
'''


def phrases(chance: Chance, theme: Theme) -> Piece:
    """Two or three files of phrases, some with a comment first; the visible tests name a few of each."""
    folder = chance.pick(("texts", "locale", "phrases"))
    languages = chance.some(sorted(PHRASES), chance.between(2, 3))
    keys = {each: chance.some(sorted(PHRASES[each]), chance.between(4, 8)) for each in languages}
    whole = {each: {key: PHRASES[each][key] for key in keys[each]} for each in languages}
    for each in languages:
        whole[each][chance.pick(("title", "name"))] = f"{theme.things.title()} · {chance.pick(theme.groups)}"
    every, one = chance.pick(("texts_of", "phrases", "wording")), chance.pick(("say", "text_for", "phrase"))
    head = {each: f"# {theme.things}, {each}\n" if chance.odds(50) else "" for each in languages}
    return Piece(
        module=chance.pick(("texts", "speech", "language")),
        source=TEXTS_MODULE.format(folder=folder, all=every, one=one),
        names=(every, one),
        tests={
            every: [f"self.assertEqual(list({every}({each!r})), {list(whole[each])})" for each in languages],
            one: [
                f"self.assertEqual({one}({each!r}, {key!r}), {whole[each][key]!r})"
                for each in languages
                for key in keys[each][:3]
            ],
        },
        hidden={
            every: [f"self.assertEqual({every}({each!r}), {whole[each]})" for each in languages],
            "plain": [f'self.assertNotIn(b"\\r", (TOP / "{folder}/{each}.txt").read_bytes())' for each in languages],
        },
        says=f"`{folder}/` has one file a language: lines `key = text`, UTF-8 without a byte order mark, "
        f"line feeds alone. `{one}(language, key)`: a text.",
        files={
            f"{folder}/{each}.txt": head[each] + "".join(f"{key} = {text}\n" for key, text in whole[each].items())
            for each in languages
        },
    )


RECIPES_MODULE = '''"""Recipes, from {path}: a line "name: needed ...", then its steps, each after one tab."""

from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "{path}"


def {all}():
    """What each recipe needs and its steps; any other line raises ValueError with its number."""
    found = {{}}
    for number, line in enumerate(FILE.read_bytes().decode("utf-8").split("\\n"), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("\\t") and found and line[1:].isprintable():
            found[name][1].append(line[1:])
        elif line[0].isalpha() and ":" in line and line.isprintable():
            name, needed = line.split(":")
            found[name] = (needed.split(), [])
        else:
            raise ValueError(f"{path}, line {{number}}: neither a recipe nor a step after a tab: {{line!r}}")
    return found


def {one}(name):
    """All steps of a recipe, those of what it needs first."""
    needed, own = {all}()[name]
    return [step for each in needed for step in {one}(each)] + own
'''


def recipes(chance: Chance, theme: Theme) -> Piece:
    """A file of four to six recipes, each needing some of those before it."""
    verbs = chance.some(
        ("fetch", "wash", "sort", "weigh", "pack", "count", "mark", "ship", "check", "store"), chance.between(4, 6)
    )
    whole: dict[str, tuple[list[str], list[str]]] = {}
    for at, verb in enumerate(verbs):
        needed = sorted(chance.some(verbs[:at], min(at, chance.between(0, 2))))
        whole[verb] = (
            needed,
            [f"{verb} {item} {chance.between(1, 40)}" for item in chance.some(theme.items, chance.between(1, 3))],
        )

    def steps(name: str) -> list[str]:
        needed, own = whole[name]
        return [step for each in needed for step in steps(each)] + own

    every, one = chance.pick(("recipes", "all_recipes", "jobs")), chance.pick(("steps_of", "plan_for", "work_for"))
    path = chance.pick(("Recipes", "Jobfile", "Workfile"))
    text = "\n".join(
        f"{name}: {' '.join(needed)}".rstrip() + "\n" + "".join(f"\t{step}\n" for step in own)
        for name, (needed, own) in whole.items()
    )
    return Piece(
        module=chance.pick(("recipes", "jobs", "workplan")),
        source=RECIPES_MODULE.format(path=path, all=every, one=one),
        names=(every, one),
        tests={
            every: [f"self.assertEqual(sorted({every}()), {sorted(whole)})"],
            one: [f"self.assertEqual({one}({name!r}), {steps(name)})" for name in verbs[-2:]],
        },
        hidden={every: [f"self.assertEqual({every}(), {whole})"]},
        says=f"`{path}`: `name: needed ...`, then steps after one tab each; lines end with a line feed alone. "
        f"`{one}(name)`: all steps, those of what it needs first.",
        files={path: f"# Work on the {theme.things}.\n{text}"},
    )
