import msgspec
import pytest

from machine.evals.case import Call, Case, Scorer
from machine.evals.judge import Verdict
from machine.evals.page import FOLD, GROUPS, differing, html, said, wanted, write_page
from machine.evals.record import BASELINE, CHECKPOINT, Record, read_record, write_record
from machine.evals.sample import Parameters, Sample
from machine.evals.suite import suite_text
from machine.store.files import write_private
from runpages import MODEL, case, evaluated, trained

HOSTILE = "<script>alert(1)</script></style></pre>\"'&\x1b[2J\x00\u2028\u202e\u05d0"


def four(run):
    """A case of each kind; returns the folder of evaluations."""
    cases = [case(name, f"question {name}?") for name in ("keeps", "wins", "fails", "loses")]
    before = [("kept", True), ("base missed", False), ("no", False), ("base hit", True)]
    after = [("kept", True), ("hit", True), ("no no", False), ("missed now", False)]
    return evaluated(run, cases, before, after)


def test_the_page_is_private_and_whole(tmp_path):
    run = trained(tmp_path)
    path = write_page(run, tmp_path / "evals")
    assert (path, path.stat().st_mode & 0o777) == (run.folder / "report.html", 0o600)
    text = path.read_text()
    for figure in (MODEL, "5e" * 32, "18\u202f412", "41\u202f207 before merging", "nats a token", "tinker-cookbook"):
        assert figure in text
    assert text.count("<polyline") == 4  # two curves, for two widths
    assert text.count('<circle class="dot" cx') == 2 * 18
    assert run.sampler().sampler in text


def test_regressions_come_first_then_wins_then_the_rest(tmp_path):
    run = trained(tmp_path)
    evals = four(run)
    text = html(run, evals)
    places = [text.index(f"question {name}?") for name in ("loses", "wins", "fails", "keeps")]
    assert places == sorted(places)
    assert [text.index(title) for _, title in GROUPS] == sorted(text.index(title) for _, title in GROUPS)
    for part in ("ANSWER: 4.", "base hit", "1 and 1", "2 of 4 pass"):
        assert part in text
    assert "Too few cases to tell" in text


@pytest.mark.parametrize(
    ("before", "after", "headline"),
    [
        (False, True, "Better than the base model"),
        (True, False, "Worse than the base model"),
        (True, True, "No difference to the base model shown"),
    ],
)
def test_the_verdict_is_the_headline(tmp_path, before, after, headline):
    run = trained(tmp_path)
    cases = [case(str(i), f"q{i}") for i in range(8)]
    evals = evaluated(run, cases, [("a", before)] * 8, [("b", after)] * 8)
    assert f">{headline}</h1>" in html(run, evals)


def test_without_an_evaluation_it_says_what_to_type(tmp_path):
    run = trained(tmp_path)
    evals = four(run)
    for name, step in (
        (CHECKPOINT + run.id, f"machine train eval checkpoint {run.id}"),
        (BASELINE, "machine train eval baseline"),
    ):
        (evals / f"{name}.json").unlink()
        assert f"<code>{step}</code>" in html(run, evals)
    (evals / "suite.jsonl").unlink()
    assert "<code>machine train eval init</code>" in html(run, evals)
    assert "question loses?" not in html(run, evals)


def test_an_interrupted_run_says_why_and_how_to_go_on(tmp_path):
    run = trained(tmp_path, status="interrupted")
    text = html(run, tmp_path / "evals")
    assert "Interrupted at step 9 of 18: told to stop" in text
    assert f"<code>machine train run --resume {run.id}</code>" in text


def test_a_run_without_a_step_has_a_page(tmp_path):
    run = trained(tmp_path, held_out=False)
    (run.folder / "metrics.jsonl").unlink()
    assert "No step was trained yet" in html(run, tmp_path / "evals")


