"""Verdict: whether an agent repaired a repository, by its own check and by what else the agent changed.

The check never runs on what the agent left, but on the repository as it was, with the agent's version of the allowed
paths alone and the hidden tests. So a test, a check or a settings file that was edited or deleted, and a module put
beside (`sitecustomize.py`, `json.py`, `conftest.py`, a `.pth`), cannot help to pass it; each of them is also a change
outside, which fails by itself. So does anything that is not a plain file. An end with 0 counts only where the check
says that it ran every test there is and skipped none, so that a module that ends the process early does not pass; and
where the same check fails once its tests ask for what cannot be (see `doubt`), so that a module that forges that line
or disarms the tests does not. What this cannot see: a module that knows of both, and tells right answers from wrong.

What running the check or its like leaves behind is no change: a new `.pyc` file in a `__pycache__` folder, and
new files in the caches of pytest, mypy and ruff. None of it is there when the check is run.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from machine.agentic.doubt import doubted
from machine.agentic.task import Repository

SHOWN = 4000
"""Characters of the check's output that are kept, its last ones."""
NAMED = 3
"""Paths outside that the reason names; the others are counted."""
CACHES = {".pytest_cache", ".mypy_cache", ".ruff_cache"}

RunCheck = Callable[[Mapping[str, bytes], tuple[str, ...]], tuple[int | None, str]]
"""Runs an argv in a fresh box with just these files. Gives its exit code, None where it was stopped at a limit, and
what it wrote to standard output and standard error; of a long text at least the last `SHOWN` characters."""


class Verdict(msgspec.Struct, frozen=True):
    """`passed`, and `why` in one line. Paths are sorted: all that `changed`, those of them `outside` what a repair may.

    `check_code` is the check's exit code, None where it was stopped or not run; `check_output` how what it wrote ends.
    """

    passed: bool
    why: str
    changed: tuple[str, ...]
    outside: tuple[str, ...]
    check_code: int | None
    check_output: str


def judged(repo: Repository, after: Mapping[str, bytes], odd: Sequence[str], run_check: RunCheck) -> Verdict:
    """The verdict on what an agent left.

    `after` are the plain files that were found afterwards, path -> content; `odd` the paths of whatever else was found
    that is not a folder (links, pipes, sockets, devices). Where nothing was changed, the check is not run.
    """
    changed = {path for path in repo.files.keys() | after.keys() if repo.files.get(path) != after.get(path)}
    changed = {path for path in changed if path in repo.files or not _litter(path)} | set(odd)
    if not changed:
        return Verdict(False, "it changed nothing", (), (), None, "")
    outside = changed - repo.allowed
    kept = {path: after[path] for path in repo.allowed if path in after and path not in odd}
    laid = {path: data for path, data in repo.files.items() if path not in repo.allowed} | kept | dict(repo.hidden)
    code, output = run_check(laid, repo.check)
    failure = _failure(code, output, _tests(laid)) or _forged(laid, repo.check, run_check)
    said = [
        _listed("changed what is not part of the repair: ", outside),
        _listed("left what is not a plain file: ", set(odd)),
        failure,
    ]
    faults = [each for each in said if each]
    if faults and not failure:
        faults.append("the check passes")
    return Verdict(
        passed=not faults,
        why="; ".join(faults) or "repaired: the check passes and nothing else was changed",
        changed=tuple(sorted(changed)),
        outside=tuple(sorted(outside)),
        check_code=code,
        check_output=output[-SHOWN:],
    )


def _litter(path: str) -> bool:
    parts = PurePosixPath(path).parts
    compiled = re.search(r"\.pyc(\.\d+)?$", path) is not None and parts[-2:-1] == ("__pycache__",)
    return compiled or bool(CACHES.intersection(parts[:-1]))


def _failure(code: int | None, output: str, tests: int) -> str:
    """Why the check does not pass, empty where it does."""
    if code is None:
        return "the check was stopped before its end"
    if code != 0:
        return f"the check fails (exit code {code})"
    ran = re.findall(r"^Ran (\d+) tests? in ", output, re.MULTILINE)
    if ran != [str(tests)] or not re.search(r"^OK$", output, re.MULTILINE):
        return f"the check ended with 0 without running all of its {tests} tests"
    return ""


def _forged(laid: Mapping[str, bytes], check: tuple[str, ...], run_check: RunCheck) -> str:
    """Why the check that passed says nothing, since it does not fail where its tests must; empty where it does."""
    wrong, failing = doubted(laid)
    code, output = run_check(wrong, check)
    told = re.findall(r"^Ran (\d+) tests? in ", output, re.MULTILINE) == [str(_tests(laid))]
    if code == 1 and told and re.search(rf"^FAILED \(failures={failing}\)$", output, re.MULTILINE):
        return ""
    return "the check cannot be believed: it does not fail either where its tests are wrong"


def _tests(files: Mapping[str, bytes]) -> int:
    """The number of tests in the test files."""
    return sum(
        len(re.findall(rb"^    def test_", files[path], re.MULTILINE)) for path in files if path.startswith("tests/")
    )


def _listed(head: str, paths: set[str]) -> str:
    """The paths in one line, whatever their names hold; empty for none."""
    names = [path if path.isprintable() else ascii(path) for path in sorted(paths)]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return head + ", ".join(names[:NAMED]) + more if names else ""
