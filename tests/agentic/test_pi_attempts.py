"""The real Pi in the real box, with a scripted model that repairs, breaks, loops and breaks out, and with the engine's."""

import json
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fixtures_engine import RunningEngine
from machine.agentic.kept import ATTEMPTS, read_attempts
from machine.agentic.pi import Model
from machine.agentic.run import attempt_all
from machine.agentic.task import Repository, build, draw
from machine.errors import Refused, ServiceError, TrainingError
from machine.sandbox.choice import choose
from machine.sandbox.job import Door, Limits
from relay import relay
from repairer import Call, Repairer, in_turn, results

KEY = "a-key-that-stays-outside"
SHORT = Limits(seconds=60)


@pytest.fixture(scope="module")
def box():
    """A real box: what these tests have the model do must never run without one."""
    try:
        chosen = choose()
    except Refused as error:
        pytest.skip(f"no sandbox here: {error.whole}")
    assert chosen.name != "none"
    return chosen


@pytest.fixture(scope="module")
def repositories():
    """Tasks whose solution is text, so that Pi's `write` can write it."""
    drawn = [build(task) for task in draw(12, seed=7)]
    return [repository for repository in drawn if _writes(repository)][:2]


@pytest.fixture
def server():
    with Repairer(in_turn()) as running:
        yield running


def _model(server: Repairer, url: str | None = None, **fields) -> Model:
    return Model("tinker://a:train:0/sampler_weights/b", Door(url or server.url, KEY), 32_768, 1000, **fields)


def _writes(repository: Repository) -> list[Call]:
    """The calls that solve a repository; none where its solution is not text alone."""
    changed = {path: data for path, data in repository.solution.items() if repository.files.get(path) != data}
    try:
        return [("write", {"path": path, "content": data.decode()}) for path, data in changed.items()]
    except UnicodeDecodeError:
        return []


def _solving(repository: Repository) -> list[list[Call]]:
    first = next(iter(repository.allowed))
    return [[("read", {"path": first})], _writes(repository)]


def _transcript(folder: Path, task: str) -> str:
    return (folder / "transcripts" / f"{task}.jsonl").read_text()