def test_records_that_cannot_be_compared_are_not(tmp_path):
    run = trained(tmp_path)
    evals = four(run)
    name = CHECKPOINT + run.id
    kept = read_record(evals, name)
    for changes, words in (
        ({"suite": "0" * 64}, "another suite"),
        ({"renderer": "machine/template"}, "another renderer"),
        ({"samples": kept.samples[:2]}, "did not answer the same cases"),
        ({"base": msgspec.structs.replace(kept.base, probe=(1.0, 2.0))}, "not answered by the base model"),
    ):
        write_record(evals, msgspec.structs.replace(kept, **changes))
        text = html(run, evals)
        assert words in text
        assert "Better" not in text
        assert "missed now" not in text
    (evals / f"{name}.json").write_text("{")
    assert "damaged" in html(run, evals)


def test_a_suite_that_was_edited_since_puts_no_question_to_another_s_answer(tmp_path):
    run = trained(tmp_path)
    evals = four(run)
    other = suite_text([case(name, f"another {name}?") for name in ("keeps", "wins", "fails", "loses")])
    for edited in (other, b"not json\n", None):
        if edited:
            write_private(evals / "suite.jsonl", edited)
        else:
            (evals / "suite.jsonl").unlink()
        text = html(run, evals)
        assert "question loses?" not in text
        assert "another loses?" not in text
        assert "missed now" in text
        assert "The suite was edited since" in text


def test_nothing_that_a_model_said_leaves_its_place(tmp_path):
    run = trained(tmp_path)
    cases = [case(HOSTILE[:-1], HOSTILE, HOSTILE), case("b", "q", "w")]
    evals = evaluated(run, cases, [(HOSTILE, True), ("x", True)], [(HOSTILE + " more", False), ("y", True)])
    path = write_page(run, evals)
    text = path.read_text()
    assert "<script" not in text
    assert text.count("</style>") == 1
    assert not set("\x00\x1b\u2028\u202e") & set(text)
    assert "\\x1b[2J\\x00\\u2028\\u202e\u05d0" in text


def test_a_long_answer_is_folded_and_whole(tmp_path):
    run = trained(tmp_path)
    long = "word " * 20_000 + "the end"
    evals = evaluated(run, [case("a", "q")], [("short", True)], [(long, False)])
    text = html(run, evals)
    head, folded = text.split('<details class="long">')
    assert head.count("word ") <= FOLD / len("word ") + 1
    assert f"all {len(long):,} characters".replace(",", "\u202f") in folded
    assert long in folded


def test_what_was_kept_of_everything_else_is_said(tmp_path):
    run = trained(tmp_path)
    evals = four(run)
    text = html(run, evals)
    assert "Everything else: " in text
    places = [text.index(f"<td>{name}</td>") for name in ("prose", "code", "data")]
    assert places == sorted(places)
    for part in ("+0.300", "NLL +0.167 nats a token", "&#39;ANSWER:&#39;: 0 → "):
        assert part in text
    name = CHECKPOINT + run.id
    record = read_record(evals, name)
    write_record(evals, msgspec.structs.replace(record, retention=msgspec.structs.replace(record.retention, suite="x")))
    assert "Baseline and checkpoint were asked different retention suites" in html(run, evals)
    write_record(evals, msgspec.structs.replace(record, retention=None))
    assert "Everything else" not in html(run, evals)


def test_an_identical_checkpoint_is_said(tmp_path):
    run = trained(tmp_path)
    evals = four(run)
    record = read_record(evals, CHECKPOINT + run.id)
    assert "the very answer of the base" not in html(run, evals)
    write_record(evals, msgspec.structs.replace(record, identical=True))
    assert "the very answer of the base" in html(run, evals)


def test_several_answers_a_case_stand_in_pairs(tmp_path):
    run = trained(tmp_path)
    evals = four(run)

    def doubled(record: Record) -> Record:
        twice = [msgspec.structs.replace(s, number=n) for s in record.samples for n in (0, 1)]
        return msgspec.structs.replace(record, samples=tuple(twice))

    for name in (BASELINE, CHECKPOINT + run.id):
        write_record(evals, doubled(read_record(evals, name)))
    text = html(run, evals)
    assert "checkpoint 2 <b" in text
    assert text.count("missed now") == 2


