"""What rows are told apart by, and which tokens only the chat format may write."""

import msgspec
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from machine.dataset.controls import control_tokens, special_tokens
from machine.dataset.select import rows_digest
from students import WEATHER, assistant, questions, row, system, user


def test_the_digest_of_rows_is_of_what_they_say():
    rows = questions(5)
    found = rows_digest(rows)
    assert len(found) == 64
    assert rows_digest(reversed(rows)) == found, "their order does not matter"
    renamed = [msgspec.structs.replace(each, id=f"x{i}", note="n", created_at="") for i, each in enumerate(rows)]
    assert rows_digest(renamed) == found, "nor what they are called"
    assert rows_digest([]) != found


def test_any_other_word_tool_target_tag_or_count_is_another_digest():
    said = (system("Be brief."), user("What is one plus one?"), assistant("2"), user("And two?"), assistant("3"))
    rows = [
        row(*said),
        row(*said[:-1], assistant("4")),
        row(*said, tools=[WEATHER]),
        row(*said, target=(2,)),
        row(*said, tag="observed"),
    ]
    found = {rows_digest([each]) for each in rows} | {rows_digest([rows[0], rows[0]]), rows_digest(rows)}
    assert len(found) == len(rows) + 2


def test_an_edit_of_the_kept_digest_changes_nothing():
    one = row(user("Hi"), assistant("Hello"))
    assert rows_digest([msgspec.structs.replace(one, digest="00")]) == rows_digest([one])


def test_special_tokens_are_those_that_a_plain_text_is_shown_without():
    inner = Tokenizer(WordLevel({"<unk>": 0, "hello": 1}, "<unk>"))
    inner.add_special_tokens([AddedToken("<|im_end|>", special=True), AddedToken("<s>", special=True)])
    inner.add_tokens([AddedToken("<think>", special=False)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    assert sorted(control_tokens(tokenizer)) == ["<s>", "<think>", "<|im_end|>"]
    found = special_tokens(tokenizer)
    assert sorted(found) == ["<s>", "<|im_end|>"]
    ids = tokenizer.convert_tokens_to_ids(["<s>", "<think>", "<|im_end|>"])
    assert tokenizer.decode(ids, skip_special_tokens=True).strip() == "<think>"
