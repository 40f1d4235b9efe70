"""What happened to a correction is what its events say, whatever happens to the file."""

import resource
import signal
import stat

import pytest

from machine.correction import ledger
from machine.correction.ledger import (
    Approved,
    Caught,
    Correction,
    Declined,
    Diagnosis,
    Dropped,
    Evidence,
    Linked,
    NotProposed,
    Opened,
    Proposed,
    Retry,
    Unlinked,
    new_id,
)
from machine.errors import Refused, StoreError
from machine.store.erase import Span, begin
from machine.store.files import read_private
from machine.trace import canonical

GITHUB = "ghp_" + "a1B2" * 9


def approved(id, reasoning="Think."):
    return Approved(correction=id, reasoning=reasoning, origin="written")


def linked(id):
    return Linked(correction=id, rows=("t_1",), entries=("e",), how="chosen")


@pytest.mark.parametrize(
    ("make", "state"),
    [
        ([], "open"),
        ([Declined], "open"),
        ([approved], "approved"),
        ([approved, lambda id: Retry(correction=id, outcome="failed", model="p/m")], "approved"),
        ([approved, lambda id: Retry(correction=id, outcome="answered", model="p/m")], "retried"),
        ([approved, linked], "linked"),
        ([linked, approved], "linked"),
        ([approved, linked, lambda id: Unlinked(correction=id)], "approved"),
        ([approved, linked, lambda id: Unlinked(correction=id), linked], "linked"),
        ([lambda id: Dropped(correction=id)], "dropped"),
        ([approved, linked, lambda id: Dropped(correction=id)], "dropped"),
    ],
)
def test_the_state_is_what_the_events_say(rejected, make, state):
    correction = rejected.opened()
    for event in make:
        rejected.ledger.append(event(correction=correction.id) if event is Declined else event(correction.id))
    [read] = rejected.ledger.read().corrections
    assert (read.state, read.pending) == (state, state in ("open", "approved", "retried"))


def test_the_latest_approval_counts(rejected):
    correction = rejected.opened()
    for text in ("First.", "Second."):
        rejected.ledger.append(approved(correction.id, text))
    assert rejected.ledger.find(correction.id).approved.reasoning == "Second."


def test_a_secret_is_redacted_before_it_is_written(rejected, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "open-sesame-open-sesame")
    correction = rejected.opened(f"it printed {GITHUB}", answer="not open-sesame-open-sesame")
    assert GITHUB not in correction.opened.words
    assert "<secret:" in correction.opened.words
    held = rejected.ledger.path.read_text()
    assert GITHUB not in held
    assert "open-sesame" not in held
    assert stat.S_IMODE(rejected.ledger.path.stat().st_mode) == 0o600


def test_the_ledgers_own_words_are_no_secrets(rejected, monkeypatch):
    for name, value in {"AUTH_STATUS": "approved", "SECRET_WORD": "reasoning", "TOKEN_WORD": "proposed"}.items():
        monkeypatch.setenv(name, value)
    correction = rejected.opened()
    written = rejected.ledger.append(approved(correction.id, "It was approved, with reasoning."))
    assert written.reasoning == "It was <secret:env-auth-status:1>, with <secret:env-secret-word:2>."
    caught = (Caught("secret", f"holds {GITHUB}"),)
    evidence = Evidence("reasoning/1", "p/m", "0" * 64, 1, 1, 1, 0.0)
    diagnosis = Diagnosis(f"did {GITHUB}", "wanted", 2)
    told = {"reasoning": "x", "diagnosis": diagnosis, "evidence": evidence, "caught": caught}
    rejected.ledger.append(Proposed(correction=correction.id, proposal=1, **told))
    assert GITHUB not in rejected.ledger.path.read_text()
    assert rejected.ledger.find(correction.id).state == "approved"


def test_a_last_line_that_lacks_its_end_counts_and_is_kept(rejected):
    correction = rejected.opened()
    with rejected.ledger.path.open("ab") as file:
        file.write(canonical(approved(correction.id)))
    assert rejected.ledger.find(correction.id).state == "approved"
    rejected.ledger.append(linked(correction.id))
    assert rejected.ledger.read().damaged == []
    assert rejected.ledger.find(correction.id).state == "linked"
    assert not rejected.ledger.path.with_suffix(".torn").exists()


