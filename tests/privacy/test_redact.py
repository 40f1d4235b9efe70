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


def test_a_secret_that_is_a_key_is_in_no_place_either():
    clean, found = redacted({"properties": {GITHUB: {"default": AWS}}}, {})
    assert GITHUB not in json.dumps(clean) + repr(found)
    assert found[1].place == "properties.<secret:github-token:1>.default"


@pytest.mark.parametrize("secret", ["/aGVsbG8gd29ybGQ=", "~tilde-secret", "pä\"ss'wörd", "/" + "x" * 5000])
def test_secrets_of_the_environment_are_found_as_text_and_inside_json_text(secret):
    for ascii_only in (True, False):
        text = json.dumps({"a": secret}, ensure_ascii=ascii_only)
        assert json.loads(redacted(text, {"PGPASSWORD": secret})[0]) == {"a": "<secret:env-pgpassword:1>"}
    assert redacted(secret, {"PGPASSWORD": secret})[0] == "<secret:env-pgpassword:1>"


def test_paths_and_names_of_people_are_no_secrets(tmp_path):
    environ = {"SSH_AUTH_SOCK": str(tmp_path), "GIT_AUTHOR_NAME": "Ada Lovelace", "KEYBOARD_LAYOUT": "us-international"}
    text = " ".join(environ.values())
    assert redacted(text, environ) == (text, [])


@pytest.mark.parametrize("line", ["\n", "\\n"])
def test_a_private_key_that_was_cut_short_goes_as_far_as_it_is_there(line):
    body = line.join(
        ["-----BEGIN OPENSSH PRIVATE KEY-----", "b3Bl" * 16, "bnNz" * 16, "aC1r" * 5, "[output truncated]"]
    )
    assert redacted(body, {})[0] == f"<secret:private-key:1>{line}[output truncated]"
    code = 'if "-----BEGIN PRIVATE KEY-----" in text:\n    return find(text)'
    assert redacted(code, {}) == (code, [])


def test_a_text_without_secrets_is_remembered_and_its_neighbour_with_one_is_found_again():
    secret = "ghp_" + "a1B2" * 9
    value = ["nothing to see here", f"token {secret}", "nor here, at all"]
    for _ in range(3):
        clean, found = redacted(value, {})
        assert secret not in str(clean)
        assert [finding.place for finding in found] == ["[1]"]


def test_a_remembered_text_is_still_looked_at_for_the_users_own_secrets():
    value = {"say": "the password is hunter2-hunter2"}
    assert redacted(value, {}) == (value, [])
    clean, found = redacted(value, {"SERVICE_PASSWORD": "hunter2-hunter2"})
    assert (clean["say"], len(found)) == ("the password is <secret:env-service-password:1>", 1)
