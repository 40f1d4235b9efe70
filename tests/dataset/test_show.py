import pytest

from machine.dataset import show
from machine.dataset.merge import Pack
from machine.dataset.render import render
from machine.dataset.targets import expand
from machine.report import Report, as_json, as_markdown, as_text
from machine.tinker.students import load_student
from students import assistant, questions, row, system, user, weather_row

WIDE = "h€llo 🌦️ 天気 \ufffd, Köln 👩‍👩‍👧"


def examples(student, *rows):
    return [render(student, target) for target in expand(rows)]


@pytest.fixture(params=["bytes", "thinkingmachines/Inkling-Small", "HuggingFaceTB/SmolLM2-135M-Instruct"])
def any_student(request, student):
    return student if request.param == "bytes" else load_student(request.param)


def test_pieces_are_the_whole_text_with_no_character_torn(any_student):
    [example] = examples(any_student, row(system(WIDE), user(WIDE), assistant(WIDE + "\n ok")))
    pieces = show.pieces(any_student, example)
    assert [token for piece in pieces for token in piece.tokens] == example.tokens
    assert [weight for piece in pieces for weight in piece.weights] == example.weights
    assert [piece.start for piece in pieces] == [sum(len(p.tokens) for p in pieces[:i]) for i in range(len(pieces))]
    text = "".join(piece.text for piece in pieces)
    assert text.count(WIDE) == 3
    assert text.count("\ufffd") == 3  # those that the text has
    trained = "".join(piece.text for piece in pieces if piece.trained and not piece.control)
    assert trained.strip() == WIDE + "\n ok"


def test_a_piece_is_one_token_where_a_character_is(any_student):
    [example] = examples(any_student, row(user("plain ascii words"), assistant("so it is")))
    assert all(len(piece.tokens) == 1 for piece in show.pieces(any_student, example))


def test_control_tokens_are_told_from_text_that_spells_them(student):
    [example] = examples(student, row(user("what is <|im_end|>?"), assistant("a <|im_start|>")))
    pieces = show.pieces(student, example)
    assert [p.text for p in pieces if p.control] == ["<|im_start|>", "<|im_end|>"] * 2
    assert "".join(p.text for p in pieces if not p.control).count("<|im_") == 2


def test_bytes_that_are_no_text_are_shown_as_such_and_lose_no_token(student):
    tokens = [*student.encode("é")[:1], *student.encode("ab€")[:4], *student.encode("é")[:1]]
    pieces = show.pieces(student, Pack(tokens, [0.0] * 5 + [1.0], (0,)))
    assert [token for piece in pieces for token in piece.tokens] == tokens
    assert "ab" in "".join(piece.text for piece in pieces)
    assert pieces[-1].text == "\ufffd"


def test_examples_that_are_trained_as_one_are_shown_as_one(student):
    found = examples(student, weather_row(), questions(1)[0])
    passages = show.passages(student, found)
    assert [p.title for p in passages] == [
        f"{found[0].id}, #{found[1].id.partition('#')[2]} (datum 1 of 2)",
        f"{found[2].id} (datum 2 of 2)",
    ]
    text = as_text(Report("t", passages=passages[:1]))
    assert text.count("⟦") == text.count("⟧") == 2
    assert "⟦Yes, -5 degrees.<|im_end|>⟧" in text


def test_a_terminal_is_shown_the_end_of_a_long_context_and_all_that_is_trained(student):
    answer = "\n".join(f"answer {i}" for i in range(200))
    long = row(user("\n".join(f"line {i}" for i in range(500))), assistant(answer))
    [passage] = show.passages(student, examples(student, long))
    text = as_text(Report("t", passages=[passage]))
    assert "line 499" in text
    assert "line 450" not in text
    assert "answer 0\n" in text
    assert "answer 199" in text
    shown = sum(len(span.text) for span in passage.spans if not (span.note or span.control))
    left_out = int(passage.spans[0].text.split()[0].lstrip("["))
    assert passage.spans[0].note
    [example] = examples(student, long)
    assert left_out + shown + sum(span.control for span in passage.spans) == len(example.tokens)  # a byte a token


def test_one_long_line_is_cut_too(student):
    [passage] = show.passages(student, examples(student, row(user("x" * 50_000), assistant("a"))))
    assert sum(len(span.text) for span in passage.spans) < 2 * show.CONTEXT_CHARACTERS


def test_nothing_in_a_row_can_style_or_steer(student):
    hostile = row(user("````\n[red]x\x1b[2J\u202e"), assistant("```\n# no heading"))
    report = Report("t", passages=show.passages(student, examples(student, hostile)))
    markdown = as_markdown(report)
    assert markdown.count("`````") == 2  # a fence that is longer than any in the text
    for text in (markdown, as_text(report)):
        assert "\x1b" not in text
        assert "\\x1b[2J\\u202e" in text


def test_the_page_has_every_token_with_its_id_and_weight(student):
    [example] = examples(student, row(user("<script>hi</script>"), assistant("</style>ok")))
    html = show.html(student, "t_1", [example])
    assert html.count('title="token ') == len(example.tokens)
    weight = round(1 / example.trained, 5)
    assert html.count(f", weight {weight}") == example.trained
    assert html.count(' id="trained-1-1"') == html.count('href="#trained-1-1"') == 1
    assert "<script" not in html
    assert html.count("</style>") == 1


def test_the_page_says_when_nothing_is_trained(student):
    import dataclasses

    [example] = examples(student, row(user("a"), assistant("b")))
    nothing = dataclasses.replace(example, weights=[0.0] * len(example.tokens))
    assert "Nothing is trained" in show.html(student, "t_1", [nothing])
    assert "Nothing is trained" not in show.html(student, "t_1", [example])


def test_programs_get_the_pieces(student):
    found = examples(student, weather_row())
    [datum] = show.as_data(student, found)
    assert datum["examples"] == [e.id for e in found]
    assert datum["trained"] == sum(e.trained for e in found)
    assert as_json(Report("t", data={"shown": [datum]})).isascii()
