import json

import pytest

from machine.errors import Refused, StoreError, UsageError
from machine.tinker.provider import listed, providers_file, refresh, register, unregister
from machine.tinker.service import Endpoint

HERE = Endpoint("http://127.0.0.1:1", "tml-secret", "!cat '/home/key'")
HOSTED = Endpoint(None, "tml-hosted", "$TINKER_API_KEY")
PATH = "tinker://run:train:0/sampler_weights/final"


def config():
    return json.loads(providers_file().read_text())["providers"][0]["config"]


def test_what_pi_reads():
    register(HERE, "org/base", None, 2048)
    entry, dropped = register(HERE, PATH, "mine")
    assert (entry.ref, dropped) == ("tinker/mine", 0)
    assert config()["baseUrl"] == "http://127.0.0.1:1/oai/api/v1"
    assert config()["apiKey"] == "!cat '/home/key'"
    base, mine = config()["models"]
    assert base["id"] == "org/base"
    assert base["contextWindow"] == 2048
    assert mine["samplingParams"] == {"model": PATH}
    assert providers_file().stat().st_mode & 0o777 == 0o600


def test_no_secret_is_written():
    register(HERE, PATH, "mine")
    assert "tml-secret" not in providers_file().read_text()


def test_registering_again_replaces_and_removing_removes():
    register(HERE, "tinker://old/sampler_weights/x", "mine")
    register(HERE, PATH, "mine")
    assert [(e.alias, e.model) for e in listed()] == [("mine", PATH)]
    unregister("mine")
    assert listed() == []
    with pytest.raises(Refused):
        unregister("mine")


def test_another_service_starts_the_list_anew():
    register(HERE, PATH, "mine")
    _, dropped = register(HOSTED, "org/base")
    assert dropped == 1
    assert [e.alias for e in listed()] == ["org/base"]
    assert config()["baseUrl"].startswith("https://")


def test_the_list_follows_the_engine_to_its_new_port():
    register(HERE, PATH, "mine")
    moved = Endpoint("http://127.0.0.1:2", "tml-secret", HERE.key_source)
    assert refresh(moved)
    assert not refresh(moved)
    assert not refresh(HOSTED)
    assert config()["baseUrl"] == "http://127.0.0.1:2/oai/api/v1"
    assert [e.alias for e in listed()] == ["mine"]


@pytest.mark.parametrize("alias", ["-x", "a b", "a:b", "../x"])
def test_an_alias_is_a_name(alias):
    with pytest.raises(UsageError):
        register(HERE, PATH, alias)


def test_nothing_registered_yet():
    assert listed() == []
    assert not refresh(HERE)


@pytest.mark.parametrize("text", ["{", '{"version": 9, "providers": []}', '{"version": 1}'])
def test_a_file_that_cannot_be_read_is_kept(text, home):
    providers_file().write_text(text)
    with pytest.raises(StoreError, match=r"providers\.json"):
        listed()
    with pytest.raises(StoreError):
        register(HERE, PATH, "mine")
    assert providers_file().read_text() == text
