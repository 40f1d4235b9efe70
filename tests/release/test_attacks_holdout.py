"""Cases that were trained on and only look new."""

import unicodedata

import pytest
from test_holdout import LONG, case, row, said, user

from machine.release.holdout import overlap

ACCENTED = (
    "bitte prüfe das Gerät für die Küche und schreibe danach gleich einen kurzen Bericht über jede größere Störung"
)


@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: "\u200b".join(text),
        lambda text: "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in text),
        lambda text: text.replace(" ", "\u00a0\u2060"),
        lambda text: "\u202e" + text + "\u202c",
        lambda text: text.replace("f", "f\u00ad"),
        lambda text: text.replace("e", "e\ufe0f").replace("n", "n\u034f"),
        str.upper,
    ],
    ids=["decomposed", "zero width", "full width", "joined", "turned", "soft hyphens", "variants", "upper case"],
)
@pytest.mark.parametrize(
    "text", [LONG, ACCENTED, "Wie heißt die Hauptstadt für Käse?"], ids=["ascii", "accents", "short"]
)
def test_a_question_in_disguise_is_found(text, disguise):
    for asked, trained in ((disguise(text), text), (text, disguise(text))):
        (found,) = overlap([case("c", user(asked))], row("t", user(trained), said("a")), 0.5)
        assert found.row == "t"
        assert found.similarity > 0.9


def test_another_question_in_the_same_letters_is_another():
    other = "warum fällt der Schnee in den Bergen früher als über dem Meer, und wie lange bleibt er im Frühling liegen"
    assert overlap([case("c", user(other))], row("t", user(ACCENTED), said("a")), 0.5) == []
