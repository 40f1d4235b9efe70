"""The application and the decoders under some thousand malformed requests; `bench/engine/fuzz.py` sends 120,000 more."""

import pytest

from fuzzed import Fuzzed, decode_all, resident, save_model, storm
from malformed import Edit, Request


@pytest.fixture(scope="module")
def fuzzed(small_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    with Fuzzed(save_model(folder / "model", small_folder), folder / "state") as running:
        yield running


def test_the_right_requests_are_right(fuzzed):
    answers = {name: fuzzed.ask(request).status for name, request in fuzzed.right.items()}
    assert {name: status for name, status in answers.items() if status >= 400} == {"delete": 404}


def test_malformed_requests_are_refused_and_change_nothing(fuzzed):
    before = resident()
    storm(fuzzed, 1500)
    statuses = {status for _, _, status in fuzzed.counts}
    assert {200, 204, 400, 404} <= statuses <= {200, 204, 302, 307, 400, 404, 410, 413, 429}
    assert fuzzed.promised > 30
    assert fuzzed.looked > 1500
    assert resident() - before < 300 * 2**20
    assert fuzzed.again() == fuzzed.before


def test_the_decoders_raise_nothing_but_faults(fuzzed):
    tried = decode_all(fuzzed, 2000)
    assert all(0 < refused <= number for number, refused in tried.values())
    assert sum(number - refused for number, refused in tried.values()) > 100


def test_what_is_watched_for_is_seen(fuzzed):
    """The watch itself: a canary, a fault of the engine, and a status that may not be."""
    for secret in fuzzed.secrets:
        with pytest.raises(AssertionError, match="canary"):
            fuzzed.look("/api/v1/asample", b"x" + secret)
    with pytest.raises(AssertionError, match="name of another session"):
        fuzzed.look("/api/v1/sessions/x", fuzzed.canary.encode())
    fuzzed.look("/api/v1/checkpoints", fuzzed.canary.encode())
    own = fuzzed.ask(Request("GET", f"/api/v1/sessions/{fuzzed.names['session']}"))
    with pytest.raises(AssertionError, match="canary"):
        fuzzed._judge(Request("GET", "/x"), own)
    fuzzed.right["theirs"] = Request("GET", f"/api/v1/training_runs/{fuzzed.names['model']}/checkpoints")
    with pytest.raises(AssertionError, match="another session"):
        fuzzed.attack("theirs", "headers", [Edit(0, 0, (b"accept", b"*/*"))])
    del fuzzed.right["theirs"]


def test_ids_of_a_session_are_not_guessed_from_another(fuzzed):
    """Futures, samplers and models of a session are named after its id, which is random; what is near it is not it."""
    theirs = fuzzed.names["session"]
    near = [theirs[:-1], theirs.upper(), theirs[:8], "", "*", theirs + " ", theirs.replace("-", ""), f"{{{theirs}}}"]
    for id in near:
        for endpoint, field, rest in (
            ("retrieve_future", "request_id", ":train:0:create"),
            ("get_info", "model_id", ":train:0"),
            ("session_heartbeat", "session_id", ""),
        ):
            answer = fuzzed.ask(Request("POST", f"/api/v1/{endpoint}", {field: id + rest}))
            assert answer.status in (404, 410)
            fuzzed.look("", answer.body)
        assert fuzzed.ask(Request("GET", f"/api/v1/samplers/{id}:sample:0")).status == 404
    others = {fuzzed.good("create_session")["session_id"] for _ in range(200)}
    assert len({id[:8] for id in others}) > 190
