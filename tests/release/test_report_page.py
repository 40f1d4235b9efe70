import msgspec
import pytest

import browser
from machine.agentic.kept import ATTEMPTS
from machine.evals.page import FOLD
from machine.evals.record import read_record, write_record
from machine.release import log
from machine.release.gates.result import Result
from machine.release.page import FILE, ROOM, chain, html, write_report
from machine.release.plot import plot
from machine.release.sides import LONGEST, Room, changes
from releasepages import BEHAVIOUR, MODEL, PREREGISTRATION, RUN, Release, attempt, questions, whole

HOSTILE = (
    "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\"></style></pre>\"'&\x1b[2J\u202e"
)
NARROW = "\u202f"


def states(release):
    return [(step.stage, step.state) for step in chain(release.summary().standing)]


def open_sections(text, title):
    """What stands under a heading, up to the next."""
    return text.split(f"<h2>{title}", 1)[1].split("<h2>", 1)[0]


def test_the_page_is_private_and_has_all_of_a_release(tmp_path):
    release = whole(tmp_path)
    path = write_report(release.project, release.summary())
    assert path == release.project.releases / "BR-001" / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    for part in (
        "BR-001 v1 Reliable file repair: trial", BEHAVIOUR.replace("'", "&#39;"), MODEL, RUN, "5e" * 32, "20 to 400",
        "at most 400,000", "ada, grace", "at least 8 cases, frozen in suites/target.jsonl", "at most 128 tokens",
        "Gates: 7 of 7 passed", "p ≤ 0.05 and a gain of ≥ 10 %", "Answer in one line.", "Question 3 of target?",
        "11 of 12 pass; tinker://", "control (prompted base)", "contains 3", "OUTSIDE THE TASK: README.md", "JSONDecodeError",
        "fresh-candidate/transcripts/json-comma-0001.jsonl", "23.1 % (12.6 % to 38.3 %)", "The file as it is now",
    ):  # fmt: skip
        assert part in text, part
    assert "cannot be shown" not in text
    assert "warning" not in text.split("</style>")[1]
    for entry in release.summary().standing.entries:
        assert f'<td class="mono">{entry.digest[:12]}</td>' in text


def test_the_trial_has_a_head_for_each_of_its_columns(tmp_path):
    trial = open_sections(html(whole(tmp_path).summary()), "Trial")
    assert trial.count("<th></th>") + trial.count('<th class="number">') == 3
    assert '<td>turns</td><td class="number">12</td><td class="number">39</td>' in trial


def test_wins_and_losses_come_first(tmp_path):
    text = open_sections(html(whole(tmp_path).summary()), "Suite: target")
    places = [text.index(f"Question {number} of target?") for number in (5, 0, 11)]
    assert places == sorted(places)
    titles = ("Lost: the candidate does worse than the base (1)", "does better than the base (10)", "Both pass (1)")
    assert [text.index(title) for title in titles] == sorted(text.index(title) for title in titles)
    assert changes({"base": {"a": 1, "b": 0, "c": 0}, "candidate": {"a": 0, "b": 1}, "control": {"a": 1}}) == {
        "lost": ["a"],
        "won": ["b"],
        "answers": ["c"],
    }


def test_the_chain_marks_where_it_stands(tmp_path):
    release = Release(tmp_path)
    assert states(release)[:2] == [("draft", "now"), ("frozen", "ahead")]
    release.freeze().candidate().asked().judged()
    assert states(release)[3:5] == [("gated", "now"), ("trial", "ahead")]
    release.tried()
    release.step("trial ended", {"why": "5 bad turns"})
    assert states(release) == [
        ("draft", "done"), ("frozen", "done"), ("candidate", "done"), ("gated", "done"), ("trial", "done"),
        ("rejected", "end"),
    ]  # fmt: skip
    assert "5 bad turns" in html(release.summary())
    release.activated("all the same")
    assert states(release)[-3:] == [("trial", "done"), ("eligible", "skipped"), ("active", "now")]
    release.candidate()
    assert states(release)[2:4] == [("candidate", "now"), ("gated", "ahead")]


