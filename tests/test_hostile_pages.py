"""Every page that Machine writes, made of hostile text and opened in a browser: it is shown, and nothing of it runs."""

import dataclasses
import json

import msgspec
import pytest

from machine.dataset import show
from machine.dataset.render import render
from machine.dataset.targets import expand
from machine.evals.case import Scorer
from machine.evals.judge import Verdict
from machine.evals.page import write_page
from machine.evals.record import BASELINE, CHECKPOINT, read_record, write_record
from machine.release.gates.result import Result
from machine.release.page import write_report
from releasepages import PREREGISTRATION, Release, attempt, questions
from runpages import case, evaluated, trained
from students import assistant, byte_student, call, result, row, user

FAR = "https://attacker.example"
RUN = "document.title='RAN'"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</pre></details></style></script><script>{RUN}</script>",
    f"--></style><script>{RUN}</script><!--",
    f"]]><script>{RUN}</script>",
    f'"><img src=x onerror="{RUN}">',
    f"'><img src='{FAR}/a.png' onerror='{RUN}'>",
    f'<svg onload="{RUN}"><image href=\'{FAR}/b.png\'/><animate onbegin="{RUN}" attributeName=x dur=1s></svg>',
    f'</text></svg><svg><script>{RUN}</script></svg><foreignObject><body onload="{RUN}">',
    f'<a href="javascript:{RUN}" id=trap>javascript:{RUN}</a>',
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe><iframe src='javascript:parent.{RUN}'></iframe>",
    f"<link rel=stylesheet href={FAR}/c.css><style>@import '{FAR}/d.css'; body {{ display: none }}</style>",
    f"<meta http-equiv=refresh content='0;url={FAR}'><base href='{FAR}/'><form action={FAR}><input autofocus onfocus={RUN}>",
    f'" autofocus tabindex=1 onfocus="{RUN}" style="background: url({FAR}/e.png)" x="',
    f"{{{{ ''.__class__ }}}} {{% include 'x' %}} ${{{RUN}}} &#60;script&#62;{RUN}&#60;/script&#62;",
    f"<script>{RUN}</script>\u2028{RUN}\u2029\u202e\x00\x1b[2J\x1b]52;c;eA==\x07\r\ufeff",
)
HOSTILE = "\n".join(PAYLOADS)
SLIPPED = [each for each in PAYLOADS[:-1] if "<!--" not in each and "<meta" not in each]
"""Those that the policy alone can stop: no policy of a page keeps a `refresh` from leaving it."""


def token_page(folder):
    """`train validate --show` of a row in which every text is hostile, tool, name and id too."""
    tool = {"name": HOSTILE, "description": "d", "parameters": {"type": "object"}}
    hostile = row(
        user(HOSTILE), assistant(HOSTILE, call(HOSTILE, json.dumps({HOSTILE: 1}))), result("r", name=HOSTILE),
        assistant("a"), tools=(tool,), note=HOSTILE, session=HOSTILE,
    )  # fmt: skip
    student = dataclasses.replace(byte_student(folder), model=HOSTILE, renderer_name=HOSTILE)
    hostile = msgspec.structs.replace(hostile, id=f"t_{HOSTILE}")
    path = folder / "t.html"
    path.write_text(show.html(student, hostile.id, [render(student, target) for target in expand([hostile])]), "utf-8")
    return path


def run_page(folder):
    """The page of a run: questions, answers, ids, a judge, the recipe, a cause of failure."""
    run = trained(folder)
    cases = [case(f"{i} {HOSTILE}", HOSTILE, HOSTILE) for i in range(4)]
    cases[1] = msgspec.structs.replace(cases[1], scorer=Scorer("judge", HOSTILE, HOSTILE), tags=(HOSTILE,))
    before = [(f"{HOSTILE} {i}", i < 2) for i in range(4)]
    evals = evaluated(run, cases, before, [(f"{HOSTILE} otherwise {i}", i % 2 == 0) for i in range(4)])
    for name in (BASELINE, CHECKPOINT + run.id):
        record = read_record(evals, name)
        said = tuple(Verdict(each.id, 0, HOSTILE, HOSTILE, HOSTILE, None) for each in cases)
        called = {"role": "assistant", "tool_calls": [call(HOSTILE, HOSTILE)]}
        samples = tuple(msgspec.structs.replace(each, message=called) for each in record.samples)
        write_record(evals, msgspec.structs.replace(record, verdicts=said, samples=samples))
    state = run.state
    run.write_state(msgspec.structs.replace(state, status="failed", cause=HOSTILE, next_step=HOSTILE))
    config = run.config
    config["recipe"] |= {"model": HOSTILE, HOSTILE: HOSTILE}
    config["versions"] |= {HOSTILE: HOSTILE}
    run.write_config(config | {"service": HOSTILE})
    return write_page(run, evals)


