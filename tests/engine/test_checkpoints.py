import pytest

from machine.engine.checkpoints import CheckpointFiles, CheckpointPath, Checkpoints, expiry
from machine.engine.faults import Fault, NotFound

PATH = CheckpointPath("run:train:0", "weights", "000002")
FILES = CheckpointFiles(b"{}", b"weights", b"state")


@pytest.fixture
def store(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


@pytest.mark.parametrize(
    "text",
    [
        "tinker://a/weights/../../../etc",
        "tinker://../weights/x",
        "tinker://a/weights/..",
        "tinker://a/other/x",
        "tinker://a/weights/.hidden",
        "tinker://a/weights/",
        "tinker:///weights/x",
        "/etc/passwd",
        "tinker://a/weights/x\x00",
    ],
)
def test_paths_that_are_not_ours_are_refused(text):
    with pytest.raises(Fault, match="path"):
        CheckpointPath.parse(text)


def test_a_path_reads_as_it_is_written():
    assert CheckpointPath.parse(str(PATH)) == PATH


def test_save_read_replace_delete(store):
    store.save(PATH, FILES, {"user_metadata": {"a": "b"}})
    assert store.read(PATH, optimizer=True) == FILES
    version = store.version(PATH)
    store.save(PATH, CheckpointFiles(b"{}", b"other"), {})
    assert store.read(PATH).weights == b"other"
    assert store.version(PATH) != version
    with pytest.raises(NotFound, match="optimiser"):
        store.read(PATH, optimizer=True)
    store.delete(PATH)
    with pytest.raises(NotFound):
        store.folder(PATH)
    assert list((store.root / PATH.run / PATH.kind).iterdir()) == []


def test_files_are_private(store):
    store.save(PATH, FILES, {})
    folder = store.folder(PATH)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def test_a_crash_leaves_the_old_checkpoint_and_no_litter(store, monkeypatch):
    from machine.engine import checkpoints

    store.save(PATH, FILES, {})
    written = []

    def dies(path, data):
        written.append(path)
        if len(written) == 2:
            raise KeyboardInterrupt
        path.write_bytes(data)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_private", dies)
        patch.setattr(checkpoints.shutil, "rmtree", lambda *a, **k: None)  # as after kill -9
        with pytest.raises(KeyboardInterrupt):
            store.save(PATH, CheckpointFiles(b"{}", b"half"), {})
    assert store.read(PATH).weights == b"weights"
    assert len(list(store.folder(PATH).parent.iterdir())) == 2
    Checkpoints(store.root)
    assert [entry.name for entry in store.folder(PATH).parent.iterdir()] == [PATH.name]


def test_lists_and_expires(store):
    store.save_run(PATH.run, {"rank": 8})
    store.save(PATH, FILES, {"expires_at": expiry(60)})
    sampler = CheckpointPath(PATH.run, "sampler_weights", "s")
    store.save(sampler, CheckpointFiles(b"{}", b"w"), {"expires_at": expiry(-1)})
    assert [c["tinker_path"] for c in store.of_run(PATH.run)] == [str(PATH)]
    assert (store.runs(), store.run(PATH.run)["rank"]) == ([PATH.run], 8)
    with pytest.raises(NotFound):
        store.folder(sampler)
    with pytest.raises(NotFound):
        store.run("../" + PATH.run)
    Checkpoints(store.root)
    assert not (store.root / PATH.run / "sampler_weights" / "s").exists()
    assert store.read(PATH) == CheckpointFiles(FILES.config, FILES.weights)


def test_what_is_damaged_is_named_and_hides_nothing_else(store):
    store.save_run(PATH.run, {"rank": 8})
    store.save(PATH, FILES, {})
    other = CheckpointPath("other", "weights", "x")
    store.save_run(other.run, {"rank": 8})
    store.save(other, FILES, {})
    (store.folder(other) / "adapter_model.safetensors").unlink()
    with pytest.raises(NotFound, match="gone"):
        store.version(other)
    (store.folder(other) / "checkpoint.json").write_text('{"time": ')
    (store.root / other.run / "run.json").write_text("[]")
    again = Checkpoints(store.root)
    assert (again.runs(), again.of_run(other.run)) == ([PATH.run], [])
    for asked in (lambda: again.describe(other), lambda: again.run(other.run)):
        with pytest.raises(NotFound, match="damaged"):
            asked()
