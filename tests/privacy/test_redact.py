import json

import pytest

from machine.privacy.redact import Names, located, redacted
from machine.privacy.sources import Sources

GITHUB = "ghp_" + "aB3" * 12
AWS = "AKIA" + "ABCDEFGH12345678"
NOTHING = Sources.of({})


def test_the_same_secret_is_the_same_placeholder_everywhere():
    clean, found = redacted({"a": f"x {GITHUB} y", "b": [f"{GITHUB}"], "c": AWS}, NOTHING)
    assert clean == {"a": "x <secret:github-token:1> y", "b": ["<secret:github-token:1>"], "c": "<secret:aws:2>"}
    assert [(f.rule, f.place) for f in found] == [("github-token", "a"), ("github-token", "b[0]"), ("aws", "c")]


def test_json_inside_a_string_stays_json():
    clean, _ = redacted(json.dumps({"command": f"curl -H 'Authorization: {GITHUB}'"}), NOTHING)
    assert json.loads(clean)["command"] == "curl -H 'Authorization: <secret:github-token:1>'"


def test_values_of_the_environment_that_are_named_secret_are_exact():
    clean, found = redacted("pass is s3cr3t-value!", Sources.of({"DB_PASSWORD": "s3cr3t-value!", "PAGER": "pass is"}))
    assert clean == "pass is <secret:env-db-password:1>"
    assert [f.rule for f in found] == ["env-db-password"]


def test_a_private_key_goes_whole():
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"
    assert redacted(f"a\n{key}\nb", NOTHING)[0] == "a\n" + "<secret:private-key:1>\n" * 3 + "b"


@pytest.mark.parametrize("text", ["def token(): return 1", "sha256:" + "ab" * 32, "password = input()", "AKIA"])
def test_code_is_left_alone(text):
    assert redacted(text, NOTHING) == (text, [])


def test_a_secret_that_is_a_key_is_in_no_place_either():
    clean, found = redacted({"properties": {GITHUB: {"default": AWS}}}, NOTHING)
    assert GITHUB not in json.dumps(clean) + repr(found)
    assert found[1].place == "properties.<secret:github-token:1>.default"


@pytest.mark.parametrize("secret", ["/aGVsbG8gd29ybGQ=", "~tilde-secret", "pä\"ss'wörd", "/" + "x" * 5000])
def test_secrets_of_the_environment_are_found_as_text_and_inside_json_text(secret):
    for ascii_only in (True, False):
        text = json.dumps({"a": secret}, ensure_ascii=ascii_only)
        assert json.loads(redacted(text, Sources.of({"PGPASSWORD": secret}))[0]) == {"a": "<secret:env-pgpassword:1>"}
    assert redacted(secret, Sources.of({"PGPASSWORD": secret}))[0] == "<secret:env-pgpassword:1>"


def test_paths_and_names_of_people_are_no_secrets(tmp_path):
    environ = {"SSH_AUTH_SOCK": str(tmp_path), "GIT_AUTHOR_NAME": "Ada Lovelace", "KEYBOARD_LAYOUT": "us-international"}
    text = " ".join(environ.values())
    assert redacted(text, Sources.of(environ)) == (text, [])


@pytest.mark.parametrize("line", ["\n", "\\n"])
def test_a_private_key_that_was_cut_short_goes_as_far_as_it_is_there(line):
    body = line.join(
        ["-----BEGIN OPENSSH PRIVATE KEY-----", "b3Bl" * 16, "bnNz" * 16, "aC1r" * 5, "[output truncated]"]
    )
    assert redacted(body, NOTHING)[0] == f"<secret:private-key:1>{line}" * 4 + "[output truncated]"
    code = 'if "-----BEGIN PRIVATE KEY-----" in text:\n    return find(text)'
    assert redacted(code, NOTHING) == (code, [])


def test_a_text_without_secrets_is_remembered_and_its_neighbour_with_one_is_found_again():
    secret = "ghp_" + "a1B2" * 9
    value = ["nothing to see here", f"token {secret}", "nor here, at all"]
    for _ in range(3):
        clean, found = redacted(value, NOTHING)
        assert secret not in str(clean)
        assert [finding.place for finding in found] == ["[1]"]


def test_a_remembered_text_is_still_looked_at_for_the_users_own_secrets():
    value = {"say": "it has always been hunter2-hunter2"}
    assert redacted(value, NOTHING) == (value, [])
    clean, found = redacted(value, Sources.of({"SERVICE_PASSWORD": "hunter2-hunter2"}))
    assert (clean["say"], len(found)) == ("it has always been <secret:env-service-password:1>", 1)


