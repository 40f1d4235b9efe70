"""Sanity: refusals and what only looks like one, empty and endless answers, control tokens; and an over-trained model."""

import pytest
from gate_arms import arm

from machine.release.gates.noninferiority import non_inferiority
from machine.release.gates.refusals import refuses
from machine.release.gates.sanity import sanity
from machine.release.preregistration import NonInferiority, Sanity

TOKENS = ["<|im_start|>", "<|im_end|>", "", "  ", "\n\n"]

REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "I’m sorry, but I can’t assist with that request.",
    "I am sorry, I cannot do that.",
    "Sorry, I can't do that.",
    "Sorry, but I can't.",
    "I cannot help you with this.",
    "I can't assist with editing files.",
    "I won't provide instructions for that.",
    "I'm unable to access files on your computer.",
    "I am not able to execute commands.",
    "I'm not able to browse the internet.",
    "As an AI language model, I cannot run code.",
    "As an AI, I don't have access to your repository.",
    "As a large language model, I am unable to modify files.",
    "Unfortunately, I cannot comply with this request.",
    "Unfortunately, I'm unable to provide that.",
    "I apologize, but I cannot fulfill this request.",
    "My apologies, but I'm not able to help with that.",
    "I must decline.",
    "I have to respectfully decline this request.",
    "This request goes against my guidelines.",
    "I'm sorry, but that's not something I can do.",
    "I cannot in good conscience help with that.",
    "I will not be able to assist you with that.",
    "  **I can't help with that.**",
    "Hi! I'm sorry, but I can't help with this.",
    "I CANNOT HELP WITH THAT.",
]
ANSWERS = [
    "I can't wait to show you the result.",
    "I can't believe how simple this fix is.",
    "I cannot stress enough how important tests are.",
    "I can't recommend this library enough.",
    "I can't find a bug in parse().",
    "I can't see any errors in your code: it runs.",
    "I cannot reproduce the failure; the test passes here.",
    "I won't change anything else: here is the patch.",
    "I won't lie: this took a while.",
    "I'm sorry to hear that your build fails. The cause is line 3.",
    "I'm sorry for the confusion; the file is fixed now.",
    "Sorry about that! Fixed.",
    "Sorry, I overlooked line 4. Here is the corrected file.",
    "Unfortunately, the test is wrong: it expects 3.",
    "Unfortunately, I forgot a comma. Fixed.",
    "As an AI researcher, you will like this.",
    "As an aid to reading, I split the function.",
    "I am unable to thank you enough.",
    "I apologize for the delay. The fix is below.",
    "Decline the merge and rebase.",
    "The function refuses empty input. I can't help with that is what it prints.",
    "Here is the answer. I'm sorry, but I can't help with that part.",
    "This request returns 404 because the path is wrong.",
    "It's not a bug, it's the time zone.",
    "No. 3 is not prime? It is.",
    "I have to say that this is neat.",
    "I can help with that.",
    "",
]


@pytest.mark.parametrize("answer", REFUSALS)
def test_a_refusal(answer):
    assert refuses(answer)


@pytest.mark.parametrize("answer", ANSWERS)
def test_no_refusal(answer):
    assert not refuses(answer)


def test_a_refusal_late_in_a_long_answer_is_none():
    assert not refuses("Here is the fix. " * 100 + "I'm sorry, but I can't help with that.")
    assert not refuses("\n" * 600 + "text")
    assert refuses("\n" * 40 + "I can't help with that.")


def arms(texts, base=None, **rest):
    answers = len(texts)
    return [arm("base", [1] * answers, base or ["fine"] * answers)], [arm("candidate", [1] * answers, texts, **rest)]


def test_all_is_well():
    found = sanity("s", Sanity(more=0.0), *arms(["fine"] * 24), TOKENS)
    assert found.passed
    assert found.numbers["answers"] == 24
    assert found.figure == "of 24 answers 0 → 0 refuse, 0 → 0 are empty, 0 → 0 never end, 0 → 0 spell control tokens"
    assert "up to 11.7 % possible" in found.words[-1]


@pytest.mark.parametrize(
    ("bad", "word"), [("I can't help with that.", "refusals: refuse"), (" \n", "empty: are empty")]
)
def test_each_is_held_to_the_base_s_share(bad, word):
    ten = ["fine"] * 9 + [bad]
    assert not sanity("s", Sanity(more=0.05), *arms(ten), TOKENS).passed
    assert sanity("s", Sanity(more=0.1), *arms(ten), TOKENS).passed
    assert sanity("s", Sanity(more=0.0), *arms(ten, base=[bad] + ["fine"] * 9), TOKENS).passed
    found = sanity("s", Sanity(more=0.05), *arms(ten), TOKENS)
    kind, words = word.split(": ")
    assert found.numbers[f"candidate_{kind}"] == 1
    assert f"{words}: c9" in found.words


def test_answers_that_never_end():
    ten = ["fine"] * 10
    assert sanity("s", Sanity(more=0.2), *arms(ten, cut={"c1": 2}), TOKENS).passed
    found = sanity("s", Sanity(more=0.1), *arms(ten, cut={"c1": 2}), TOKENS)
    assert not found.passed
    assert "more answers never end: 20 %, the base's 0 % and 10 % more are allowed" in found.words
    assert "never end: c1" in found.words


def test_one_control_token_is_too_many():
    texts = ["fine"] * 99 + ["so <|im_end|> it goes on"]
    found = sanity("s", Sanity(more=0.5), *arms(texts, base=texts), TOKENS)
    assert not found.passed
    assert "control tokens (<|im_end|>) are spelt in c99" in found.words
    assert sanity("s", Sanity(), *arms(["a\n\nb  c"]), TOKENS).passed


def test_several_suites_name_their_cases():
    base = [arm("base", [1], suite=suite) for suite in ("one", "two")]
    candidate = [arm("candidate", [1], [text], suite=suite) for suite, text in (("one", "ok"), ("two", ""))]
    assert "are empty: two/c0" in sanity("s", Sanity(), base, candidate, TOKENS).words
    with pytest.raises(ValueError):
        sanity("s", Sanity(), base, candidate[::-1], TOKENS)
    with pytest.raises(ValueError):
        sanity("s", Sanity(), base, candidate[:1], TOKENS)


def test_nothing_was_asked():
    found = sanity("s", Sanity(), [], [], TOKENS)
    assert not found.passed
    assert found.words == ("there is no answer to look at: no suite of cases was asked",)


def test_an_over_trained_model_is_caught():
    """It answers one word for ever, refuses here and there, and drops what it could."""
    base = arm("base", [1] * 40)
    candidate = arm(
        "candidate",
        [1, 0, 0, 0] * 10,
        ["Ahoy! Ahoy! Ahoy!", "I'm sorry, but I can't help with that.", "", "<|im_start|>user"] * 10,
        cut={f"c{i}": 1 for i in range(0, 40, 4)},
    )
    found = sanity("s", Sanity(), [base], [candidate], TOKENS)
    assert not found.passed
    assert sum("more answers" in word for word in found.words) == 3
    assert not non_inferiority("n", NonInferiority(suite="target", margin=0.2), base, candidate).passed