def test_a_model_that_repairs_passes(box, server, repositories, tmp_path):
    [repository, *_] = repositories
    server.play = in_turn(*_solving(repository))
    lines: list[str] = []
    model = _model(server, instruction="Read a file before you change it.", temperature=0.0)
    [attempt] = attempt_all([repository.task], model, box, tmp_path / "a", lines.append, limits=SHORT)
    assert attempt.passed, attempt
    assert (attempt.turns, attempt.invalid_calls, attempt.ended) == (3, 0, "exited")
    assert attempt.tools == {"read": 1, "write": len(_writes(repository))}
    assert attempt.calls == 1 + len(_writes(repository))
    assert (attempt.prompt_tokens, attempt.completion_tokens) == (30, 30)
    assert set(attempt.changed) == {call[1]["path"] for call in _writes(repository)}
    assert not attempt.outside
    assert attempt.check_code == 0
    assert attempt.box == box.name
    assert 0 < attempt.seconds < 60
    assert lines[-1] == f"tried 1/1: {repository.task.id} passed"

    asked = server.requests[0]
    assert asked["messages"][0]["content"].count("Read a file before you change it.") == 1
    assert "coding agent harness" in asked["messages"][0]["content"]
    assert asked["messages"][1]["content"] in (repository.prompt, [{"type": "text", "text": repository.prompt}])
    assert (asked["model"], asked["max_tokens"], asked["temperature"]) == (model.name, 1000, 0.0)
    assert {tool["function"]["name"] for tool in asked["tools"]} == {"read", "bash", "edit", "write"}
    assert set(server.keys) == {f"Bearer {KEY}"}

    kept = [path for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert not [path for path in kept if KEY in path.read_text()]
    header, attempts = read_attempts(tmp_path / "a")
    assert attempts == [attempt]
    assert (header.model, header.instruction, header.temperature) == (model.name, model.instruction, 0.0)
    assert header.limits["requests"] == SHORT.requests
    events = [json.loads(line) for line in _transcript(tmp_path / "a", repository.task.id).splitlines()]
    assert events[0]["type"] == "session"
    assert events[-1]["type"] == "agent_settled"
    assert not [event for event in events if event["type"] == "message_update"]


def test_a_model_that_touches_another_file_fails(box, server, repositories, tmp_path):
    [repository, *_] = repositories
    other = next(path for path in repository.files if path not in repository.allowed)
    server.play = in_turn(
        [*_writes(repository), ("bash", {"command": f"echo '# made easier' >> {other}; echo > made-up.txt"})]
    )
    [attempt] = attempt_all([repository.task], _model(server), box, tmp_path, limits=SHORT)
    assert not attempt.passed
    assert {other, "made-up.txt"} <= set(attempt.outside)
    assert other in attempt.why


def test_calls_that_cannot_run_are_counted(box, server, repositories, tmp_path):
    [repository, *_] = repositories
    server.play = in_turn(
        [("bash", "{broken"), ("bash", {"command": "false"})],
        [("repair_everything", {"now": True})],
        [("read", {"file": 3}), ("read", {"path": "not/there.txt"})],
        [("edit", "[]")],
    )
    [attempt] = attempt_all([repository.task], _model(server), box, tmp_path, limits=SHORT)
    assert not attempt.passed
    assert (attempt.turns, attempt.calls, attempt.invalid_calls) == (5, 6, 4)
    assert attempt.tools == {"bash": 2, "read": 2, "edit": 1, "(not one of Pi's)": 1}
    assert not attempt.changed


def test_nonsense_is_a_failed_attempt(box, server, repositories, tmp_path):
    [repository, *_] = repositories
    server.play = lambda messages: "\ud83d\ude00 the the the"
    [attempt] = attempt_all([repository.task], _model(server), box, tmp_path, limits=SHORT)
    assert (attempt.passed, attempt.turns, attempt.calls, attempt.ended) == (False, 1, 0, "exited")
    assert attempt.why


def test_what_a_model_tries_to_reach_is_not_there(box, server, repositories, tmp_path):
    [repository, *_] = repositories
    secret = Path.home() / f".machine-test-{tmp_path.name}"
    secret.write_text("the host's own words")
    port = server.url.rsplit(":", 1)[1].split("/")[0]
    got: list[str] = []

    def play(messages):
        got[:] = results(messages)
        return in_turn(
            [("bash", {"command": f"cat {secret} {tmp_path}/* ~{Path.home().name}/.* 2>&1; ls -A {Path.home()} | grep machine"})],
            [("bash", {"command": f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"})],
            [("bash", {"command": "exec 3<>/dev/tcp/1.1.1.1/80 && echo connected"})],
            [("bash", {"command": "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"})],
            [("bash", {"command": 'python3 -c "import urllib.request as u, os; print(u.urlopen(os.environ[\'MACHINE_MODEL_URL\'] + \'/models\').read())"'})],
        )(messages)  # fmt: skip

    try:
        server.play = play
        [attempt] = attempt_all([repository.task], _model(server), box, tmp_path / "a", limits=SHORT)
    finally:
        secret.unlink()
    assert not attempt.passed
    assert len(got) == 5
    whole = "\n".join(got)
    assert "the host's own words" not in whole
    assert secret.name not in got[0].replace(str(secret), "")
    assert "connected" not in whole
    assert KEY not in whole
    assert "MACHINE_WORK" in got[3]
    assert attempt.refused == ("GET /v1/models",)


@pytest.mark.parametrize(
    ("command", "limits", "ended"),
    [
        # bounded, and over soon, should a box ever let it through
        ("for each in $(seq 300); do sleep 15 & done; wait", replace(SHORT, processes=64), "processes"),
        ("head -c 30M /dev/zero > a; head -c 30M /dev/zero > b; head -c 30M /dev/zero > /tmp/c; sleep 30",
         replace(SHORT, file=32 << 20), "disk"),
        ("sleep 300", replace(SHORT, seconds=4), "time"),
    ],
    ids=["processes", "disk", "time"],
)  # fmt: skip
def test_a_model_that_breaks_a_limit_is_ended(box, server, repositories, tmp_path, command, limits, ended):
    [repository, *_] = repositories
    server.play = lambda messages: [("bash", {"command": command})]
    started = time.monotonic()
    [attempt] = attempt_all([repository.task], _model(server), box, tmp_path, limits=limits)
    assert time.monotonic() - started < 20
    assert (attempt.passed, attempt.ended) == (False, ended)
    assert ended in attempt.why
    assert (attempt.turns, attempt.tools) == (1, {"bash": 1})


def test_a_model_that_never_ends_is_ended(box, server, repositories, tmp_path):
    [repository, *_] = repositories
    server.play = lambda messages: [("bash", {"command": "echo again"})]
    [attempt] = attempt_all([repository.task], _model(server), box, tmp_path, limits=replace(SHORT, requests=4))
    assert (attempt.passed, attempt.ended, attempt.turns, attempt.calls) == (False, "requests", 4, 4)


@pytest.mark.parametrize(("status", "step"), [(401, "key"), (404, "checkpoint")])
def test_what_the_service_refuses_is_not_the_model_s_failure(box, server, repositories, tmp_path, status, step):
    [repository, *_] = repositories
    server.play = lambda messages: status if len(messages) > 2 else [("bash", {"command": "ls"})]
    with pytest.raises(ServiceError, match=rf"HTTP {status}.*scripted {status}") as caught:
        attempt_all([repository.task], _model(server), box, tmp_path, limits=SHORT)
    assert step in caught.value.next_step
    assert repository.task.id in caught.value.message
    assert read_attempts(tmp_path)[1] == []


def test_a_context_that_is_outgrown_is_the_model_s_failure(box, server, repositories, tmp_path):
    [repository, *_] = repositories
    server.play = lambda messages: 400 if len(messages) > 2 else [("bash", {"command": "ls"})]
    [attempt] = attempt_all([repository.task], _model(server), box, tmp_path, limits=SHORT)
    assert (attempt.passed, attempt.turns) == (False, 1)
    assert "scripted 400" in attempt.why


def test_a_run_goes_on_where_the_service_died(box, server, repositories, tmp_path):
    one, two = repositories
    plays = {one.prompt: in_turn(*_solving(one)), two.prompt: in_turn(*_solving(two))}

    def play(messages):
        prompt = str(messages[1]["content"])
        if dying and two.prompt in prompt:
            far.cut()
        return next(each for each_prompt, each in plays.items() if each_prompt in prompt)(messages)

    assert one.prompt != two.prompt
    server.play, tasks, dying = play, [one.task, two.task], True
    with relay(server.url) as far:
        cut = _model(server, f"{far.url}/v1")
        with pytest.raises(ServiceError, match=two.task.id) as caught:
            attempt_all(tasks, cut, box, tmp_path, limits=SHORT)
    assert "run the command again" in caught.value.next_step
    before = (tmp_path / ATTEMPTS).read_bytes()
    assert [attempt.task for attempt in read_attempts(tmp_path)[1]] == [one.task.id]
    dying = False
    server.requests.clear()
    attempts = attempt_all(tasks, _model(server), box, tmp_path, limits=SHORT)
    assert [(attempt.task, attempt.passed) for attempt in attempts] == [(one.task.id, True), (two.task.id, True)]
    assert len(server.requests) == 3
    assert (tmp_path / ATTEMPTS).read_bytes().startswith(before)
    assert attempt_all(tasks, _model(server), box, tmp_path, limits=SHORT) == attempts
    assert len(server.requests) == 3


RUN = """
import sys, msgspec
from pathlib import Path
from machine.agentic.pi import Model
from machine.agentic.run import attempt_all
from machine.agentic.task import Task
from machine.sandbox.choice import choose
from machine.sandbox.job import Door, Limits
url, folder, tasks = sys.argv[1:]
tasks = msgspec.json.decode(tasks, type=list[Task])
model = Model("tinker://a:train:0/sampler_weights/b", Door(url, "a-key-that-stays-outside"), 32_768, 1000)
try:
    attempt_all(tasks, model, choose(), Path(folder), print, limits=Limits(seconds=60))
except KeyboardInterrupt:
    sys.exit(3)
"""


def test_ctrl_c_keeps_what_is_done(box, server, repositories, tmp_path):
    one, two = repositories
    mark = f"sleep 77{int(time.time()) % 100_000}"
    server.play = lambda messages: (
        [("bash", {"command": mark})]
        if two.prompt in str(messages[1]["content"])
        else in_turn(*_solving(one))(messages)
    )
    words = [sys.executable, "-c", RUN, server.url, str(tmp_path), msgspec.json.encode([one.task, two.task]).decode()]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 30
    while not _running(mark):
        assert time.monotonic() < deadline
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    run.send_signal(2)
    said = run.communicate(timeout=20)
    assert run.returncode == 3, said
    assert not _running(mark)
    assert [attempt.task for attempt in read_attempts(tmp_path)[1]] == [one.task.id]


def _running(mark: str) -> bool:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return any(line.replace(b"\0", b" ").strip() == mark.encode() for line in found)


def test_a_box_in_which_the_solution_fails_is_not_used(box, server, repositories, tmp_path, monkeypatch):
    [repository, *_] = repositories
    monkeypatch.setattr("machine.agentic.pi.python", lambda: Path("/usr/bin/false"))
    with pytest.raises(TrainingError, match="its own solution does not pass"):
        attempt_all([repository.task], _model(server), box, tmp_path, limits=SHORT)
    assert server.requests == []


def test_a_pi_that_does_not_start_is_no_attempt(box, server, repositories, tmp_path, monkeypatch):
    [repository, *_] = repositories
    monkeypatch.setattr("machine.agentic.pi._ALONE", ("--no-such-flag",))
    with pytest.raises(TrainingError, match=r"before it asked the model anything.*no-such-flag"):
        attempt_all([repository.task], _model(server), box, tmp_path, limits=SHORT)


def test_the_engine_s_own_model_gets_an_honest_score(box, engine: RunningEngine, repositories, tmp_path):
    [repository, *_] = repositories
    door = Door(f"{engine.url}/oai/api/v1", engine.key.strip())
    model = Model(engine.model, door, 8192, 48, temperature=0.0)
    [attempt] = attempt_all([repository.task], model, box, tmp_path, limits=replace(SHORT, requests=1))
    assert attempt.turns >= 1
    assert attempt.prompt_tokens > 1000
    assert attempt.completion_tokens > 0
    assert attempt.why
    assert (attempt.check_code is None) is not bool(attempt.changed)
    assert _transcript(tmp_path, repository.task.id).count('"role":"assistant"') >= attempt.turns
