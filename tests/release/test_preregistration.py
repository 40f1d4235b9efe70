"""The preregistration: every wrong entry is one refusal that names file and entry."""

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from released import Work

from machine.errors import Refused
from machine.plain import LARGEST
from machine.release.draft import new, templates
from machine.release.preregistration import read_preregistration
from releasepages import PREREGISTRATION


@pytest.fixture
def file(tmp_path):
    return tmp_path / "preregistration.yaml"


def refused(file, text: str | bytes) -> str:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(Refused) as found:
        read_preregistration(file)
    assert found.value.message.startswith(str(file))
    assert "\n" not in found.value.message
    assert found.value.next_step
    return found.value.message.removeprefix(f"{file}")


def assert_read_or_refused(file) -> None:
    """Nothing but a refusal that names the file; what else is raised is a failure."""
    message = str(file)
    try:
        read_preregistration(file)
    except Refused as error:
        message = error.message
    assert message.startswith(str(file))


def test_it_is_read(file):
    file.write_text(PREREGISTRATION)
    found = read_preregistration(file)
    assert found.external == ["holdout"]
    assert found.files() == {"target": "suites/target.jsonl"}
    assert found.training.learning_rate == (1e-5, 1e-3)


@pytest.mark.parametrize(
    ("old", "new", "entry"),
    [
        ("title: Reliable", "titel: Reliable", ": Object contains unknown field `titel`"),
        ("title: Reliable file repair\n", "", ": Object missing required field `title`"),
        ("id: BR-001", "id: br-1", ": id: "),
        ("id: BR-001", 'id: "BR-001\\n"', ": id: "),
        ("title: Reliable file repair", "title: 5", ": title: "),
        ("title: Reliable file repair", "title: ''", ": title: "),
        ("rows: [20, 400]", "rows: 20", ": training.rows: "),
        ("rows: [20, 400]", "rows: [20]", ": training.rows: "),
        ("rows: [20, 400]", "rows: [400, 20]", ": training.rows: the least, 400, is more than the most, 20"),
        ("rows: [20, 400]", "rows: [20, 50]", ": training.rows: the 96 rows of data.rows are not within 20 to 50"),
        ("steps: [10, 60]", "steps: [0, 60]", ": training.steps[0]: "),
        ("steps: [10, 60]", "steps: [60, 10]", ": training.steps: the least, 60, is more than the most, 10"),
        ("rank: [4, 32]", "rank: [4, x]", ": training.rank[1]: "),
        ("[1.0e-5, 1.0e-3]", "[1.0e-3, 1.0e-5]", ": training.learning_rate: the least, 0.001, is more than the most, 1e-05"),
        ("[1.0e-5, 1.0e-3]", "[.nan, 1.0e-3]", ": training.learning_rate[0]: "),
        ("cost: 2}", "cost: .inf}", ": training.cost: "),
        ("cost: 2}", "cost: .nan}", ": training.cost: "),
        ("tokens: 400000", "tokens: yes", ": training.tokens: "),
        ("5e5e5e", "5e5e", ": data.sha256: "),
        ("kind: cases, file", "kind: case, file", ": suites.target.kind: "),
        ("file: suites/target.jsonl", "file: ../target.jsonl", ": suites.target.file: "),
        ("file: suites/target.jsonl", "file: suites/../../x.jsonl", ": suites.target.file: "),
        ("file: suites/target.jsonl", "file: /etc/passwd", ": suites.target.file: "),
        ("file: suites/target.jsonl", "file: target.jsonl", ": suites.target.file: "),
        ("file: suites/target.jsonl", "file: suites/.hidden", ": suites.target.file: "),
        ("file: suites/target.jsonl", 'file: "suites/a\\0b"', " is not YAML: a null character"),
        ("file: suites/target.jsonl", "file: ''", ": suites.target.file: "),
        ("holdout: {kind: cases, least: 8}", "holdout: {kind: cases, least: 8, near: 1}", ": suites.holdout.near: "),
        ("holdout: {kind", "../holdout: {kind", ": suites.../holdout: the name is not fit"),
        ("holdout: {kind", "5: {kind", ": suites.5: the name is not fit"),
        ("seconds: 300", "seconds: 1", ": suites.fresh.seconds: "),
        ("test: improvement, suite: target", "test: improvement, suite: targets", ": gates.better on the target.suite: "),
        ("alpha: 0.05", "alpha: 0.5", ": gates.better on the target.alpha: "),
        ("{test: drift, suite: target}", "{test: drift, suite: fresh}", ": gates.pace.suite: "),
        ("{test: sanity}", "{test: sane}", ": gates.sane.test: "),
        ("{test: sanity}", "{more: 0.1}", ": gates.sane: "),
        ("{test: sanity}", "5", ": gates.sane: "),
        ("test: improvement, suite: target, alpha: 0.05, gain: 0.1", "test: drift, suite: target", ": gates: none tests"),
        ("share: 0.25", "share: 0", ": trial.share: "),
        ("unit: turn,", "unit: day,", ": trial.unit: "),
        ("failures: 3", "failures: -3", ": trial.stops.failures: "),
        ("decides: [ada, grace]", "decides: ada", ": decides: "),
        ("title: Reliable", "id: BR-002\ntitle: Reliable", " is not YAML: 'id' is there twice"),
        ("rank: [4, 32]", "rank: [4, 32], rank: [1, 2]", " is not YAML: 'rank' is there twice"),
        ("title: Reliable file repair", "title: &a Reliable\nbehavior: *a", " is not YAML: aliases are not read"),
        ("title: Reliable file repair", "title: !!python/object/apply:os.getcwd []", " is not YAML: "),
        ("title: Reliable file repair", 'title: "\\uD800"', " is not YAML: half a surrogate pair"),
        ("title: Reliable file repair", "title: 2026-99-99", " is not YAML: "),
        ("title: Reliable file repair", "title: [", " is not YAML: "),
        ("title: Reliable file repair", "? [a, b]\n: c", " is not YAML: "),
        ("title: Reliable file repair", "5: x\ntitle: y", ": "),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_named(file, old, new, entry):
    assert old in PREREGISTRATION
    assert refused(file, PREREGISTRATION.replace(old, new, 1)).startswith(entry)


def test_sanity_needs_cases(file):
    text = PREREGISTRATION.replace("  target: {kind: cases, file: suites/target.jsonl, least: 8}\n", "")
    text = text.replace("  holdout: {kind: cases, least: 8}\n", "")
    text = text[: text.index("gates:")] + (
        "gates:\n  better: {test: improvement, suite: fresh}\n  sane: {test: sanity}\ntrial: {turns: 0}\n"
    )
    assert refused(file, text).startswith(": gates.sane: ")


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 9)}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "5", "[]", "text", b"\xff\xfe\x00\x01", b"\x89PNG\r\n\x1a\n\x00", "a: 1\n---\nb: 2\n", "[" * 400,
        "title: " + "9" * 5000, BOMB, MERGES, "%YAML 9.9\n---\na: b\n", "suites: 5\n", "- suites", "\x07",
    ],
)  # fmt: skip
def test_what_is_no_preregistration_at_all(file, text):
    refused(file, text)


