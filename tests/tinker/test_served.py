import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from machine.errors import StoreError, UsageError
from machine.host import Chosen
from machine.store.project import Project
from machine.tinker.served import BASE, Served, Trial, answers, serve, served, students_file, trial_of, try_out
from machine.tinker.service import Endpoint
from machine.tinker.work import remember, remembered

STUDENT = Served("tinker/org/one", "org/one", BASE)
RELEASE = Served("tinker/br-001", "tinker://run/sampler_weights/x", "BR-001")
TRIAL = Trial("BR-001", RELEASE.model, RELEASE.weights, 0.2, "turn", "00ff")


def test_a_project_has_no_student_until_one_is_served(home):
    assert served(Path("/a")) is None
    assert list(home.iterdir()) == []


def test_each_project_has_its_own_and_the_last_one_counts():
    serve(Path("/a"), STUDENT)
    serve(Path("/b"), STUDENT)
    serve(Path("/a"), RELEASE)
    assert (served(Path("/a")), served(Path("/b")), served(Path("/a/below"))) == (RELEASE, STUDENT, None)
    assert json.loads(students_file().read_text())["projects"]["/a"]["model"] == "tinker/br-001"
    assert students_file().stat().st_mode & 0o777 == 0o600


def test_writers_at_the_same_time_lose_nothing():
    roots = [Path(f"/p{i}") for i in range(12)]
    threads = [threading.Thread(target=serve, args=(root, STUDENT)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [served(root) for root in roots] == [STUDENT] * len(roots)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "truncated"),
        ('{"version": 3, "projects": {}}', "version 3"),
        ('{"version": 0, "projects": {}}', "version 0"),
        ('{"version": 1, "projects": []}', "object"),
        (
            '{"version": 2, "projects": {}, "trials": {"/a": {"release": "BR-001", "model": "m", "weights": "w", '
            '"share": 2, "unit": "turn", "salt": "0"}}}',
            "share",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_left_as_it_is(home, text, fault):
    students_file().write_text(text)
    uses = (
        lambda: served(Path("/a")),
        lambda: serve(Path("/a"), STUDENT),
        lambda: trial_of(Path("/a")),
        lambda: try_out(Path("/a"), None),
    )
    for use in uses:
        with pytest.raises(StoreError, match="cannot be read") as error:
            use()
        assert fault in str(error.value)
        assert str(students_file()) in error.value.next_step
    assert students_file().read_text() == text


def test_a_trial_goes_on_until_it_is_ended_or_its_own_model_is_served():
    a, b = Path("/a"), Path("/b")
    assert trial_of(a) is None
    try_out(a, TRIAL)  # before anything is served
    serve(a, STUDENT)
    serve(b, RELEASE)
    assert (trial_of(a), trial_of(b), served(a)) == (TRIAL, None, STUDENT)
    try_out(a, None)
    assert (trial_of(a), served(a)) == (None, STUDENT)
    try_out(a, TRIAL)
    serve(a, RELEASE)
    assert (trial_of(a), served(a)) == (None, RELEASE)


def test_only_a_file_with_a_trial_is_one_that_an_older_machine_refuses():
    serve(Path("/a"), STUDENT)
    plain = json.loads(students_file().read_text())
    try_out(Path("/b"), TRIAL)
    assert json.loads(students_file().read_text())["version"] == 2
    try_out(Path("/b"), None)
    assert json.loads(students_file().read_text()) == plain
    assert plain == {"version": 1, "projects": {"/a": {"model": "tinker/org/one", "weights": "org/one", "why": "base"}}}


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_a_share_that_is_none(home, share):
    with pytest.raises(UsageError, match="share"):
        try_out(Path("/a"), msgspec.structs.replace(TRIAL, share=share))
    assert not students_file().exists()


@pytest.mark.parametrize(("status", "good"), [(200, True), (404, False), (401, False), (307, False)])
def test_whether_the_service_answers_to_the_weights(status, good):
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append((self.path, self.headers["authorization"], body["model"], body["max_tokens"]))
            self.send_response(status)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        where = Endpoint(f"http://127.0.0.1:{server.server_address[1]}", "k", "$TINKER_API_KEY")
        assert answers(where, "org/one") is good
        server.shutdown()
    assert seen == [("/oai/api/v1/chat/completions", "Bearer k", "org/one", 1)]
    assert not answers(where, "org/one")


def test_what_the_student_took_the_place_of(tmp_path):
    one, other = Project.at(tmp_path / "one"), Project.at(tmp_path / "other")
    assert remembered(one) is None
    remember(one, Chosen("p/first", "high"))
    remember(one, Chosen("p/work", None))
    assert (remembered(one), remembered(other)) == (Chosen("p/work", None), None)
    assert (one.folder / "work.json").stat().st_mode & 0o777 == 0o600
    for damage, fault in (("{", "cannot be read"), ('{"version": 2, "model": "m", "level": null}', "version 2")):
        (one.folder / "work.json").write_text(damage)
        with pytest.raises(StoreError, match=fault):
            remembered(one)
