import contextlib
import functools
import hashlib
import importlib
import json
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from machine.agentic.chance import Chance
from machine.agentic.parts import PLANS
from machine.agentic.piece import made, outcomes, slipped
from machine.agentic.stores import STORES
from machine.agentic.task import FAULTS, Task, build, draw, read_tasks, tasks_text
from machine.agentic.task import repository as unkept
from machine.agentic.theme import THEMES
from machine.errors import Refused

PINNED = {
    "syntax": "9833ff0c7ccefd3a",
    "edit": "39321f2e68462960",
    "constant": "90f60abdfb216c4e",
    "merge": "25df59bce2a9928e",
    "import": "fa84bc6ce864e09f",
    "json": "0559afa0bc0a434b",
    "toml": "d19e3ad27c3bbf73",
    "csv": "534d59cf99e5eb1a",
    "ini": "48f30355c8609ede",
    "path": "bef24647909549bf",
    "encoding": "69b3a338e3bc765d",
    "spacing": "921738c9630c2258",
}
repository = functools.cache(unkept)


def laid(folder, files):
    for path, data in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder


def sound_here(files):
    """Whether all tests of a repository pass, run in this process."""
    with tempfile.TemporaryDirectory() as top, pytest.MonkeyPatch.context() as patch, contextlib.suppress(ImportError):
        laid(Path(top), files)
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.syspath_prepend(top)
        before = set(sys.modules)
        with contextlib.redirect_stderr(None):
            tests = unittest.TestLoader().discover(f"{top}/tests", top_level_dir=top)
            result = unittest.TestResult()
            tests.run(result)
        for name in set(sys.modules) - before:
            del sys.modules[name]
        importlib.invalidate_caches()
        return result.wasSuccessful() and not result.skipped and result.testsRun > 0
    return False


def check_passes(files, check):
    """Whether a repository's check passes, run as it is meant to be."""
    with tempfile.TemporaryDirectory() as top:
        laid(Path(top), files)
        argv = [sys.executable, "-B", *check[1:]]
        done = subprocess.run(
            argv, cwd=top, env={"LC_ALL": "C", "PYTHONHASHSEED": "random"}, capture_output=True, text=True
        )
    return done.returncode == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_the_check_fails_before_the_repair_and_passes_after_it(fault):
    repo = repository(fault, 1)
    assert repo.check[0] == "python3"
    assert not check_passes(repo.files, repo.check)
    assert check_passes({**repo.files, **repo.solution}, repo.check)
    assert check_passes({**repo.files, **repo.solution, **repo.hidden}, repo.check)


@pytest.mark.parametrize("fault", FAULTS)
def test_twenty_repositories_of_a_fault(fault):
    for seed in range(20):
        repo = repository(fault, seed)
        assert not sound_here(repo.files), repo.task.id
        assert sound_here({**repo.files, **repo.solution, **repo.hidden}), repo.task.id
        assert repo.solution.keys() <= repo.allowed
        assert all(repo.files[path] != data for path, data in repo.solution.items())
        assert repo.allowed <= repo.files.keys()
        assert not any(path.startswith("tests/") or path == "check.py" for path in repo.allowed)
        assert not repo.hidden.keys() & repo.files.keys()
        assert not any("«" in text for text in (repo.prompt, *(data.decode("latin-1") for data in repo.files.values())))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_repository_looks_like_one(fault):
    repo = repository(fault, 7)
    packages = {path.split("/")[0] for path in repo.files if path.endswith("/__init__.py")} - {"tests"}
    (package,) = packages
    modules = [path for path in repo.files if path.startswith(f"{package}/") and "__init__" not in path]
    assert 3 <= len(modules) <= 5
    assert "README.md" in repo.files
    assert " ".join(repo.check) in repo.prompt
    assert " ".join(repo.check) in repo.files["README.md"].decode()
    assert sum(path.startswith("tests/test_") for path in repo.files) == len(modules)