@pytest.mark.parametrize(
    "make", [Release, lambda folder: Release(folder, "a: ["), lambda folder: Release(folder).freeze()]
)
def test_a_release_has_a_page_before_anything_was_measured(tmp_path, make):
    text = html(make(tmp_path).summary())
    assert "Suite:" not in text
    assert "<h2>Trial" not in text
    assert "drafted" in text


def test_what_is_loud_stands_at_the_top(tmp_path):
    release = whole(tmp_path).activated("the demo is tomorrow")
    (release.place.folder / "suites" / "target.jsonl").write_text("other\n")
    path = release.project.releases / log.LOG
    path.write_bytes(path.read_bytes().replace(b'"by":"ada"', b'"by":"eve"', 1))
    text = html(release.summary())
    parts = ("THE LOG IS BROKEN", "FORCED: v1", "CHANGED SINCE IT WAS FROZEN", "<ol class")
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert "the answers are shown, the questions are not" in open_sections(text, "Suite: target")
    assert "Question 3 of target?" not in text
    assert "Question 3 of holdout?" in text


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("target-candidate.json", None, "target-candidate.json is missing"),
        ("target-candidate.json", b"{", "target-candidate.json cannot be shown"),
        ("holdout-base.json", b"[]", "holdout-base.json cannot be shown"),
        ("holdout.jsonl", b"{}\n", "the questions are not"),
        (f"fresh-base/{ATTEMPTS}", b"{}\n", "The attempts of the base cannot be shown"),
        (f"fresh-base/{ATTEMPTS}", None, "The attempts of the base cannot be shown"),
        ("target-base.json", b"\xff\x00", "What the base kept cannot be shown"),
        ("result.json", b"nothing", "its record cannot be read"),
    ],
)
def test_a_record_that_is_missing_or_damaged_is_said(tmp_path, file, content, said):
    release = whole(tmp_path)
    if content is None:
        (release.gates / file).unlink()
    else:
        (release.gates / file).write_bytes(content)
    text = html(release.summary())
    assert said in text
    assert "Question 4 of target?" in text
    assert "json-comma-0001" in text


def test_a_record_of_another_suite_is_not_set_beside(tmp_path):
    release = whole(tmp_path)
    record = read_record(release.gates, "target-candidate")
    write_record(release.gates, msgspec.structs.replace(record, suite="0" * 64))
    text = open_sections(html(release.summary()), "Suite: target")
    assert "it was asked another suite" in text
    assert "ANSWER: 3." not in text
    assert "Not set side by side" in text


def test_nothing_that_anybody_wrote_leaves_its_place(tmp_path):
    text = PREREGISTRATION.replace("Reliable file repair", msgspec.json.encode(HOSTILE).decode())
    release = Release(tmp_path, text).freeze([]).candidate().asked()
    cases = [
        msgspec.structs.replace(case, messages=({"role": "user", "content": HOSTILE},)) for case in questions("holdout")
    ]
    (release.gates / "holdout.jsonl").write_bytes(b"".join(msgspec.json.encode(case) + b"\n" for case in cases))
    for arm in ("base", "candidate"):
        release.answer("holdout", arm, cases, [f"{HOSTILE} {arm} {i}" for i in range(12)], lambda i: i % 3 > 0)
    tried = attempt(0, False, why=HOSTILE, stderr=HOSTILE, check_output=HOSTILE, outside=(HOSTILE,), transcript=HOSTILE)
    release.attempts("fresh", "candidate", [tried])
    result = Result("better on the target", HOSTILE, False, HOSTILE, HOSTILE, (HOSTILE,), {HOSTILE: 1.0}, (HOSTILE,))
    release.judged({"better on the target": result}).activated(HOSTILE)
    text = html(release.summary())
    assert text.count("&lt;script&gt;") > 40
    assert "<script" not in text
    assert "<img" not in text
    assert text.count("</style>") == 1
    assert not set("\x00\x1b\u2028\u202e") & set(text)


