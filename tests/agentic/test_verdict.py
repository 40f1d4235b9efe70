import functools
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from machine.agentic import task
from machine.agentic.verdict import SHOWN, Verdict, judged

repository = functools.cache(task.repository)


def run_check(files, argv):
    with tempfile.TemporaryDirectory() as top:
        for path, data in files.items():
            file = Path(top) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        assert argv[0] == "python3"
        done = subprocess.run([sys.executable, "-B", *argv[1:]], cwd=top, env={}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def never(files, argv):
    raise AssertionError("the check was run")


def finds(code, output="Ran 1 test in 0.1s\n\nOK\n"):
    return lambda files, argv: (code, output)


def told(files, argv):
    """What a sound check says, without running it: that all is well, or that the tests which were made wrong fail."""
    tests = [data for path, data in files.items() if path.startswith("tests/")]
    count = sum(data.count(b"    def test_") for data in tests)
    wrong = sum(len(re.findall(rb", '[0-9a-f]{8}'\)\)$", data, re.MULTILINE)) for data in tests)
    end = f"FAILED (failures={wrong})" if wrong else "OK"
    return int(wrong > 0), f"{'-' * 70}\nRan {count} tests in 0.002s\n\n{end}\n"


def repaired(repo, **more):
    return {**repo.files, **repo.solution, **{path.replace("__", "/"): data for path, data in more.items()}}


@pytest.fixture
def edit():
    return repository("edit", 3)


@pytest.mark.parametrize("fault", ["syntax", "merge", "encoding", "import"])
def test_a_right_repair_passes(fault):
    repo = repository(fault, 4)
    verdict = judged(repo, repaired(repo), [], run_check)
    assert verdict.passed, verdict
    assert verdict.why == "repaired: the check passes and nothing else was changed"
    assert verdict.changed == tuple(sorted(repo.solution))
    assert (verdict.outside, verdict.check_code) == ((), 0)
    assert "OK" in verdict.check_output


def test_no_change_fails_without_a_run(edit):
    assert judged(edit, edit.files, [], never) == Verdict(False, "it changed nothing", (), (), None, "")
    litter = {f"{edit.check[1]}/__pycache__/a.cpython-311.pyc": b"x"}
    assert judged(edit, {**edit.files, **litter}, [], never).why == "it changed nothing"


def test_a_wrong_repair_fails(edit):
    (path,) = edit.solution
    verdict = judged(edit, {**edit.files, path: edit.files[path] + b"\n# looked at\n"}, [], run_check)
    assert not verdict.passed
    assert verdict.why == "the check fails (exit code 1)"
    assert verdict.changed == (path,)
    assert "AssertionError" in verdict.check_output


def test_a_repair_may_look_different():
    repo = repository("json", 5)
    ((path, right),) = repo.solution.items()
    for data in (json.dumps(json.loads(right)).encode(), right.replace(b"\n", b"\n\n"), right.rstrip()):
        assert judged(repo, {**repo.files, path: data}, [], run_check).passed
    source = repository("constant", 5)
    ((path, right),) = source.solution.items()
    assert judged(source, {**source.files, path: right + b"\n\n# mended\n"}, [], run_check).passed


def test_the_hidden_tests_find_a_repair_that_only_looks_right():
    repo = repository("json", 5)
    ((path, right),) = repo.solution.items()
    whole = json.loads(right)
    (rows,) = (value for value in whole.values() if isinstance(value, list))
    unseen = 0
    for row in rows:
        row["cents"] += 1
        after = {**repo.files, path: json.dumps(whole).encode()}
        row["cents"] -= 1
        if judged(replace(repo, hidden={}), after, [], run_check).passed:
            unseen += 1
            last = after
    assert unseen == len(rows) - 2
    assert not judged(repo, last, [], run_check).passed


@pytest.mark.parametrize(
    "extra", ["NEW.md", "tests/test_mine.py", "json.py", "x.pth", "conftest.py", "a/b/__init__.py"]
)
def test_a_right_repair_with_a_further_file_fails_and_both_is_told(edit, extra):
    verdict = judged(edit, {**repaired(edit), extra: b"x = 1\n"}, [], run_check)
    assert not verdict.passed
    assert verdict.why == f"changed what is not part of the repair: {extra}; the check passes"
    assert verdict.outside == (extra,)
    assert verdict.check_code == 0


def test_a_right_repair_that_edits_or_deletes_something_else_fails(edit):
    other = {**repaired(edit), "README.md": edit.files["README.md"] + b"!"}
    assert judged(edit, other, [], told).outside == ("README.md",)
    gone = {path: data for path, data in repaired(edit).items() if path != "README.md"}
    verdict = judged(edit, gone, [], told)
    assert not verdict.passed
    assert verdict.outside == ("README.md",)


def first_test(repo):
    (path,) = repo.solution
    return f"tests/test_{Path(path).stem}.py"


def cheats(repo):
    """What an agent might do in place of a repair, by name: the files that it adds or edits (None: deletes)."""
    tests = [path for path in repo.files if path.startswith("tests/test_")]
    leave = b"import os\nos._exit(0)\n"
    return {
        "empty test": {first_test(repo): b""},
        "no tests": dict.fromkeys(tests),
        "check": {"check.py": b""},
        "sitecustomize": {"sitecustomize.py": leave},
        "usercustomize": {"usercustomize.py": leave},
        "unittest": {"unittest.py": leave, "unittest/__main__.py": leave},
        "json": {"json.py": leave},
        "conftest": {"conftest.py": leave},
        "tests package": {"tests/__init__.py": leave},
        "pth": {"x.pth": b"import os; os._exit(0)\n"},
        "package": {path: leave for path in repo.files if path.endswith("/__init__.py")},
        "first test": {"tests/test_aaa.py": leave},
    }


@pytest.mark.parametrize("name", cheats(repository("edit", 3)))
def test_a_cheat_fails_for_what_it_touched_and_the_check_still_fails(edit, name):
    changes = cheats(edit)[name]
    after = {path: data for path, data in {**edit.files, **changes}.items() if data is not None}
    verdict = judged(edit, after, [], run_check)
    assert not verdict.passed
    assert set(verdict.outside) == {path for path in changes if after.get(path) != edit.files.get(path)}
    assert verdict.why.startswith("changed what is not part of the repair: ")
    assert verdict.why.endswith("the check fails (exit code 1)")


@pytest.mark.parametrize(
    "cheat",
    [
        b"import os\nos._exit(0)\n",
        b"import sys\nprint('OK')\nsys.stdout.flush()\nimport os\nos._exit(0)\n",
        b"import unittest\nraise unittest.SkipTest('later')\n",
        b"import os\nprint('Ran 1 test in 0s\\n\\nOK', flush=True)\nos._exit(0)\n",
    ],
)
def test_a_module_that_ends_or_skips_the_check_fails(edit, cheat):
    (path,) = edit.solution
    verdict = judged(edit, {**edit.files, path: cheat}, [], run_check)
    assert not verdict.passed
    assert verdict.outside == ()
    assert verdict.check_code == 0
    assert "without running all of its" in verdict.why


def test_functions_that_skip_their_tests_fail(edit):
    (path,) = edit.solution
    skips = b"\nimport unittest\n" + b"".join(
        b"\n\ndef %b(*_):\n    raise unittest.SkipTest('no')\n" % line[4:].split(b"(")[0]
        for line in edit.files[path].splitlines()
        if line.startswith(b"def ")
    )
    verdict = judged(edit, {**edit.files, path: edit.files[path] + skips}, [], run_check)
    assert not verdict.passed
    assert verdict.check_code == 0
    assert "skipped" in verdict.check_output
    assert "without running all of its" in verdict.why


def test_what_is_not_a_plain_file_fails(edit):
    verdict = judged(edit, repaired(edit), ["link"], told)
    assert not verdict.passed
    assert verdict.outside == ("link",)
    assert verdict.changed == tuple(sorted(["link", *edit.solution]))
    assert verdict.why.startswith("changed what is not part of the repair: link; left what is not a plain file: link")
    (path,) = edit.solution
    seen = {}
    verdict = judged(edit, repaired(edit), [path], lambda files, argv: seen.update(files) or told(files, argv))
    assert not verdict.passed
    assert path not in seen
    assert verdict.outside == ()
    assert verdict.why == f"left what is not a plain file: {path}; the check passes"


def test_links_in_caches_fail_too(edit):
    assert not judged(edit, repaired(edit), ["tests/__pycache__/a.pyc"], told).passed


def test_what_a_run_leaves_behind_is_no_change(edit):
    litter = {
        "__pycache__/check.cpython-311.pyc": b"1",
        "tests/__pycache__/test_x.cpython-312.opt-1.pyc": b"1",
        "tests/__pycache__/test_x.cpython-312.pyc.140234": b"1",
        ".pytest_cache/v/cache/lastfailed": b"{}",
        ".pytest_cache/README.md": b"x",
        ".ruff_cache/0.1/1": b"x",
        ".mypy_cache/3.11/x.json": b"x",
    }
    seen = {}
    verdict = judged(
        edit, {**repaired(edit), **litter}, [], lambda files, argv: seen.update(files) or told(files, argv)
    )
    assert verdict.passed
    assert verdict.changed == tuple(edit.solution)
    assert not seen.keys() & litter.keys()


@pytest.mark.parametrize(
    "path",
    [
        "json.pyc",
        "tests/__pycache__/json.py",
        "__pycache__/x.pyc/json.py",
        "a.pytest_cache",
        "__pycache__/x.pyc.so",
        ".pytest_cache",
    ],
)
def test_what_only_looks_like_a_cache_is_a_change(edit, path):
    assert judged(edit, {**repaired(edit), path: b"x"}, [], told).outside == (path,)


@pytest.mark.parametrize("fault", ["import", "edit", "path"])
def test_the_check_sees_the_original_files_the_allowed_ones_and_the_hidden_ones(fault):
    repo = repository(fault, 3)
    seen = []
    after = {**repaired(repo), "README.md": b"no", "new.py": b"", "tests/__init__.py": b"1"}
    judged(repo, after, [], lambda files, argv: seen.append((files, argv)) or told(files, argv))
    assert seen[0] == ({**repo.files, **repo.solution, **repo.hidden}, repo.check)
    (wrong, argv), tests = seen[1], [path for path in seen[0][0] if path.startswith("tests/test_")]
    assert len(seen) == 2
    assert {path for path in wrong if wrong[path] != seen[0][0][path]} == set(tests)
    assert argv == repo.check


def test_an_allowed_file_that_was_deleted_is_not_there_for_the_check(edit):
    (path,) = edit.solution
    seen = {}
    after = {other: data for other, data in edit.files.items() if other != path}
    verdict = judged(edit, after, [], lambda files, argv: seen.update(files) or (1, ""))
    assert path not in seen
    assert verdict.changed == (path,)


def test_a_check_that_does_not_end_fails(edit):
    verdict = judged(edit, repaired(edit), [], finds(None, "..."))
    assert not verdict.passed
    assert (verdict.check_code, verdict.why) == (None, "the check was stopped before its end")


def test_the_output_is_bounded_and_the_reason_is_one_line(edit):
    verdict = judged(
        edit, {**repaired(edit), "a\nb": b"", "c": b"", "d": b"", "e": b""}, [], finds(1, "x" * 9000 + "end")
    )
    assert len(verdict.check_output) == SHOWN == 4000
    assert verdict.check_output.endswith("end")
    assert (
        verdict.why == "changed what is not part of the repair: 'a\\nb', c, d and 1 more; the check fails (exit code 1)"
    )


@pytest.mark.parametrize(
    "output",
    [
        "",
        "OK\n",
        "Ran 3 tests in 0.1s\n\nOK\n",
        "Ran {n} tests in 0.1s\n\nOK (skipped=1)\n",
        "Ran {n} tests in 0s\nRan {n} tests in 0.1s\n\nOK\n",
    ],
)
def test_an_end_with_0_alone_does_not_count(edit, output):
    count = sum(
        data.count(b"    def test_")
        for path, data in {**edit.files, **edit.hidden}.items()
        if path.startswith("tests/")
    )
    assert judged(edit, repaired(edit), [], told).passed
    assert not judged(edit, repaired(edit), [], finds(0, output.format(n=count))).passed
