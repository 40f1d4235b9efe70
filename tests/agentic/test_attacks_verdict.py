"""Repairs that are none, from within the process of the tests, and repairs that only look strange."""

import pytest
from test_verdict import repaired, repository, run_check

from machine.agentic import pi
from machine.agentic.doubt import doubted
from machine.agentic.verdict import judged
from machine.sandbox.job import Door, Limits

COUNT = """
import glob, os, re, sys
n = sum(len(re.findall(r"^    def test_", open(f).read(), re.M)) for f in glob.glob("tests/*.py"))
"""
FORGERIES = {
    "prints what a sound check prints": COUNT
    + 'sys.stderr.write("Ran %d tests in 0.001s\\n\\nOK\\n" % n); sys.stderr.flush(); os._exit(0)\n',
    "prints it at the exit": COUNT
    + "import atexit\n"
    + 'atexit.register(lambda: (sys.stderr.write("Ran %d tests in 0.001s\\n\\nOK\\n" % n), sys.stderr.flush(), '
    + "os._exit(0)))\nsys.stderr = open(os.devnull, 'w')\n",
    "lets every test pass": """
import unittest
def run(self, result=None): result.startTest(self); result.addSuccess(self); result.stopTest(self)
unittest.TestCase.run = unittest.loader._FailedTest.run = run
""",
    "lets no failure count": """
import unittest
for name in ("addFailure", "addError", "addSubTest"): setattr(unittest.TestResult, name, lambda *_: None)
for name in ("addFailure", "addError"): setattr(unittest.TextTestResult, name, lambda *_: None)
""",
    "is equal to all": """
import sys
class Any:
    def __getattr__(self, name): return Any()
    def __call__(self, *a, **k): return Any()
    def __eq__(self, other): return True
    def __iter__(self): return iter(())
    def __contains__(self, other): return True
    __hash__ = None
sys.modules[__name__] = Any()
""",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_module_that_answers_for_its_tests_repairs_nothing(forgery):
    edit = repository("edit", 3)
    (path,) = edit.solution
    verdict = judged(edit, {**edit.files, path: edit.files[path] + FORGERIES[forgery].encode()}, [], run_check)
    assert not verdict.passed, verdict
    assert verdict.outside == ()


def test_the_doubt_makes_every_test_that_compares_fail_and_leaves_the_rest():
    files = {
        "tests/test_a.py": b"class A(T):\n    def test_a(self):\n        self.assertEqual(1, 1)\n        self.assertEqual(2, 2)\n"
        b"    def test_b(self):\n        self.assertIn(1, [1])\n    def helper(self):\n        self.assertEqual(1, 1)\n",
        "tests/__init__.py": b"",
        "tests/data.txt": b"self.assertEqual(1, 1)",
        "tests/test_b.py": b"<<<<<<<",
        "a.py": b"def test_a(self): self.assertEqual(1, 1)",
    }
    found, failing = doubted(files)
    assert failing == 1
    assert [path for path in files if found[path] != files[path]] == ["tests/test_a.py"]
    assert found["tests/test_a.py"].count(b"assertEqual(1, 1)") >= 1
    assert {doubted(files)[0]["tests/test_a.py"].count(b"(1, (1") for _ in range(40)} == {0, 1}


@pytest.mark.parametrize("fault", ["constant", "json", "csv", "ini", "toml", "path", "spacing", "import"])
def test_a_right_repair_is_believed(fault):
    repo = repository(fault, 11)
    verdict = judged(repo, repaired(repo), [], run_check)
    assert verdict.passed, verdict


@pytest.mark.parametrize("change", [lambda data: data.replace(b"\n", b"\r\n"), lambda data: data.rstrip(b"\n"),
                                    lambda data: b"\xef\xbb\xbf" + data, lambda data: data + b"\n\n"])  # fmt: skip
def test_a_right_repair_with_other_line_ends_passes(change):
    repo = repository("constant", 5)
    ((path, right),) = repo.solution.items()
    assert judged(repo, {**repo.files, path: change(right)}, [], run_check).passed


@pytest.mark.parametrize("left", ["{path}~", "{path}.bak", "{path}.orig", ".#x", "check.out"])
def test_a_copy_that_is_left_beside_the_repair_is_a_change(left):
    """Nothing but what a run leaves behind by itself is passed over: who tidies up is asked to."""
    repo = repository("constant", 5)
    (path,) = repo.solution
    verdict = judged(repo, {**repaired(repo), left.format(path=path): repo.files[path]}, [], run_check)
    assert not verdict.passed
    assert len(verdict.outside) == 1


def test_only_the_model_that_is_tried_can_be_asked():
    """What it runs could else have another one of the service do its work."""
    model = pi.Model("tinker://a/b", Door("http://127.0.0.1:9/v1", "a-key-of-the-host"), 8192, 1000)
    door = pi.job(pi.installed(), model, "mend it", {}, Limits()).door
    assert (door.model, door.tokens, door.key) == ("tinker://a/b", 1000, model.door.key)
