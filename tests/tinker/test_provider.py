import datetime
import json
import threading

import pytest

from machine.errors import Refused, StoreError, UsageError
from machine.tinker import provider
from machine.tinker.provider import (
    FRESH,
    asked_at,
    base_models,
    is_due,
    keep,
    listed,
    providers_file,
    refresh,
    register,
    unregister,
)
from machine.tinker.service import Endpoint
from machine.tinker.students import Model

HERE = Endpoint("http://127.0.0.1:1", "tml-secret", "!cat '/home/key'")
HOSTED = Endpoint(None, "tml-hosted", "$TINKER_API_KEY")
PATH = "tinker://run:train:0/sampler_weights/final"
MODELS = [
    Model("org/base", 2048, True, True),
    Model("org/only-trains", None, True, False),
    Model("org/b", None, True, True),
]


@pytest.fixture
def hosted(monkeypatch):
    monkeypatch.setenv("TINKER_API_KEY", "tml-hosted")


def config(number=0):
    return json.loads(providers_file().read_text())["providers"][number]["config"]


def test_what_pi_reads():
    keep(HERE, MODELS)
    entry = register(HERE, PATH, "mine", base="org/base")
    assert entry.ref == "tinker/mine"
    assert config()["baseUrl"] == "http://127.0.0.1:1/oai/api/v1"
    assert config()["apiKey"] == "!cat '/home/key'"
    mine, base, other = config()["models"]
    assert mine["samplingParams"] == {"model": PATH}
    assert (base["id"], base["contextWindow"]) == ("org/base", 2048)
    assert other["id"] == "org/b"
    assert providers_file().stat().st_mode & 0o777 == 0o600


def test_base_models_are_models_without_being_registered():
    assert keep(HERE, MODELS)
    assert [e.ref for e in base_models()] == ["tinker/org/base", "tinker/org/b"]
    assert listed() == []
    assert not keep(HERE, MODELS)
    assert keep(HERE, MODELS[:1])
    assert [m["id"] for m in config()["models"]] == ["org/base"]


def test_no_secret_is_written(hosted):
    for where in (HERE, HOSTED):
        keep(where, MODELS)
        register(where, PATH, "mine")
    text = providers_file().read_text()
    assert "tml-secret" not in text
    assert "tml-hosted" not in text


def test_registering_again_replaces_and_removing_removes():
    register(HERE, "tinker://old/sampler_weights/x", "mine")
    register(HERE, PATH, "mine")
    assert [(e.alias, e.model) for e in listed()] == [("mine", PATH)]
    unregister("mine")
    assert listed() == []
    with pytest.raises(Refused, match="no model is registered"):
        unregister("mine")


def test_a_base_model_cannot_be_removed_and_keeps_its_name():
    keep(HERE, MODELS)
    with pytest.raises(Refused, match="base model"):
        unregister("org/base")
    with pytest.raises(Refused, match="own name"):
        register(HERE, PATH, "org/base")
    register(HERE, "org/base", temperature=0.5)
    assert [(m["id"], m.get("samplingParams")) for m in config()["models"]] == [
        ("org/base", {"temperature": 0.5}),
        ("org/b", None),
    ]
    unregister("org/base")
    assert "samplingParams" not in config()["models"][0]
    assert len(config()["models"]) == 2


def test_each_service_has_a_list_of_its_own(monkeypatch):
    keep(HERE, MODELS)
    register(HERE, PATH, "mine")
    monkeypatch.setenv("TINKER_API_KEY", "tml-hosted")
    assert (listed(), base_models()) == ([], [])
    register(HOSTED, "org/c")
    register(Endpoint("http://other:1", "tml-hosted", "$TINKER_API_KEY"), "org/d")
    assert [e.alias for e in listed()] == ["org/c"]
    monkeypatch.setenv("TINKER_BASE_URL", "http://other:1/")
    assert [e.alias for e in listed()] == ["org/d"]
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL"):
        monkeypatch.delenv(name)
    assert [e.alias for e in listed()] == ["mine"]
    assert len(base_models()) == 2
    assert [config(n)["baseUrl"][:12] for n in range(3)] == ["http://other", "https://tink", "http://127.0"]


