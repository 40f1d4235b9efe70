"""The hygiene gates, on the samples that they were written with and on those that they were not."""

import json
import re
import secrets
import string
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
import yaml

from machine.correction.gates import RULES, Moment, check, marks
from machine.dataset.controls import control_tokens
from machine.renderers import load_tokenizer

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODELS = (
    "Qwen/Qwen3-8B",
    "deepseek-ai/DeepSeek-V4.1-Flash",
    "openai/gpt-oss-20b",
    "moonshotai/Kimi-K2.6",
    "zai-org/GLM-5.3",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
)
DOCUMENTED = Moment(
    context=["You are a coding agent. Files: package.json, pnpm-lock.yaml, packages/web/package.json"],
    question="Please add lodash to the web package of this workspace.",
    later=["npm install lodash", "npm warn workspaces filter set, but no workspace folder present in this tree"],
    correction="we never use npm in this repository, the lockfile belongs to pnpm",
    answer="Adds lodash to packages/web with pnpm's filter option and leaves the other lockfile alone",
    observed=["The quickest way to get a package into a JavaScript project is npm install, so that is what I do."],
)
"""What the examples of docs/corrections.md are about."""
SENTENCE = "The lockfile at the top belongs to pnpm and names both packages, so the filter matters {}. "


def letters(count, alphabet=string.ascii_letters + string.digits):
    return "".join(secrets.choice(alphabet) for _ in range(count))


def expanded(text):
    """What the samples leave out: secrets, which no file of a repository should hold, and long texts."""
    made = {
        "github": lambda: "ghp_" + letters(36),
        "aws": lambda: "AKIA" + letters(16, string.ascii_uppercase + "234567"),
        "stripe": lambda: "sk_live_" + letters(24),
        "gitlab": lambda: "glpat-" + letters(20),
        "telegram": lambda: letters(9, "123456789") + ":" + letters(35),
        "jwt": lambda: "eyJhbGciOiJIUzI1NiJ9." + "eyJ" + letters(20) + "." + letters(43),
        "key": lambda: f"-----BEGIN RSA PRIVATE KEY-----\n{letters(64)}\n-----END RSA PRIVATE KEY-----",
    }
    text = re.sub(r"%\{long:(\d+)\}", lambda m: "".join(SENTENCE.format(i) for i in range(int(m[1]))), text)
    return re.sub(r"%\{(\w+)\}", lambda m: made[m[1]](), text)


def documented(example):
    """The reasoning of a table's cell: what is left out there (`…`) is long, an invisible character is named."""
    text = example.strip().replace("\\|", "|").strip("`").strip()
    made = {"(a token)": "ghp_" + letters(36), "(400 words)": SENTENCE.format(1) * 30, "(ESC)": "\x1b[1m"}
    for name, meant in made.items():
        text = text.replace(name, meant)
    return text


@cache
def read(name):
    return yaml.safe_load((HERE / name).read_text(encoding="utf-8"))


def samples(kind):
    written = read("gates_samples.yaml")
    for rule, each in written["rules"].items():
        for i, (moment, reasoning, *more) in enumerate(each[kind]):
            known = {**written["moments"][moment], **(more[0] if more else {})}
            yield pytest.param(rule, expanded(reasoning), Moment(**known), id=f"{rule}-{i}")


def held_out(kind):
    for row in read("gates_held_out.yaml")[kind]:
        rule, question, reasoning, more = (*row, {})[:4] if kind == "bad" else ("", *(*row, {})[:3])
        known = {"context": ["You are a coding agent."], "later": [], "correction": "", **more}
        yield rule, expanded(reasoning), Moment(question=question, **known)


def rules_of(reasoning, moment):
    return [finding.rule for finding in check(reasoning, moment)]


@pytest.mark.parametrize(("rule", "reasoning", "moment"), samples("good"))
def test_a_fit_reasoning_passes(rule, reasoning, moment):
    assert check(reasoning, moment) == []


@pytest.mark.parametrize(("rule", "reasoning", "moment"), samples("bad"))
def test_an_unfit_one_is_found_by_its_rule_alone(rule, reasoning, moment):
    assert rules_of(reasoning, moment) == [rule]


