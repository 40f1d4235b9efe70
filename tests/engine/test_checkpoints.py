import json
import random
import signal
import subprocess
import sys
import time

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