def test_removing_is_from_the_service_that_is_meant(monkeypatch):
    register(HERE, PATH, "mine")
    register(HOSTED, PATH, "mine")
    unregister("mine")
    assert [m["id"] for m in config(0)["models"]] == []
    assert config(0)["apiKey"] == HERE.key_source
    assert [m["id"] for m in config(1)["models"]] == ["mine"]


def test_the_list_follows_the_engine_to_its_new_port():
    register(HERE, PATH, "mine")
    moved = Endpoint("http://127.0.0.1:2", "tml-secret", HERE.key_source)
    assert refresh(moved)
    assert not refresh(moved)
    assert not refresh(HOSTED)
    assert config()["baseUrl"] == "http://127.0.0.1:2/oai/api/v1"
    assert [e.alias for e in listed()] == ["mine"]


def test_a_list_is_due_when_it_is_old_or_of_another_account(monkeypatch):
    assert asked_at() is None
    assert is_due(HERE)
    keep(HERE, MODELS)
    assert datetime.datetime.now(datetime.UTC) - asked_at() < datetime.timedelta(seconds=5)
    assert not is_due(HERE)
    assert is_due(HOSTED)
    assert is_due(Endpoint(HERE.base_url, "tml-new", HERE.key_source))
    now = provider._now()
    for late, due in ((FRESH - datetime.timedelta(minutes=1), False), (FRESH * 1.1, True), (-FRESH, True)):
        monkeypatch.setattr(provider, "_now", lambda late=late: now + late)
        assert is_due(HERE) is due


@pytest.mark.parametrize("alias", ["-x", "a b", "a:b", "../x"])
def test_an_alias_is_a_name(alias):
    with pytest.raises(UsageError):
        register(HERE, PATH, alias)


def test_a_variant_keeps_the_name_that_the_service_has_for_it():
    assert register(HERE, "org/base:peft:262144").ref == "tinker/org/base:peft:262144"


def test_nothing_registered_yet():
    assert listed() == []
    assert not refresh(HERE)


def test_a_list_of_before_there_were_base_models_is_read():
    register(HERE, PATH, "mine", 4096, temperature=0.5, max_tokens=7)
    document = json.loads(providers_file().read_text())
    [old] = document["providers"]
    document["providers"] = [{"name": old["name"], "config": old["config"]}]
    providers_file().write_text(json.dumps(document))
    [entry] = listed()
    assert (entry.alias, entry.model, entry.context, entry.temperature, entry.max_tokens) == (
        "mine",
        PATH,
        4096,
        0.5,
        7,
    )
    keep(HERE, MODELS)
    assert [m["id"] for m in config()["models"]] == ["mine", "org/base", "org/b"]


def test_two_who_write_at_once_lose_nothing():
    threads = [threading.Thread(target=register, args=(HERE, PATH, f"m{n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {e.alias for e in listed()} == {f"m{n}" for n in range(8)}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 9, "providers": []}',
        '{"version": 1}',
        '{"version": 1, "providers": [{"name": "tinker"}]}',
        '{"version": 1, "providers": [{"config": {"apiKey": "$X", "baseUrl": 1, "models": []}}]}',
        '{"version": 1, "providers": [{"config": {"apiKey": "$X", "baseUrl": "", "models": []}, "base": [{"alias": 1}]}]}',
    ],
)
def test_a_file_that_cannot_be_read_is_kept(text, home):
    providers_file().write_text(text)
    with pytest.raises(StoreError, match=r"providers\.json"):
        listed()
    with pytest.raises(StoreError):
        register(HERE, PATH, "mine")
    assert providers_file().read_text() == text
