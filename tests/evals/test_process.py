"""The process that scores what may hang or crash, for real."""

import http.server
import os
import signal
import subprocess
import sys
import threading
import time

import msgspec
import pytest

from machine.errors import Refused
from machine.evals.case import Case, Scorer
from machine.evals.child import Question
from machine.evals.process import Process, TooSlow
from machine.evals.sample import Sample
from students import user

FUNCTIONS = """import os, sys, time
from helper import HALF

def long(text, case, message):
    print("this is no score")
    return len(text) > 3 and case["id"] == "c" and message["role"] == "assistant"

def half(text, case, message):
    return HALF

def raises(text, case, message):
    raise KeyError("colour")

def wrong(text, case, message):
    return 7

def leaves(text, case, message):
    sys.exit(0)

def dies(text, case, message):
    os._exit(3)

def forks(text, case, message):
    return 1.0 if os.fork() else 0.0

def reads(text, case, message):
    return input()

def starts(text, case, message):
    import subprocess
    print(subprocess.Popen(["sleep", "600"]).pid, file=open("started", "w"))
    return True

def hangs(text, case, message):
    time.sleep(600)

def sees(text, case, message):
    return os.environ.get("LANG_OF_TEST") == "de" and "A_SERVICE_TOKEN" not in os.environ
"""


@pytest.fixture
def process(tmp_path):
    (tmp_path / "style.py").write_text(FUNCTIONS)
    (tmp_path / "helper.py").write_text("HALF = 0.5\n")
    with Process(tmp_path) as made:
        yield made


def by(name, text="four"):
    return Case("c", (user("b"),), Scorer("python", f"style.py:{name}")), said(text)


def said(text):
    return Sample("c", text, 1, "stop", message={"role": "assistant", "content": text})


def test_the_user_s_function_scores(process):
    assert process.score(*by("long")) == 1.0
    assert process.score(*by("long", "no")) == 0.0
    assert process.score(*by("half")) == 0.5


def test_a_function_sees_no_secret_of_the_user_s_environment(process, monkeypatch):
    monkeypatch.setenv("A_SERVICE_TOKEN", "gm7Wq2xZr9Lt4")
    monkeypatch.setenv("LANG_OF_TEST", "de")
    assert process.score(*by("sees")) == 1.0


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("raises", "raised KeyError at line 12: 'colour'"),
        ("wrong", "returned 7, not a truth value"),
        ("leaves", "raised SystemExit at line 18"),
        ("dies", "ended the process"),
        ("reads", "raised EOFError"),
    ],
)
def test_a_function_that_fails_is_named_and_the_next_still_scores(process, name, what):
    with pytest.raises(Refused, match=f"case c: style.py:{name}") as refused:
        process.score(*by(name))
    assert what in refused.value.message
    assert process.score(*by("half")) == 0.5


def test_a_function_that_hangs_is_ended(process, tmp_path):
    process.score(*by("half"))
    process._seconds = 0.5
    began = time.monotonic()
    with pytest.raises(Refused, match=r"style.py:hangs took longer than 0.5 s"):
        process.score(*by("hangs"))
    assert time.monotonic() - began < 9
    assert process.score(*by("half")) == 0.5


def test_a_file_that_does_not_load_is_named(tmp_path):
    (tmp_path / "bad.py").write_text("x = 1\nimport not_there_at_all\ndef f(text, case, message):\n    return True\n")
    with Process(tmp_path) as process, pytest.raises(Refused, match=r"bad.py:f raised ModuleNotFoundError at line 2"):
        process.score(Case("c", (user("b"),), Scorer("python", "bad.py:f")), said(""))


def test_a_catastrophic_pattern_ends(process):
    process._seconds = 0.5
    with pytest.raises(TooSlow):
        process.score(Case("c", (user("b"),), Scorer("regex", "^(a+)+$")), said("a" * 64 + "!"))
    assert process.score(Case("c", (user("b"),), Scorer("regex", "^a")), said("a")) == 1.0


def test_a_schema_does_not_reach_the_network(process):
    asked = []

    class Schemas(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with http.server.HTTPServer(("127.0.0.1", 0), Schemas) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        schema = {"$ref": f"http://127.0.0.1:{server.server_port}/schema.json"}
        with pytest.raises(Refused, match=r"case c: json_schema raised .*Unresolvable"):
            process.score(Case("c", (user("b"),), Scorer("json_schema", schema)), said("{}"))
        server.shutdown()
    assert asked == []


@pytest.mark.skipif(sys.platform == "win32", reason="no alarm")
def test_a_child_whose_parent_is_gone_does_not_run_for_ever():
    code = "from machine.evals import child; child.LONGEST = 1; child.main()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    slow = Question(Case("c", (user("b"),), Scorer("regex", "^(a+)+$")), "a" * 64 + "!", {})
    try:
        child.communicate(msgspec.json.encode(slow) + b"\n", timeout=60)
    finally:
        child.kill()
    assert child.returncode == -signal.SIGALRM


def test_nothing_is_left_running(tmp_path):
    with Process(tmp_path) as process:
        process.score(Case("c", (user("b"),), Scorer("regex", "a")), said("a"))
        child = process._child
    assert child.poll() is not None


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_function_that_forks_answers_once(process):
    assert [process.score(*by("forks")) for _ in range(5)] == [1.0] * 5
    assert process.score(*by("half")) == 0.5


@pytest.mark.skipif(sys.platform == "win32", reason="no sessions")
def test_what_a_function_started_ends_with_it(process, tmp_path):
    assert process.score(*by("starts")) == 1.0
    started = int((tmp_path / "started").read_text())
    os.kill(started, 0)
    process._end()
    for _ in range(100):
        try:
            os.kill(started, 0)
        except ProcessLookupError:
            return
        if "Z" in subprocess.run(["ps", "-o", "stat=", "-p", str(started)], capture_output=True, text=True).stdout:
            return
        time.sleep(0.05)
    pytest.fail("it still runs")


def test_an_answer_nested_too_deep_is_an_answer_that_fails(process):
    schema = {"items": {"$ref": "#"}}
    assert process.score(Case("c", (user("b"),), Scorer("json_schema", schema)), said("[" * 5000 + "]" * 5000)) == 0.0
    assert process.score(Case("c", (user("b"),), Scorer("json_schema", schema)), said("[" * 400 + "]" * 400)) == 0.0
    assert process.score(Case("c", (user("b"),), Scorer("json_schema", schema)), said("[[]]")) == 1.0