def test_a_file_that_is_too_large_a_folder_or_not_there(file):
    assert "bytes" in refused(file, b"# " + b"x" * LARGEST)
    file.unlink()
    with pytest.raises(Refused, match="No such file"):
        read_preregistration(file)
    file.mkdir()
    with pytest.raises(Refused, match="directory"):
        read_preregistration(file)


def test_the_templates_are_read_once_they_are_filled(tmp_path):
    assert templates() == ["BR-000", "BR-001", "blank"]
    for name in templates():
        work = Work(tmp_path / name)
        place, _ = new(work.project, "BR-009", name)
        found = place.read()
        assert found.data.rows == 24
        assert found.training.learning_rate == (1e-5, 4.26e-4)
        assert found.training.rank == (1, 16)


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_PATHS = [
    (name,) for name in ("id", "title", "model", "training", "data", "suites", "gates", "trial", "decides", "sampling", "x")
] + [
    ("training", "rows"), ("training", "cost"), ("data", "sha256"), ("suites", "target"), ("suites", "fresh", "least"),
    ("gates", "sane"), ("gates", "pace", "suite"), ("trial", "stops"), ("suites", "target", "file"),
]  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(_PATHS), value=_VALUES)
def test_any_value_anywhere_is_read_or_refused(file, path, value):
    plain = yaml.safe_load(PREREGISTRATION)
    inner = plain
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    file.write_text(yaml.safe_dump(plain, allow_unicode=True), "utf-8", errors="replace")
    assert_read_or_refused(file)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(0, len(PREREGISTRATION)),
    length=st.integers(0, 20),
    text=st.text(max_size=6) | st.sampled_from("[]{}&*!:-#\"'|>%@`?,"),
)
def test_any_edit_is_read_or_refused(file, at, length, text):
    edited = PREREGISTRATION[:at] + text + PREREGISTRATION[at + length :]
    file.write_bytes(edited.encode("utf-8", "surrogatepass"))
    assert_read_or_refused(file)