def test_what_a_judge_said_is_there_escaped_and_folded_when_long(tmp_path):
    run = trained(tmp_path)
    evals = four(run)
    said_of = {
        BASELINE: [Verdict("wins", 0, "judge/big", "?", f"Vague. {HOSTILE}\nVERDICT: FAIL", False)],
        CHECKPOINT + run.id: [
            Verdict("wins", 0, "judge/big", "?", "so " * 2000 + "right\nVERDICT: PASS", True),
            Verdict("loses", 0, "judge/big", "?", "I would rather not say.", None),
        ],
    }
    for name, verdicts in said_of.items():
        write_record(evals, msgspec.structs.replace(read_record(evals, name), verdicts=tuple(verdicts)))
    text = html(run, evals)
    for words in (
        "judge/big judged: it fails</summary>",
        "judge/big judged: it passes</summary>",
        "judge/big judged: no verdict, so it has not passed</summary>",
        "I would rather not say.",
    ):
        assert text.count(words) == 1
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    head, _ = text.split("so " * 2000 + "right")
    assert "all 6" + chr(0x202F) + "0" in head[-200:]
    case_that_wins, case_that_loses = text.index("question wins?"), text.index("question loses?")
    assert case_that_loses < text.index("I would rather not say.") < case_that_wins < text.index("so so so")


def test_how_they_were_asked_is_said(tmp_path):
    run = trained(tmp_path)
    evals = four(run)
    for name in (BASELINE, CHECKPOINT + run.id):
        how = Parameters(temperature=0.7, top_p=0.9, seed=3)
        write_record(evals, msgspec.structs.replace(read_record(evals, name), parameters=how))
    assert "temperature 0.7, top-p 0.9, at most 128 tokens, seed 3" in html(run, evals)


def test_words_that_differ_are_marked_and_no_word_is_lost():
    one, other = differing("the cat sat on the mat", "the dog sat on the mat")
    assert one == [("the ", False), ("cat", True), (" sat on the mat", False)]
    assert [word for word, marked in other if marked] == ["dog"]
    for before, after in (("", "x"), ("x", ""), ("a b c", "x y z"), ("same", "same"), ("a " * 5000, "b " * 5000)):
        for text, side in zip((before, after), differing(before, after), strict=True):
            assert "".join(word for word, _ in side) == text
    assert differing("nothing alike here", "Zwölf Boxkämpfer jagen Viktor") == (
        [("nothing alike here", False)],
        [("Zwölf Boxkämpfer jagen Viktor", False)],
    )


def test_tool_calls_are_part_of_what_was_said():
    message = {"tool_calls": [{"function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]}
    assert said(Sample("c", "", 3, "stop", message=message)) == '→ weather({"city": "Oslo"})'
    assert said(Sample("c", "Well.", 3, "stop", message=message)).startswith("Well.\n→ weather")
    assert said(Sample("c", "Well.", 3, "stop")) == "Well."


@pytest.mark.parametrize(
    ("scorer", "fields", "words"),
    [
        (Scorer("exact"), {"expected": "4"}, "4"),
        (Scorer("contains", "four"), {}, "contains four"),
        (Scorer("regex", "^4"), {"expected": "4"}, "regex ^4 (such as 4)"),
        (
            Scorer("tool_call"),
            {"expected_calls": (Call("weather", {"city": "Oslo"}),)},
            'calls weather({"city":"Oslo"})',
        ),
        (Scorer("json_schema", {"type": "object"}), {}, 'json_schema {"type":"object"}'),
    ],
)
def test_what_a_case_wants_is_said(scorer, fields, words):
    assert wanted(Case("c", ({"role": "user", "content": "q"},), scorer, **fields)) == words
