"""The log of what the user let out: of these bytes, to this place, durably, and nothing else."""

import dataclasses
import json
import os
import stat

import pytest

from machine.errors import Refused, StoreError
from machine.privacy.parcel import Parcel
from machine.store.approvals import Approvals


def parcel(data=b"one\n", to="far.example"):
    return Parcel.of([data], what="rows", rows=1, projects=["app"], destination=to)


@pytest.fixture
def approvals(tmp_path):
    return Approvals(tmp_path / "store")


def test_what_was_approved_is_approved_and_nothing_else(approvals):
    assert not approvals.approved(parcel())
    approvals.approve(parcel(), "asked")
    approvals.refuse_unapproved(parcel(), "ask")
    for other in (parcel(b"two\n"), parcel(to="elsewhere.example")):
        with pytest.raises(Refused) as told:
            approvals.refuse_unapproved(other, "machine train run")
        assert other.mark in told.value.message
        assert other.destination in told.value.message
        assert told.value.next_step == "machine train run"
    approvals.approve(parcel(b"two\n"), "--yes")
    assert approvals.approved(parcel())
    assert approvals.approved(parcel(b"two\n"))


def test_a_line_says_what_when_whereto_and_how_and_no_content(approvals):
    approvals.approve(parcel(b"a private line\n"), "--yes")
    text = approvals.file.read_text()
    line = json.loads(text)
    assert line.pop("at").endswith("+00:00")
    assert line == {
        "what": "rows",
        "digest": parcel(b"a private line\n").digest,
        "rows": 1,
        "bytes": 15,
        "projects": ["app"],
        "destination": "far.example",
        "by": "--yes",
    }
    assert "private" not in text


def test_the_files_are_the_user_s_alone_whatever_the_umask(approvals):
    before = os.umask(0)
    try:
        approvals.approve(parcel(), "asked")
    finally:
        os.umask(before)
    files = list(approvals.folder.iterdir())
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert stat.S_IMODE(approvals.folder.stat().st_mode) == 0o700


def test_what_a_crash_left_of_a_line_approves_nothing_and_is_set_aside(approvals):
    approvals.approve(parcel(), "asked")
    whole = approvals.file.read_bytes()
    with approvals.file.open("ab") as file:
        file.write(whole[:-20])
    approvals.approve(parcel(b"two\n"), "asked")
    assert [each.digest for each in approvals.all()] == [parcel().digest, parcel(b"two\n").digest]
    assert approvals.file.with_suffix(".torn").read_bytes().endswith(whole[:-20] + b"\n")


def test_a_line_that_is_damaged_approves_nothing(approvals):
    approvals.approve(parcel(), "asked")
    approvals.file.write_bytes(approvals.file.read_bytes().replace(b'"digest"', b'"digset"') + b"\xff\n[]\n")
    assert not approvals.approved(parcel())
    approvals.approve(parcel(), "asked")
    assert approvals.approved(parcel())


def test_a_name_that_is_no_utf_8_is_no_obstacle(approvals):
    odd = dataclasses.replace(parcel(), projects=("a\udcffb",))
    approvals.approve(odd, "asked")
    assert approvals.approved(odd)


def test_an_approval_that_cannot_be_kept_is_none(approvals, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("machine.store.files.write_all", full)
    with pytest.raises(StoreError):
        approvals.approve(parcel(), "asked")
    monkeypatch.undo()
    assert not approvals.approved(parcel())