@pytest.mark.parametrize("fault", FAULTS)
def test_seeds_give_different_repositories(fault):
    repos = [repository(fault, seed) for seed in range(40)]
    assert len({repo.task.digest for repo in repos}) == 40
    assert len({tuple(sorted(repo.solution.items())) for repo in repos}) > 35
    assert len({next(iter(repo.solution)) for repo in repos}) > 2
    assert len({frozenset(repo.files) for repo in repos}) > 36
    assert len({repo.prompt for repo in repos}) > 20


def test_a_name_that_two_modules_disagree_on_may_be_mended_in_either():
    repo = next(repo for repo in map(functools.partial(repository, "import"), range(20)) if len(repo.allowed) == 2)
    (report,) = repo.solution
    (module,) = repo.allowed - {report}
    old, new = (data[path].decode() for data, path in ((repo.files, report), (repo.solution, report)))
    (wrong, right) = next(
        (a.split(" import ")[1], b.split(" import ")[1])
        for a, b in zip(old.splitlines(), new.splitlines(), strict=True)
        if a != b and " import " in a
    )
    alias = repo.files[module] + f"\n\n{wrong} = {right}\n".encode()
    assert sound_here({**repo.files, module: alias, **repo.hidden})


def test_all_plans_are_told_apart_and_all_slips_show():
    words = Counter(
        word for plan in PLANS for key, words in plan.words.items() if key not in ("mark", "join") for word in words
    )
    assert not [word for word, count in words.items() if count > 1]
    modules = Counter(module for plan in PLANS for module in plan.modules)
    assert not [module for module, count in modules.items() if count > 1]
    for plan in PLANS:
        kept = Counter()
        for seed in range(20):
            chance = Chance(f"plan {seed}")
            piece = made(plan, chance, chance.pick(THEMES))
            assert {slip.kind for slip in piece.slips} == {"edit", "constant"}
            kept[len(piece.slips)] += 1
            assert len(piece.tests) == len(piece.names)
        assert max(kept) == len(plan.slips)


def test_the_words_of_a_project_do_not_meet():
    for seed in range(60):
        for kind, store in STORES.items():
            chance = Chance(f"{kind} {seed}")
            piece = store(chance, chance.pick(THEMES))
            assert piece.module not in {module for plan in PLANS for module in plan.modules}
            assert len(set(piece.names)) == len(piece.names)


def test_outcomes_tell_values_and_faults_apart():
    source = "def f(x):\n    return 10 // x\n"
    assert outcomes(source, ["f(2)", "f(0)"]) == [(True, "5"), (False, "ZeroDivisionError")]


def test_a_slip_that_does_not_fit_is_a_fault_of_its_plan():
    chance = Chance("x")
    piece = made(PLANS[0], chance, THEMES[0])
    with pytest.raises(ValueError, match="times, not once"):
        slipped(piece.source + piece.source, piece.slips[0])


def test_chance_is_the_same_for_ever():
    chance = Chance("a")
    assert [chance.below(1000) for _ in range(5)] == [chance_of(b"a", number) % 1000 for number in range(1, 6)]
    assert sorted(chance.shuffled(range(9))) == list(range(9))
    assert {chance.between(3, 5) for _ in range(99)} == {3, 4, 5}


def chance_of(seed, number):
    return int.from_bytes(hashlib.sha256(seed + b"/%d" % number).digest()[:16], "big")


def test_tasks_are_the_same_for_ever():
    assert {fault: repository(fault, 2026).task.digest[:16] for fault in FAULTS} == PINNED


def test_tasks_do_not_depend_on_the_process():
    script = "from machine.agentic.task import *; print([repository(fault, 3).task.digest for fault in FAULTS])"
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "LC_ALL": "C", "TZ": zone},
            capture_output=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert said == {str([repository(fault, 3).task.digest for fault in FAULTS]).encode() + b"\n"}


def test_a_suite_is_drawn_evenly_and_reads_back(tmp_path):
    tasks = draw(26, seed=1)
    assert tasks == draw(26, seed=1)
    assert tasks[:5] == draw(5, seed=1)
    assert tasks != draw(26, seed=2)
    assert Counter(task.fault for task in tasks).most_common()[0][1] - 26 // len(FAULTS) <= 1
    assert len(Counter(task.fault for task in tasks)) == len(FAULTS)
    path = tmp_path / "suite.jsonl"
    path.write_bytes(tasks_text(tasks))
    assert read_tasks(path) == tasks
    assert [build(task).task for task in tasks] == tasks


