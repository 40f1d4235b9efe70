import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from machine.engine.checkpoints import CheckpointFiles, CheckpointPath, Checkpoints, expiry
from machine.engine.faults import Fault, NotFound

PATH = CheckpointPath("run:train:0", "weights", "000002")
FILES = CheckpointFiles(b"{}", b"weights", b"state")
RUN = {"base_model": "tiny", "rank": 8, "modules": ["q"], "user_metadata": {"a": "b"}}


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


def test_a_crash_between_the_two_renames_of_a_replacement_loses_nothing(store, monkeypatch):

    store.save(PATH, FILES, {})
    place = store.folder(PATH)
    place.rename(place.with_name(f".old-{PATH.name}"))  # as after kill -9
    assert Checkpoints(store.root).read(PATH).weights == b"weights"
    store.save(PATH, CheckpointFiles(b"{}", b"new"), {})
    (place.with_name(f".old-{PATH.name}")).mkdir()
    assert Checkpoints(store.root).read(PATH).weights == b"new"
    assert [entry.name for entry in place.parent.iterdir()] == [PATH.name]


def test_a_replacement_that_fails_leaves_the_old_one(store, monkeypatch):
    store.save(PATH, FILES, {})
    rename = type(store.root).rename

    def fails(self, target):
        if self.name.startswith(".tmp-"):
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(type(store.root), "rename", fails)
    with pytest.raises(OSError, match="no"):
        store.save(PATH, CheckpointFiles(b"{}", b"new"), {})
    assert store.read(PATH).weights == b"weights"
    assert [entry.name for entry in store.folder(PATH).parent.iterdir()] == [PATH.name]


SAVER = """
import sys
from machine.engine.checkpoints import CheckpointFiles, CheckpointPath, Checkpoints
store = Checkpoints(__import__("pathlib").Path(sys.argv[1]))
for n in range(10**6):
    body = bytes([n % 256]) * 200_000
    store.save(CheckpointPath("run", "weights", f"{n % 3}"), CheckpointFiles(body, body, body), {"base_model": str(n % 256)})
    print(flush=True)
"""