def test_an_event_that_is_overwritten_while_it_is_read_is_no_damage(rejected, monkeypatch):
    first, second = rejected.opened(), rejected.opened()
    line = rejected.ledger.path.read_bytes().splitlines()[0]

    def read_meanwhile(path):
        """Reads what an erase of the first event, not through yet, leaves of it."""
        begin(path, [Span(0, len(line))])
        with path.open("r+b") as file:
            file.write(b'{"erased":"' + bytes(len(line) // 2))
        return read_private(path)

    monkeypatch.setattr(ledger, "read_private", read_meanwhile)
    read = rejected.ledger.read()
    assert read.damaged == []
    assert first.id not in [each.id for each in read.corrections]
    assert second.id in [each.id for each in read.corrections]


def test_what_a_crash_left_of_an_event_is_set_aside_and_spoils_none(rejected):
    correction = rejected.opened()
    with rejected.ledger.path.open("ab") as file:
        file.write(b'{"event": "approved", "corr')
    assert rejected.ledger.find(correction.id).state == "open"
    assert rejected.ledger.read().damaged == [(2, "a crash left it half-written")]
    rejected.ledger.append(approved(correction.id))
    assert rejected.ledger.find(correction.id).state == "approved"
    torn = rejected.ledger.path.with_suffix(".torn")
    assert b'"approved", "corr' in torn.read_bytes()
    assert stat.S_IMODE(torn.stat().st_mode) == 0o600


def test_lines_that_are_no_events_are_named_and_left_out(rejected):
    first = rejected.opened()
    with rejected.ledger.path.open("ab") as file:
        file.write(b"not JSON\n\n" + b"[" * 100_000 + b"\n")
        file.write(b'{"event": "approved", "correction": "c_unknown", "reasoning": "x", "origin": "written"}\n')
        file.write(b'{"event": "declined", "correction": "%s", "version": 2}\n' % first.id.encode())
        file.write(b'{"event": "linked", "correction": "%s"}\n' % first.id.encode())
    rejected.ledger.append(approved(first.id))
    read = rejected.ledger.read()
    assert [line for line, _ in read.damaged] == [2, 4, 5, 6, 7]
    assert "newer Machine" in read.damaged[3][1]
    assert [each.state for each in read.corrections] == ["approved"]


def test_text_that_would_split_a_line_does_not(rejected):
    words = "one\ntwo\u2028three\u0085four\ud800"
    correction = rejected.opened(words)
    [read] = rejected.ledger.read().corrections
    assert read.opened.words == words.removesuffix("\ud800") == correction.opened.words


def test_an_id_is_found_by_its_beginning(rejected):
    one, two = rejected.opened("one"), rejected.opened("two")
    assert rejected.ledger.find(one.id).opened.words == "one"
    with pytest.raises(Refused, match="several corrections"):
        rejected.ledger.find("c_")
    with pytest.raises(Refused, match="no correction 'c_x'"):
        rejected.ledger.find("c_x")
    rejected.ledger.drop(two, "")
    with pytest.raises(Refused, match="no correction ''"):
        rejected.ledger.find("")
    assert sorted([one.id, two.id]) == [each.id for each in rejected.ledger.read().corrections]


def test_a_ledger_that_cannot_be_written_says_so_and_is_as_it_was(rejected):
    correction = rejected.opened()
    before = rejected.ledger.path.read_bytes()
    elsewhere = rejected.folder / "elsewhere"
    rejected.ledger.path.rename(elsewhere)
    rejected.ledger.path.symlink_to(elsewhere)
    with pytest.raises(StoreError, match="symbolic link"):
        rejected.ledger.append(approved(correction.id))
    assert elsewhere.read_bytes() == before


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs a limit on file sizes")
def test_a_full_disk_leaves_the_ledger_as_it_was(rejected):
    correction = rejected.opened()
    before, limits = rejected.ledger.path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, limits[1]))  # write(2) fails half-way
        with pytest.raises(StoreError, match="large"):
            rejected.ledger.append(approved(correction.id, "Think. " * 100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert rejected.ledger.path.read_bytes() == before
    rejected.ledger.append(approved(correction.id))
    assert rejected.ledger.find(correction.id).state == "approved"


def test_nothing_is_made_by_reading(rejected):
    assert rejected.ledger.read().corrections == []
    assert not rejected.project.folder.exists()


def test_a_correction_of_its_events_alone():
    opened = Opened(correction=new_id(), rows=("t_1",), session="s", entries=("a", "b"))
    correction = Correction(opened, [opened, NotProposed(correction=opened.correction, model="p/m", why="no")])
    assert [each.model for each in correction.of(NotProposed)] == ["p/m"]
    assert correction.approved is None
