"""What is about to leave, and the digest that an agreement is bound to."""

import hashlib

from machine.privacy.parcel import Parcel

ABOUT = {"what": "rows", "rows": 2, "destination": "far.example"}


def test_the_digest_is_of_the_very_bytes_in_order():
    found = Parcel.of([b"one\n", b"two\n"], projects=["app"], **ABOUT)
    assert found.digest == hashlib.sha256(b"one\ntwo\n").hexdigest()
    assert found.size == 8
    assert Parcel.of([b"two\n", b"one\n"], projects=["app"], **ABOUT).digest != found.digest
    assert Parcel.of([b"one\n", b"twO\n"], projects=["app"], **ABOUT).digest != found.digest


def test_the_summary_says_rows_bytes_projects_and_host():
    found = Parcel.of([b"x" * 12345], projects=["web", "app", "web"], **ABOUT)
    assert dict(found.summary()) == {
        "Leaves": "2 rows",
        "Bytes": f"12,345 (SHA-256 {found.digest[:12]})",
        "Projects": "app, web",
        "Goes to": "far.example",
    }
    assert found.sentence() == f"2 rows of app, web, 12,345 bytes (SHA-256 {found.digest[:12]}), go to far.example"
