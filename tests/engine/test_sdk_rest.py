"""Every method of the unmodified SDK's RestClient and AdminClient against the running engine."""

import urllib.request
from types import SimpleNamespace

import pytest
from sdk_parts import call, call_async, methods
from tinker.lib.public_interfaces.admin_client import AdminClient
from tinker.types import SessionSearchRequest

from tinker import BadRequestError, RestClient

DAY = 86400


@pytest.fixture(scope="module")
def scene(service, engine, rest):
    """A run with a checkpoint of each kind, and a copy of one whenever it is asked for."""
    client = service.create_lora_training_client(engine.model, rank=4, user_metadata={"a": "b"}).result()
    saved = client.save_state("one", ttl_seconds=DAY, user_metadata={"x": "1"}).result().path
    return SimpleNamespace(
        run=client.model_id,
        session=client.model_id.partition(":")[0],
        saved=saved,
        sampler=client.save_weights_for_sampler("two").result().path,
        external=client.save_weights_external("three").result().path,
        sampling=client.create_sampling_client(saved).result()._sampling_session_id,
        copy=lambda: rest.copy_weights(saved, "a-project", ttl_seconds=DAY).result(),
    )


def id_of(path):
    return path.removeprefix("tinker://").partition("/")[2]


def found(path, rest):
    """The checkpoint as it is listed."""
    [one] = [c for c in rest.list_user_checkpoints(limit=1000).result().checkpoints if c.tinker_path == path]
    return one


CALLS = {
    "get_server_capabilities": (lambda s: (), lambda s, r: r.supported_models[0].max_context_length == 8192),
    "get_training_run": (lambda s: (s.run,), lambda s, r: (r.lora_rank, r.user_metadata) == (4, {"a": "b"})),
    "get_training_run_by_tinker_path": (lambda s: (s.saved,), lambda s, r: r.last_checkpoint.tinker_path == s.saved),
    "get_weights_info_by_tinker_path": (lambda s: (s.saved,), lambda s, r: (r.lora_rank, r.train_unembed) == (4, True)),
    "list_training_runs": (lambda s: (1000,), lambda s, r: s.run in [run.training_run_id for run in r.training_runs]),
    "list_checkpoints": (
        lambda s: (s.run,),
        lambda s, r: {s.saved, s.sampler, s.external} <= {c.tinker_path for c in r.checkpoints},
    ),
    "list_user_checkpoints": (lambda s: (1000,), lambda s, r: s.saved in [c.tinker_path for c in r.checkpoints]),
    "list_sessions": (lambda s: (1000,), lambda s, r: s.session in r.sessions),
    "get_session": (lambda s: (s.session,), lambda s, r: s.run in r.training_run_ids and s.sampling in r.sampler_ids),
    "get_sampler": (lambda s: (s.sampling,), lambda s, r: r.model_path == s.saved),
    "get_external_weights_urls": (lambda s: (s.external,), lambda s, r: "adapter_config.json" in r.urls),
    "copy_weights": (lambda s: (s.saved, "a-project"), lambda s, r: r != s.saved and id_of(r) == id_of(s.saved)),
    "publish_checkpoint_from_tinker_path": (lambda s: (s.copy(),), None),
    "unpublish_checkpoint_from_tinker_path": (lambda s: (s.copy(),), None),
    "set_checkpoint_ttl_from_tinker_path": (lambda s: (s.copy(), None), None),
    "delete_checkpoint": (lambda s: (lambda path: (path.split("/")[2], id_of(path)))(s.copy()), None),
    "delete_checkpoint_from_tinker_path": (lambda s: (s.copy(),), None),
    "whoami": (lambda s: (), lambda s, r: (r.org_urn, r.email) == ("tml:organization:this-machine", None)),
    "assign_session_project": (lambda s: (s.session, "p"), "project_id"),
    "export_session_trace": (lambda s: (s.session,), "trace_export"),
    "search_sessions": (lambda s: (SessionSearchRequest(),), "sessions/search"),
    "get_audit_log": (lambda s: ("2026-01-01",), "audit"),
    "get_billing_usage": (lambda s: ("2026-01-01", "2026-01-02"), "billing"),
    "get_current_checkpoint_storage_usage": (lambda s: (), "billing"),
}
"""By method: its arguments, and what its answer must be true of (None: there is none), or the words of the refusal."""


@pytest.mark.parametrize("name", methods(RestClient))
def test_every_method(scene, rest, name):
    arguments, expected = CALLS[name]
    for way in (call, call_async) if hasattr(RestClient, f"{name}_async") else (call,):
        if isinstance(expected, str):
            with pytest.raises(BadRequestError, match=expected):
                way(rest, name, *arguments(scene))
        else:
            answer = way(rest, name, *arguments(scene))
            assert answer is None if expected is None else expected(scene, answer), answer


@pytest.mark.parametrize("name", methods(AdminClient))
def test_an_engine_has_nothing_to_administer(engine, name):
    admin = AdminClient(base_url=engine.url, api_key=engine.key)
    with pytest.raises(BadRequestError, match=r"billing|audit"):
        call(admin, name, *CALLS[name][0](None))


def test_changes_show(scene, rest):
    path = scene.copy()
    assert (found(path, rest).public, found(path, rest).user_metadata) == (False, {"x": "1"})
    assert found(path, rest).expires_at is not None
    rest.publish_checkpoint_from_tinker_path(path).result()
    rest.set_checkpoint_ttl_from_tinker_path(path, None).result()
    assert (found(path, rest).public, found(path, rest).expires_at) == (True, None)
    rest.unpublish_checkpoint_from_tinker_path(path).result()
    assert not found(path, rest).public
    rest.delete_checkpoint_from_tinker_path(path).result()
    assert path not in [c.tinker_path for c in rest.list_user_checkpoints(limit=1000).result().checkpoints]


def test_pages_cover_the_whole_list_once(scene, rest):
    for _ in range(3):
        scene.copy()
    whole = [c.tinker_path for c in rest.list_user_checkpoints(limit=1000).result().checkpoints]
    pages = [rest.list_user_checkpoints(limit=2, offset=i).result() for i in range(0, len(whole), 2)]
    assert [c.tinker_path for page in pages for c in page.checkpoints] == whole
    assert pages[0].cursor.total_count == len(whole)


def test_a_download_url_needs_no_key(scene, rest):
    urls = rest.get_external_weights_urls(scene.external).result().urls
    with urllib.request.urlopen(urls["adapter_config.json"], timeout=20) as answer:
        assert b'"peft_type"' in answer.read()