@pytest.mark.parametrize("kind", ["good", "bad"])
def test_every_rule_has_its_samples(kind):
    written = read("gates_samples.yaml")["rules"]
    assert list(written) == list(RULES)
    assert [rule for rule, each in written.items() if len(each[kind]) < 8] == []


def test_what_was_held_out():
    """Written before the rules, which were not tuned on it."""
    alarms = [(reasoning, found) for _, reasoning, moment in held_out("good") if (found := check(reasoning, moment))]
    bad = [(rule, reasoning, rules_of(reasoning, moment)) for rule, reasoning, moment in held_out("bad")]
    missed = [(rule, reasoning) for rule, reasoning, found in bad if rule not in found]
    assert alarms == []
    assert len(missed) <= 3, missed  # of 66; 3 when it was first measured
    assert [found for rule, _, found in bad if set(found) - {rule}] == []


def test_findings_come_once_each_in_the_order_of_the_rules():
    reasoning = "In hindsight, looking back now, you should run npm test. Make sure to do it. This turn will be used for training.\x07"
    found = rules_of(reasoning, Moment(["You are an agent."], "Run the tests.", [], ""))
    assert found == ["hindsight", "meta", "instruction", "not-text"]


@pytest.mark.parametrize(("rule", "reasoning", "moment"), samples("bad"))
def test_a_reason_shows_nothing_that_it_may_not(rule, reasoning, moment):
    reasons = " ".join(finding.reason for finding in check(reasoning, moment))
    words = reasons.split()
    assert reasons
    assert not any(check_marks(reasons))
    for secret in re.findall(r"gh[a-z]_\w{36}|sk_live_\w+|glpat-\w+|\d{9}:\w{35}|eyJ\S+|AKIA\w+|hunter2\w+", reasoning):
        assert secret not in reasons
    for name in (
        "marta",
        "jkowalski",
        "kowalski",
        "anna",
        "li.wei",
        "svenja",
        "chloe",
        "garcia",
        "zhang.san",
        "shopworks",
    ):
        assert name not in reasons.lower()
    if rule == "hidden-reasoning":
        hidden = " ".join(moment.observed).split()
        assert not any(" ".join(hidden[i : i + 4]) in " ".join(words) for i in range(len(hidden) - 3))


def check_marks(text):
    return [*marks.control_tokens(text), *marks.not_text(text)]


def test_hidden_reasoning_is_not_shown_by_another_rule():
    observed = "Well, in hindsight I would rather look at the very first line of this file again."
    reasoning = "In hindsight I would rather look at the very first line of this file again, since setup.py is there."
    found = check(reasoning, Moment(["You are an agent."], "Which runner is used?", [], "", observed=[observed]))
    assert [finding.rule for finding in found] == ["hindsight", "hidden-reasoning"]
    assert "hindsight" not in found[0].reason
    assert "characters 1 to" in found[0].reason


def test_a_variable_of_the_users_environment_is_a_secret(monkeypatch):
    monkeypatch.setenv("DEPLOY_TOKEN", "correct-horse-battery")
    moment = Moment([], "Deploy it.", [], "")
    found = check("The server takes correct-horse-battery as its token, so the deploy can start from here.", moment)
    assert [finding.rule for finding in found] == ["secret"]
    assert "horse" not in found[0].reason


def test_the_users_own_home_folder_wherever_it_lies(monkeypatch):
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: cls("/people/staff/rosa")))
    moment = Moment([], "Deploy it.", [], "")
    assert rules_of("The keys are in /people/staff/rosa/keys, so the deploy reads them there.", moment) == [
        "personal-path"
    ]
    assert rules_of("The keys are in /people/staff/rosa-bot/keys, so the deploy reads them there.", moment) == []