def release_page(folder):
    """The page of a release: its title, cases, answers, attempts, verdicts, plots and log."""
    written = json.dumps(HOSTILE.replace("\0", ""))
    text = PREREGISTRATION.replace("Reliable file repair", written).replace("Answer in one line.", written)
    release = Release(folder, text).freeze([]).candidate().asked()
    cases = [
        msgspec.structs.replace(each, messages=(user(HOSTILE),), scorer=Scorer("contains", HOSTILE), tags=(HOSTILE,))
        for each in questions("holdout")
    ]
    (release.gates / "holdout.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in cases))
    for arm in ("base", "candidate"):
        release.answer("holdout", arm, cases, [f"{HOSTILE} {arm} {i}" for i in range(12)], lambda i: i % 3 > 0)
    tried = attempt(0, False, why=HOSTILE, stderr=HOSTILE, check_output=HOSTILE, outside=(HOSTILE,), transcript=HOSTILE)
    release.attempts("fresh", "candidate", [msgspec.structs.replace(tried, tools={HOSTILE: 1}, changed=(HOSTILE,))])
    numbers = {"difference": 0.1, "difference_low": 0.0, "difference_high": 0.2, "gain": 0.1, HOSTILE: 1.0}
    verdict = Result("better on the target", "improvement", False, HOSTILE, HOSTILE, (HOSTILE,), numbers, (HOSTILE,))
    release.judged({"better on the target": verdict}).tried().activated(HOSTILE)
    return write_report(release.project, release.summary())


@pytest.mark.parametrize("make", [token_page, run_page, release_page])
def test_hostile_text_is_shown_and_nothing_of_it_runs_or_is_asked_for(opened, tmp_path, make):
    path = make(tmp_path)
    page = opened.open(path)
    page.look(width=1280)
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    page.evaluate("new Promise(done => setTimeout(done, 200))")
    assert page.evaluate("document.title") != "RAN"
    assert page.requests == [path.as_uri()]
    assert page.refused == []  # nothing was even tried: the policy is the second wall
    assert page.complaints == []
    tags = page.evaluate("[...new Set([...document.querySelectorAll('*')].map(e => e.localName))]")
    assert not set(tags) & {"script", "img", "image", "iframe", "link", "base", "form", "input", "animate", "object"}
    odd = page.evaluate(
        "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).map(a => a.name)"
        ".filter(name => name.startsWith('on') || ['style', 'autofocus', 'srcdoc', 'action'].includes(name))"
    )
    assert odd == []
    links = page.evaluate("[...document.querySelectorAll('[href], [src]')].map(e => e.getAttribute('href'))")
    assert all(link.startswith("#") for link in links)
    assert page.evaluate("getComputedStyle(document.body).display") == "block"
    text = page.evaluate("document.body.textContent").replace("↵", "")
    assert text.count(PAYLOADS[0]) >= 2
    assert [payload for payload in PAYLOADS[:-1] if payload not in text] == []


@pytest.mark.parametrize("make", [token_page, run_page, release_page])
def test_the_policy_lets_nothing_in_but_the_style_of_the_page(opened, tmp_path, make):
    path = make(tmp_path)
    head, _, rest = path.read_text("utf-8").partition("<title>")
    policy = head.partition('Content-Security-Policy" content="')[2].partition('"')[0].replace("&#39;", "'")
    kinds = dict(part.split(" ", 1) for part in policy.split("; "))
    style = kinds.pop("style-src")
    assert kinds == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}
    assert style.startswith("'sha256-")
    assert len(style.split()) == 1
    assert '<meta name="referrer" content="no-referrer">' in head
    slipped = tmp_path / "slipped.html"
    slipped.write_text(f"{head}<title>{rest}".replace("</body>", "\n".join(SLIPPED) + "</body>"), "utf-8")
    page = opened.open(slipped)
    page.evaluate("new Promise(done => setTimeout(done, 200))")
    assert page.evaluate("document.title") != "RAN"
    page.evaluate("document.getElementById('trap').click()")
    page.evaluate("new Promise(done => setTimeout(done, 200))")
    assert page.evaluate("document.title") != "RAN"
    assert [url for url in page.requests if FAR in url] == []
    assert any(FAR in url for url in page.refused)
