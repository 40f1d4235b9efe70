"""What hosted Tinker may answer, through the SDK: a clear message with a next step, and never the key.

Against `tests/hosted.py`, a fake whose shapes are those of public documentation and of the SDK's source.
"""

import pytest

from hosted import KEY, MODELS, Fault, Hosted
from machine.errors import ServiceError
from machine.tinker import catalogue
from machine.tinker import service as services
from machine.tinker.provider import asked_at, base_models
from machine.tinker.service import Endpoint, connect, endpoint
from machine.tinker.students import models

LIST = "get_server_capabilities"


@pytest.fixture
def hosted(monkeypatch):
    pytest.importorskip("tinker")
    with Hosted() as running:
        monkeypatch.setenv("TINKER_API_KEY", KEY)
        monkeypatch.setenv("TINKER_BASE_URL", running.url)
        monkeypatch.setattr(services, "PATIENCE", 1.0)
        monkeypatch.setattr(services, "_LOOK_SECONDS", 1.0)
        yield running


def listed(where=None):
    with connect(where or endpoint()) as service:
        return models(service)


def refused(hosted, fault):
    hosted.fault = fault
    with pytest.raises(ServiceError) as error:
        listed()
    assert error.value.next_step
    assert KEY not in error.value.whole
    return error.value


def test_the_catalogue(hosted):
    found = {m.name: m for m in listed()}
    assert list(found) == [m["model_name"] for m in MODELS]
    long = found["thinkingmachines/Inkling-Small:peft:262144"]
    assert (long.context, long.trainable, long.sampleable) == (262144, True, True)
    assert not found["nvidia/only-trains"].sampleable


@pytest.mark.parametrize("path", ["", LIST])
@pytest.mark.parametrize(
    ("fault", "next_step"),
    [
        (Fault(401, f"no such key: {KEY}"), "TINKER_API_KEY"),
        (Fault(402, "no payment method"), "billing"),
        (Fault(403, "not yours"), "TINKER_API_KEY"),
        (Fault(404, "nothing here"), "machine engine start"),
        (Fault(429, "slow down", retry_after=7), "wait 7 seconds"),
        (Fault(429, "slow down"), "wait a minute"),
        (Fault(500, f"oops {KEY}"), "machine engine start"),
        (Fault(503, "down"), "machine engine start"),
    ],
    ids=lambda value: f"{value.status}-{value.retry_after}" if isinstance(value, Fault) else None,
)
def test_a_refusal_says_what_and_what_next(hosted, fault, next_step, path):
    error = refused(hosted, Fault(fault.status, fault.message, fault.retry_after, path=path))
    assert f"answered {fault.status}: {fault.message.partition(' tml')[0][:5]}" in error.message
    assert next_step in error.next_step


@pytest.mark.parametrize("path", ["", LIST])
def test_silence_ends(hosted, path):
    assert refused(hosted, Fault(0, seconds=5, path=path)).next_step == "machine engine start"


def test_a_service_that_is_gone(hosted):
    hosted.close()
    with pytest.raises(ServiceError, match="does not answer"):
        listed()


def test_far_away_the_advice_is_another_one():
    far = Endpoint("https://tinker.example/x", KEY, "$TINKER_API_KEY")
    error = services._refused(far, "asking", 502, f"bad {KEY}", {})
    assert error.message == "asking: tinker.example answered 502: bad (the key)"
    assert "few minutes" in error.next_step
    assert "TINKER_BASE_URL" in services._refused(far, "asking", 404, "no", {}).next_step
    assert services._refused(far, "looking up tinker://x", 404, "no", {}).next_step == "machine tinker checkpoints"


def test_pi_is_told_in_the_background_and_a_failure_says_nothing(hosted, capfd):
    hosted.fault = Fault(401)
    catalogue.main()
    assert asked_at() is None
    hosted.fault = None
    catalogue.main()
    assert len(base_models()) == len(MODELS) - 1
    asked = len(hosted.paths)
    catalogue.main()
    assert len(hosted.paths) == asked
    assert capfd.readouterr() == ("", "")


def test_where_pi_is_offline_only_this_machine_is_asked(hosted, monkeypatch):
    monkeypatch.setenv("PI_OFFLINE", "1")
    catalogue.main()
    assert asked_at() is not None
    monkeypatch.setenv("TINKER_BASE_URL", hosted.url.replace("127.0.0.1", "somewhere.invalid"))
    monkeypatch.setattr(catalogue, "connect", lambda where: pytest.fail("asked"))
    catalogue.main()