def test_killed_at_any_moment_of_a_save_every_checkpoint_is_whole(tmp_path):
    """Each of the three checkpoints is replaced over and over; all of its files must be of one save."""
    root, chance, known = tmp_path / "checkpoints", random.Random(0), set()
    for _ in range(12):
        process = subprocess.Popen([sys.executable, "-c", SAVER, str(root)], stdout=subprocess.PIPE)
        for _ in range(4):
            began = time.monotonic()
            process.stdout.readline()
        time.sleep(chance.uniform(0.0, 2 * (time.monotonic() - began)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        store = Checkpoints(root)
        listed = {name.rpartition("/")[2] for name in (c["tinker_path"] for c in store.of_run("run"))}
        assert listed >= known
        known = listed
        assert {entry.name for entry in (root / "run" / "weights").glob("*")} == listed
        for name in listed:
            path = CheckpointPath("run", "weights", name)
            files = store.read(path, optimizer=True)
            saved = int(json.loads((store.folder(path) / "checkpoint.json").read_text())["base_model"])
            assert {files.config, files.weights, files.optimizer} == {bytes([saved]) * 200_000}
    assert len(known) == 3


def test_lists_and_expires(store):
    store.save_run(PATH.run, RUN)
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
    store.save_run(PATH.run, RUN)
    store.save(PATH, FILES, {})
    other = CheckpointPath("other", "weights", "x")
    store.save_run(other.run, RUN)
    store.save(other, FILES, {})
    (store.folder(other) / "adapter_model.safetensors").unlink()
    with pytest.raises(NotFound, match="gone"):
        store.version(other)
    with pytest.raises(NotFound, match=r"adapter_model\.safetensors is gone"):
        store.read(other)
    (store.folder(other) / "checkpoint.json").write_text('{"time": ')
    (store.root / other.run / "run.json").write_text("[]")
    again = Checkpoints(store.root)
    assert (again.runs(), again.of_run(other.run)) == ([PATH.run], [])
    for asked in (lambda: again.describe(other), lambda: again.run(other.run)):
        with pytest.raises(NotFound, match="damaged"):
            asked()
    again.delete(other)
    with pytest.raises(NotFound, match="no checkpoint"):
        again.delete(other)


SECRET = b"a private key"


@pytest.fixture
def foreign(store, tmp_path):
    """A store with a checkpoint, and beside it a folder of the user's with a secret and what looks like ours."""
    store.save(PATH, FILES, {})
    store.save_run(PATH.run, RUN)
    outside = tmp_path / "outside"
    for folder in (outside / "weights" / "kept", outside / "weights" / ".tmp-kept", outside / "weights" / ".old-kept"):
        folder.mkdir(parents=True)
        (folder / "secret").write_bytes(SECRET)
    (outside / "weights" / "kept" / "checkpoint.json").write_text(
        '{"time": "", "expires_at": "2001-01-01T00:00:00+00:00"}'
    )
    (outside / "run.json").write_text(json.dumps(RUN | {"time": ""}))
    return outside


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize(("way", "said"), [("link", "symbolic link"), ("hard link", "name"), ("pipe", "regular file")])
def test_a_file_of_a_checkpoint_that_is_another_is_not_read(store, foreign, name, way, said):
    file, secret = store.folder(PATH) / name, foreign / "weights" / "kept" / "secret"
    file.unlink()
    {"link": file.symlink_to, "hard link": file.hardlink_to, "pipe": lambda _: os.mkfifo(file)}[way](secret)
    with pytest.raises(NotFound, match=said) as refused:
        store.read(PATH, optimizer=True)
    assert name in refused.value.message
    with pytest.raises(NotFound, match=said):
        store.open(PATH, name)


@pytest.mark.parametrize("way", ["link", "hard link", "pipe"])
def test_facts_of_a_checkpoint_that_are_another_s_are_not_read(store, foreign, way):
    file, other = store.folder(PATH) / "checkpoint.json", foreign / "weights" / "kept" / "checkpoint.json"
    file.unlink()
    {"link": file.symlink_to, "hard link": file.hardlink_to, "pipe": lambda _: os.mkfifo(file)}[way](other)
    with pytest.raises(NotFound, match="damaged"):
        store.folder(PATH)
    assert store.all() == []


@pytest.mark.parametrize("part", ["a run", "a kind", "a name"])
def test_a_folder_that_is_a_link_is_neither_read_nor_written_nor_swept(store, foreign, part):
    run, kind = store.root / "linked", store.root / PATH.run / "sampler_weights"
    path = {
        "a run": CheckpointPath("linked", "weights", "kept"),
        "a kind": CheckpointPath(PATH.run, "sampler_weights", "kept"),
        "a name": CheckpointPath(PATH.run, "weights", "linked"),
    }[part]
    place = {"a run": run, "a kind": kind, "a name": store.root / PATH.run / "weights" / "linked"}[part]
    place.symlink_to({"a run": foreign, "a kind": foreign / "weights", "a name": foreign / "weights" / "kept"}[part])
    before = {file: file.read_bytes() for file in foreign.rglob("*") if file.is_file()}
    again = Checkpoints(store.root)
    assert [each["checkpoint_id"] for each in again.all()] == ["weights/000002"]
    for act in (
        lambda: again.read(path), lambda: again.delete(path), lambda: again.save(path, FILES, {}),
        lambda: again.update(path, public=True), lambda: again.describe(path), lambda: again.version(path),
    ):  # fmt: skip
        with pytest.raises(NotFound, match="symbolic link"):
            act()
    if part == "a run":
        with pytest.raises(NotFound, match="symbolic link"):
            again.run("linked")
        assert again.runs() == [PATH.run]
    assert {file: file.read_bytes() for file in foreign.rglob("*") if file.is_file()} == before
    assert again.read(PATH, optimizer=True) == FILES


def test_a_pickle_beside_a_checkpoint_is_never_read(store, tmp_path):
    store.save(PATH, FILES, {})
    trap = tmp_path / "ran"

    class Trap:
        def __reduce__(self):
            return (Path(trap).touch, ())

    for name in ("adapter_model.bin", "optimizer.pt", "pytorch_model.bin", "training_args.bin", "a.pkl"):
        (store.folder(PATH) / name).write_bytes(pickle.dumps(Trap()))
    assert store.read(PATH, optimizer=True) == FILES
    (store.folder(PATH) / "adapter_model.safetensors").unlink()
    with pytest.raises(NotFound, match=r"adapter_model.safetensors is gone"):
        store.read(PATH)
    assert not trap.exists()