def test_what_one_text_shows_to_be_a_secret_is_taken_out_of_all_however_they_spell_it():
    password = 'q7/Zr"x+9 Lm'
    value = [
        "nothing",
        f"postgres://app:{password.replace('/', '%2F')}@db/x",
        {"say": json.dumps({"p": json.dumps(password)})},
    ]
    clean, found = redacted(value, Sources.of({"DB_PASSWORD": password}))
    assert [f.place for f in found] == ["[2].say"]
    assert json.loads(json.loads(clean[2]["say"])["p"]) == "<secret:env-db-password:1>"
    token = "ghp_" + "Zz9" * 12
    clean, found = redacted([f"use {token}", f"it was {token[:20]}", {"b64": f"x{token}x"}], NOTHING)
    assert clean == ["use <secret:github-token:1>", f"it was {token[:20]}", {"b64": "x<secret:github-token:1>x"}]


def test_numbers_that_placeholders_have_are_not_given_again():
    clean, _ = redacted(["<secret:github-token:4> was here", AWS], NOTHING)
    assert clean == ["<secret:github-token:4> was here", "<secret:aws:5>"]
    assert redacted(clean, NOTHING) == (clean, [])


def test_values_that_share_names_agree_on_their_placeholders():
    names = Names()
    assert redacted([AWS, GITHUB], NOTHING, names)[0] == ["<secret:aws:1>", "<secret:github-token:2>"]
    assert redacted(["later", GITHUB], NOTHING, names)[0] == ["later", "<secret:github-token:2>"]
    assert GITHUB not in repr(names)


def test_two_secrets_that_overlap_go_whole():
    sources = Sources.of({"A_TOKEN": "abcdefgh-ijkl", "B_TOKEN": "ijkl-mnop-qrst"})
    assert redacted("x abcdefgh-ijkl-mnop-qrst y", sources)[0] == "x <secret:env-b-token:1> y"


def test_code_keeps_its_lines():
    body = "\n".join(["-----BEGIN EC PRIVATE KEY-----", *["MHcCAQEE" * 8] * 3, "-----END EC PRIVATE KEY-----"])
    code = f'KEY = """\n{body}\n"""\nprint(1)\n'
    clean = redacted(code, NOTHING)[0]
    assert clean.count("\n") == code.count("\n")
    assert clean.splitlines()[-1] == "print(1)"
    nested = json.dumps({"cmd": f"echo '{json.dumps({'k': code})}'"})
    inner = json.loads(redacted(nested, NOTHING)[0])["cmd"][6:-1]
    assert json.loads(inner)["k"] == clean


def test_what_is_allowed_stays_and_a_fingerprint_says_what_was_found():
    sources = Sources({}, key=b"a key")
    [finding] = redacted(AWS, sources)[1]
    assert len(finding.fingerprint) == 16
    allowed = Sources({}, allowed=frozenset([finding.fingerprint]), key=b"a key")
    assert redacted(AWS, allowed) == (AWS, [])
    assert redacted([AWS, GITHUB], allowed)[0] == [AWS, "<secret:github-token:1>"]
    assert redacted(AWS, Sources({}, allowed=frozenset([finding.fingerprint]), key=b"another"))[1]


def test_the_place_of_a_secret_in_a_long_text():
    text = f"one\ntwo {GITHUB}\nthree {AWS}"
    assert [(at, f.rule) for at, f in located(text, NOTHING)] == [(8, "github-token"), (text.index(AWS), "aws")]


@pytest.mark.parametrize(
    "before",
    [
        "https://h/?" + "".join(f"key{number}=a&" for number in range(40)) + "api_key=",
        "".join(f"password_len{number}=1;" for number in range(40)) + "password=",
        *(
            "**Password:** `",
            "**Password**: ",
            "__password__: ",
            "\x1b[1mpassword\x1b[0m: ",
            "\\u001b[1mtoken\\u001b[0m=",
        ),
        "x=1&client_secret%3D",
    ],
)
def test_a_value_is_found_however_its_name_is_set_off_and_however_many_names_stand_before(before):
    secret = "q7Zr9xLm2Kp4" + "Vt8Wb3Yn"
    assert secret not in redacted(f"{before}{secret}`", NOTHING)[0]
