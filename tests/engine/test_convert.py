from machine.engine.models.convert import ensure_model
from machine.engine.models.hub import DEFAULT_MODEL
from machine.renderers import load_tokenizer


def test_a_second_run_does_nothing(small_folder):
    before = {file.name: file.stat().st_mtime_ns for file in small_folder.iterdir()}
    assert ensure_model(lambda message: (_ for _ in ()).throw(AssertionError(message))) == small_folder
    assert {file.name: file.stat().st_mtime_ns for file in small_folder.iterdir()} == before


def test_files_are_private_and_hold_no_pickle(small_folder):
    assert {file.stat().st_mode & 0o777 for file in small_folder.iterdir()} == {0o600}
    assert {file.suffix for file in small_folder.iterdir()} == {".json", ".safetensors"}


def test_name_on_the_wire(small):
    assert small.config.name == DEFAULT_MODEL


def test_tokenizer_splits_digits_and_keeps_control_tokens(small_folder):
    tokenizer = load_tokenizer(str(small_folder))
    assert len(tokenizer.encode("12345")) == 5
    assert tokenizer.encode("<|im_start|>") == [1]
    text = "naïve 🙂 x = [1, 2]\n\tdef f():"
    assert tokenizer.decode(tokenizer.encode(text)) == text