def test_long_texts_are_folded_and_the_page_is_bounded(tmp_path):
    release = Release(tmp_path).freeze().candidate().asked(200)
    for arm in ("base", "candidate"):
        long = [f"{arm} {i} " + "<&\u202e\u4e2d " * 4_000 for i in range(200)]
        for suite in ("target", "holdout"):
            release.answer(suite, arm, questions(suite, 200), long, lambda i: i % 2 == 0)
    text = html(release.judged().summary())
    assert len(text.encode()) < 5_000_000
    assert "To keep this page small" in text
    assert text.count(">candidate 0 &lt;") == 2
    assert text.count(">base 199 &lt;") == 2
    assert "more characters are left out here" in text
    assert "cases left out" not in text


def test_cases_that_there_is_no_room_for_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("machine.release.page.ROOM", 60_000)
    release = Release(tmp_path).freeze().candidate().asked(200)
    text = html(release.judged().summary())
    left = [int(part.split(">")[-1]) for part in text.split(" of them are left out here")[:-1]]
    assert len(left) > 2
    assert f"{sum(left)} cases left out" in text
    assert len(text.encode()) < 400_000


def test_room_takes_what_fits_and_counts_the_rest():
    room = Room(10_000)
    assert room.take("short").missing == 0
    assert room.take("x" * 20_000).missing > 10_000
    assert room.used_up
    assert room.take("y" * 5_000).text == ""
    assert room.cut == 2
    shown = Room(ROOM).take("<" * 100_000)
    assert len(shown.text) * len("&lt;") <= LONGEST
    assert len(shown.text) + shown.missing == 100_000
    assert FOLD < LONGEST


def test_an_interval_lies_where_its_numbers_say(tmp_path):
    numbers = {"difference": 0.1, "difference_low": -0.2, "difference_high": 0.4, "gain": 0.05}
    drawn = plot(Result("g", "improvement", False, "", "", numbers=numbers), 920)
    assert drawn.low < drawn.none < drawn.limit < drawn.point < drawn.high <= 920
    assert drawn.allowed == (drawn.limit, pytest.approx(920 - drawn.limit))
    assert not drawn.open
    sided = {"difference": 0.0, "difference_low": -0.2, "margin": 0.1}
    drawn = plot(Result("g", "control", False, "", "", numbers=sided), 340)
    assert drawn.open
    assert drawn.low < drawn.limit < drawn.point < drawn.high == 340
    rise = {"nll_rise": 0.02, "nll_rise_low": 0.01, "nll_rise_high": 0.03, "rise": 0.1}
    drawn = plot(Result("g", "retention", True, "", "", numbers=rise), 340)
    assert drawn.allowed == (0.0, drawn.limit)
    for broken in ({}, {**numbers, "difference_low": float("nan")}, {**numbers, "gain": float("inf")}):
        assert plot(Result("g", "improvement", False, "", "", numbers=broken), 340) is None
    assert plot(Result("g", "sanity", True, "", "", numbers=numbers), 340) is None


def test_a_browser_shows_it_and_runs_nothing(tmp_path):
    command = browser.find()
    if command is None:
        pytest.skip(browser.MISSING)
    release = whole(tmp_path)
    release.attempts("fresh", "candidate", [attempt(i, False, why=HOSTILE, stderr=HOSTILE) for i in range(3)])
    release.activated(HOSTILE + "long" * 200)
    path = write_report(release.project, release.summary())
    with browser.opened(command, tmp_path) as running:
        page = running.open(path)
        for width in (1280, 400):
            page.look(width=width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.title") == "BR-001 v1 Reliable file repair: active, FORCED"
        assert page.evaluate("document.querySelectorAll('script, img').length") == 0
        assert page.evaluate("document.querySelector('[aria-current=step]').innerText").startswith("active")
        colours = "[...document.querySelectorAll('.chain li')].map(e => getComputedStyle(e).backgroundColor)"
        assert len(set(page.evaluate(colours))) > 1
        assert page.evaluate("getComputedStyle(document.querySelector('.span')).strokeWidth") == "3px"
        assert page.requests == [path.as_uri()]
        assert page.complaints == []
