import json

import pytest

from machine.privacy.redact import redacted

GITHUB = "ghp_" + "aB3" * 12
AWS = "AKIA" + "ABCDEFGH12345678"


def test_the_same_secret_is_the_same_placeholder_everywhere():
    clean, found = redacted({"a": f"x {GITHUB} y", "b": [f"{GITHUB}"], "c": AWS}, {})
    assert clean == {"a": "x <secret:github-token:1> y", "b": ["<secret:github-token:1>"], "c": "<secret:aws:2>"}
    assert [(f.rule, f.place) for f in found] == [("github-token", "a"), ("github-token", "b[0]"), ("aws", "c")]


def test_json_inside_a_string_stays_json():
    clean, _ = redacted(json.dumps({"command": f"curl -H 'Authorization: {GITHUB}'"}), {})
    assert json.loads(clean)["command"] == "curl -H 'Authorization: <secret:github-token:1>'"


def test_values_of_the_environment_that_are_named_secret_are_exact():
    clean, found = redacted("pass is s3cr3t-value!", {"DB_PASSWORD": "s3cr3t-value!", "PAGER": "pass is"})
    assert clean == "pass is <secret:env-db-password:1>"
    assert [f.rule for f in found] == ["env-db-password"]


def test_a_private_key_goes_whole():
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"
    assert redacted(f"a\n{key}\nb", {})[0] == "a\n<secret:private-key:1>\nb"


@pytest.mark.parametrize("text", ["def token(): return 1", "sha256:" + "ab" * 32, "password = input()", "AKIA"])
def test_code_is_left_alone(text):
    assert redacted(text, {}) == (text, [])
