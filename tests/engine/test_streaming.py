import itertools
from types import SimpleNamespace

import pytest

from machine.engine.chat.chat import Chat
from machine.engine.chat.openai import first_stop
from machine.engine.chat.streaming import Transcript, safe_length
from machine.renderers import load_tokenizer


def test_safe_length_holds_back_what_may_become_something_else():
    assert safe_length("Hello <tool_", [], Chat.tags) == 6
    assert safe_length("Hello <b", [], Chat.tags) == 8
    assert safe_length("Hello <tool_", []) == 12
    assert safe_length("Hello STO", ["STOP"]) == 6
    assert safe_length("Hello STOP you", ["STOP"]) == 6
    assert safe_length("caf\ufffd", []) == 3
    assert first_stop("a b c", ["c", "b"]) == 2
    assert first_stop("a", ["x"]) is None


@pytest.mark.parametrize(
    "text", ["Hello, world.  Two spaces\n\tand a tab", "naïve café 東京 🙂🙃 👩‍👩‍👧 e\u0301", " a" * 300]
)
def test_a_transcript_is_the_text_of_all_tokens(small_folder, text):
    tokenizer = load_tokenizer(str(small_folder))
    decoded = []

    def decode(tokens):
        decoded.append(len(tokens))
        return tokenizer.decode(tokens)

    transcript = Transcript(SimpleNamespace(text=decode))
    tokens = tokenizer.encode(text)
    grown = []
    for token in tokens:
        transcript.add(token)
        grown.append(transcript.text)
    assert transcript.text == text
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(grown))
    assert max(decoded) < 16