def test_what_was_visible_may_be_quoted():
    passage = "the retry waits for two seconds and then sends the very same request once more to the same host"
    reasoning = f"The README says that {passage}, so a second host never gets any of them."
    known = {"question": "Why is the second host idle?", "later": [f"I see: {passage}."], "correction": passage}
    hidden = Moment(context=["You are an agent."], observed=[passage], **known)
    visible = Moment(context=["You are an agent.", f"README: {passage}!"], observed=[passage], **known)
    assert rules_of(reasoning, hidden) == ["quotes-correction", "quotes-later", "hidden-reasoning"]
    assert rules_of(reasoning, visible) == []


def test_machines_own_skills_make_no_project_one_that_trains():
    skills = "<available_skills><skill><name>machine</name>Trains a LoRA on your data: /good</skill></available_skills>"
    reasoning = "The lockfile is pnpm's, and as training data this is better than npm; /good will follow."
    known = {"question": "Add lodash.", "later": [], "correction": ""}
    assert rules_of(reasoning, Moment([f"You are an agent. {skills}"], **known)) == ["meta"]
    assert rules_of(reasoning, Moment([f"You are an agent. {skills}", "README: training data, /good"], **known)) == []


def test_an_earlier_complaint_may_be_answered():
    reasoning = "The user rejected my change to the lockfile, so npm is out and the package goes in with pnpm."
    known = {"question": "Add lodash again, please.", "later": [], "correction": ""}
    assert rules_of(reasoning, Moment(["You are an agent.", "No, not with npm!"], **known)) == []
    assert rules_of(reasoning, Moment(["You are an agent.", "No matches found"], **known)) == ["hindsight"]
    assert rules_of(reasoning, Moment(["You are an agent. Not with npm: that's wrong."], **known)) == ["hindsight"]


def test_calls_are_read_through_their_json():
    said = "sleep until the clock of the server says that the day is over and then print it"
    call = "write " + json.dumps({"text": said.replace(" ", "\n")})
    moment = Moment(["You are an agent."], "Write the script.", [call], "")
    assert rules_of(f"The script has to {said}, since the log is rotated.", moment) == ["quotes-later"]


def test_an_unlikely_text_is_no_error():
    moment = Moment([], "", [], "")
    assert rules_of("", moment) == ["length"]
    assert rules_of(" \n\t", moment) == ["length"]
    assert "not-text" in rules_of("The clock is real \ud800 and the test waits for it, so I read it.", moment)
    assert rules_of("ab " * 60_000, moment)[0] == "length"
    assert "length" in rules_of("you should " * 4_000 + "`" * 5000 + '"' * 5000 + "/a" * 5000, moment)


@pytest.mark.parametrize("model", MODELS)
def test_every_control_token_of_the_hosted_models_is_known(model):
    tokens = control_tokens(load_tokenizer(model))
    assert len(tokens) > 20
    assert [token for token in tokens if not list(marks.control_tokens(f"so {token} the"))] == []


def test_it_is_quick():
    """A context of 100 KB, on a machine that others use too: the best of many."""
    line = (
        "src/module_{0}.py:{0}: the function number {0} reads its settings and returns what it was given, or raises\n"
    )
    text = "".join(line.format(i) for i in range(1300))
    context = [text[i : i + 4000] for i in range(0, 100_000, 4000)]
    later = [text[i : i + 4000] for i in range(100_000, 130_000, 4000)]
    reasoning = "Function 77 raises where it has no settings, so a default has to be read first. " * 6
    moment = Moment(
        context, "Why does function 77 raise?", later, "read the default first", "Reads a default", [text[:2000]]
    )
    check(reasoning, moment)
    took = []
    for _ in range(15):
        began = time.perf_counter()
        check(reasoning, moment)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.030


def test_importing_the_gates_imports_no_detector():
    code = "import sys, machine.correction.gates; print([m for m in ('gcld3', 'detect_secrets', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_documentation_lists_exactly_the_rules():
    text = (ROOT / "docs" / "corrections.md").read_text(encoding="utf-8")
    section = text.split("## Hygiene gates", 1)[1].split("\n## ", 1)[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    assert [(row[0].strip(" `"), row[1].strip()) for row in rows] == list(RULES.items())
    for rule, _, example in rows:
        assert rules_of(documented(example), DOCUMENTED) == [rule.strip(" `")]