def test_fresh_tasks_are_fresh():
    one, other = draw(4, faults=("json", "csv")), draw(4, faults=("json", "csv"))
    assert [task.fault for task in one] == ["json", "csv", "json", "csv"]
    assert not {task.seed for task in one} & {task.seed for task in other}
    assert draw(0) == []


@pytest.mark.parametrize("faults", [(), ("json", "rust")])
def test_a_draw_of_no_known_fault_is_refused(faults):
    with pytest.raises(Refused, match="there is no fault"):
        draw(2, faults=faults)


def test_another_generator_s_task_is_refused():
    task = repository("json", 5).task
    for wrong in (
        msgspec.structs.replace(task, digest="0" * 64),
        msgspec.structs.replace(task, seed=6),
        msgspec.structs.replace(task, fault="toml"),
        msgspec.structs.replace(task, id="json-6"),
    ):
        with pytest.raises(Refused, match="this Machine makes another task of"):
            build(wrong)


@pytest.mark.parametrize("part", ["files", "prompt", "check", "allowed", "solution", "hidden"])
def test_the_digest_covers_everything(part, monkeypatch):
    from machine.agentic import task as module

    seen = []
    monkeypatch.setattr(module, "_digest", lambda *args: seen.append(args) or "0" * 64)
    unkept("import", 5)
    monkeypatch.undo()
    names = ["files", "prompt", "check", "allowed", "solution", "hidden"]
    args = list(seen[0])
    at = names.index(part)
    other = {
        str: lambda x: x + "!",
        tuple: lambda x: (*x, "y"),
        frozenset: lambda x: x | {"y"},
        dict: lambda x: x | {"y": b""},
    }
    changed = [*args[:at], other[type(args[at])](args[at]), *args[at + 1 :]]
    assert module._digest(*args) == repository("import", 5).task.digest
    assert module._digest(*changed) != module._digest(*args)
    if part in ("files", "solution", "hidden"):
        path = min(args[at])
        edited = [*args[:at], args[at] | {path: args[at][path] + b" "}, *args[at + 1 :]]
        assert module._digest(*edited) != module._digest(*args)


GOOD = msgspec.to_builtins(Task("json-5", "json", 5, "a" * 64))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 is not a JSON object"),
        ("[]", "line 2 is not a JSON object"),
        (json.dumps(GOOD | {"more": 1}), "line 2 is not a task"),
        (json.dumps({"id": "json-5"}), "line 2 is not a task"),
        (json.dumps(GOOD | {"seed": -5, "id": "json--5"}), "line 2 is not a task"),
        (json.dumps(GOOD | {"seed": True}), "line 2 is not a task"),
        (json.dumps(GOOD | {"digest": "A" * 64}), "line 2 is not a task"),
        (json.dumps(GOOD | {"fault": "rust", "id": "rust-5"}), "line 2: there is no fault called 'rust'"),
        (json.dumps(GOOD | {"id": "json-6"}), "line 2: the id 'json-6' is not json-5"),
        (json.dumps(GOOD), "line 2: json-5 stands there twice"),
        (json.dumps(GOOD | {"digest": "b" * 64}), "line 2: json-5 stands there twice"),
        (json.dumps(GOOD | {"id": "json-6", "seed": 6}), "line 2: json-6 stands there twice"),
    ],
)
def test_a_broken_line_is_refused_by_number(tmp_path, line, said):
    path = tmp_path / "suite.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + line + "\n")
    with pytest.raises(Refused) as caught:
        read_tasks(path)
    assert f"{path} {said}" in str(caught.value)
    assert caught.value.next_step == f"mend {path}"


def test_a_suite_without_tasks_is_refused(tmp_path):
    with pytest.raises(Refused, match="No such file"):
        read_tasks(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(Refused, match="holds no task"):
        read_tasks(tmp_path / "empty.jsonl")
