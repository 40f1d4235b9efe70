"""What a strict statistician would not let pass, and texts that are no words: in figures, reports and pages."""

import json
import re

import msgspec
import pytest
from gate_arms import arm, pair
from scipy.stats import fisher_exact

from machine.evals.proof import Proof
from machine.evals.record import VERSION, Record, write_record
from machine.evals.sample import Parameters, Sample
from machine.evals.suite import suite_hash
from machine.release.gates.improvement import improvement
from machine.release.gates.noninferiority import control, non_inferiority
from machine.release.outcomes import fisher_greater
from machine.release.page import html
from machine.release.preregistration import Control, Improvement, NonInferiority
from machine.release.standing import ledger
from machine.release.status import list_report, log_report, status_report
from machine.report import as_json, as_markdown, as_text
from releasepages import MODEL, WEIGHTS, Release, questions, retention


@pytest.mark.parametrize(
    ("margin", "table", "passed"),
    [
        (0.1, (0, 0, 0, 40), False),
        (0.1, (4, 0, 0, 36), False),
        (0.1, (5, 0, 0, 35), True),
        (0.1, (4, 8, 0, 28), True),
        (0.9, (1, 0, 0, 9), False),
        (0.9, (30, 0, 10, 0), True),
        (0.99, (40, 0, 0, 0), True),
        (0.99, (38, 0, 0, 2), False),
        (0.3, (12, 0, 0, 28), False),
    ],
)
def test_a_suite_that_nobody_could_lose_shows_nothing(margin, table, passed):
    """A candidate that answers nothing at all is not worse than one that fails everything: that is no proof."""
    base, candidate = pair(*table)
    found = non_inferiority("kept", NonInferiority(suite="target", margin=margin), base, candidate)
    assert found.passed is passed, found
    prompted = msgspec.structs.replace(base, arm="control")
    asked = control("prompt", Control(suite="target", instruction="x", margin=margin), prompted, candidate)
    assert asked.passed is passed, asked
    silent = arm("candidate", [0.0] * sum(table))
    assert not non_inferiority("kept", NonInferiority(suite="target", margin=margin), base, silent).passed
    if table == (0, 0, 0, 40):
        assert any("the suite cannot show it: the base passes 0 of 40, a candidate" in word for word in found.words)
        assert any("the prompted base passes 0 of 40, a" in word for word in asked.words)


@pytest.mark.parametrize(
    ("before", "after", "passed"),
    [
        ([0.0] * 40, [0.0] * 40, False),
        ([1.0] * 40, [1.0] * 40, False),
        ([0.5] * 4, [1.0] * 4, False),
        ([0.5] * 5, [1.0] * 5, True),
        ([0.0] * 6, [1.0, 0, 0, 0, 0, 0], False),
        ([0.5] * 8, [0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.0], False),
        ([1.0, 0.0] * 10, [0.0, 1.0] * 10, False),
    ],
)
def test_an_improvement_is_one(before, after, passed):
    found = improvement("better", Improvement(suite="target"), arm("base", before), arm("candidate", after))
    assert found.passed is passed, found


def test_the_tail_is_fisher_s():
    for one, of_one, other, of_other in ((0, 1, 0, 1), (3, 4, 1, 9), (12, 12, 0, 30), (2, 11, 9, 39), (5, 300, 7, 900)):
        table = [[one, of_one - one], [other, of_other - other]]
        expected = fisher_exact(table, alternative="greater").pvalue
        assert fisher_greater(one, of_one, other, of_other) == pytest.approx(expected)


NASTY = "z|<script>alert(1)</script>\n# h\x1b[31m`</td>\u202e\x00\r</pre>&amp;\"'{{x}}"
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def test_no_text_of_a_case_or_an_answer_breaks_what_shows_it(tmp_path):
    release = Release(tmp_path).freeze().candidate().asked()
    cases = [msgspec.structs.replace(case, id=f"{NASTY}{i}") for i, case in enumerate(questions("target"))]
    for name, passing in (("base", 6), ("candidate", 3), ("control", 5)):
        samples = tuple(
            Sample(f"{NASTY}{i}", NASTY * 3, 7, "length", i < passing, float(i < passing)) for i in range(12)
        )
        proof = Proof(MODEL, WEIGHTS if name == "candidate" else None, (1.0, 2.0))
        kept = None if name == "control" else retention(name)
        record = Record(
            f"target-{name}", "2026-01-02T10:00:00+00:00", suite_hash(cases), MODEL, "machine/chatml", Parameters(),
            proof, samples, 3.0, version=VERSION, retention=kept,
        )  # fmt: skip
        write_record(release.gates, record)
    worse = msgspec.structs.replace(release.result("holds outside"), figure=NASTY, threshold=NASTY, words=(NASTY,) * 3)
    release.judged({"holds outside": worse})
    release.step("rejected", {"reason": NASTY})
    summary = release.summary()
    reports = [
        status_report(summary), log_report(summary.standing.entries),
        list_report(ledger(summary.standing.entries), [summary]),
    ]  # fmt: skip
    for report in reports:
        for text in (as_text(report), as_markdown(report), as_json(report)):
            assert not UNPRINTABLE.search(text)
        assert json.loads(as_json(report))
    page = html(summary)
    assert not UNPRINTABLE.search(page)
    assert "<script>alert" not in page
    assert page.count("</td>\u202e") == 0
    assert "&lt;script&gt;alert(1)" in page
