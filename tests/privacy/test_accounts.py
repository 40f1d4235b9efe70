"""Passwords that stand beside the names of their users, without a name of their own."""

import base64
import json
import random
from urllib.parse import quote

import pytest
from given import PASSWORDS, TOKENS, clean, some

KINDS = ("word and number", "leet", "manager's", "passphrase of three")
GOOD = [
    'ACCOUNTS = [\n    ("bob", "@@"),\n    ("eve", "x"),\n]',
    "users = [('bob', '@@')]",
    "creds: list[tuple[str, str]] = [('bob', '@@')]",
    "$credentials = ['bob' => '@@'];",
    'USERS = {"bob": "@@", "eve": ""}',
    "INSERT INTO users (id, name, password) VALUES (1, 'bob', '@@');",
    "insert into `users` (`id`, `password`, `at`) values (1, '@@', now()), (2, '', now());",
    'INSERT IGNORE INTO users\n  (email, pass)\nVALUES\n  ("bob", "@@");',
    "<methodCall><methodName>a.b</methodName><params><param><value>bob</value></param>"
    "<param><value>@@</value></param></params></methodCall>",
    "<param><value><string>bob</string></value></param>\n<param><value><string>@@</string></value></param>",
    "$ cat /etc/openvpn/auth.txt\nbob\n@@",
    "$ cat ~/.smbcredentials\r\nbob\r\n@@\r\n$ ls",
    "> $ cat vpn-login.conf\n> bob\n> @@\n> $ ls",
    "# /etc/postfix/sasl_passwd\n[relay.site.org]:587 bob@site.org:@@",
    "relay.site.org:465\tbob:@@\n",
    "(echo '@@'; echo '@@') | smbpasswd -s -a bob",
    "printf '@@\\n@@\\n' | passwd bob",
]
BAD = [
    'users = [("bob", "admin"), ("eve", "guest")]',
    'user = {"name": "Marble4512", "login": "marble4512", "id": "x12345678"}',
    '"user": {"login": "marble4512", "type": "User2024x"}',
    "accounts = [('bob', os.environ['BOB_PASSWORD'])]",
    "INSERT INTO users (id, name, password) VALUES (?, ?, ?);",
    "INSERT INTO users (id, name) VALUES (1, 'marble4512');",
    "INSERT INTO users (name, password) VALUES ('bob', 'password');",
    "<param><value><int>12345678</int></value></param><param><value>sample</value></param>",
    "$ cat README.md\nmarble\nkettle4512",
    "$ cat auth.py\nimport\nfrom x import y",
    "at 10:25 bob:said-something-else9",
    "echo 'a b'; echo 'a b' | cat",
    '{"encoded":"aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXh0IG9ubHk="}',
]


def written(text: str) -> list[str]:
    """A text as it is, and in JSON."""
    return [text, json.dumps({"content": f"x\n{text}\n"})]


@pytest.mark.parametrize("way", GOOD)
def test_a_password_beside_its_user_is_found_and_nothing_else_is(way):
    dice = random.Random(way)
    for value in (PASSWORDS[kind](dice) for kind in KINDS):
        for text in written(way.replace("@@", value)):
            assert clean(text) == text.replace(value, "<secret:password:1>"), text


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_password_beside_a_name_is_left_alone(text):
    for each in written(text):
        assert clean(each) == each


@pytest.mark.parametrize(
    "scheme", ["postgres", "mysql", "mssql+pyodbc", "https", "http", "ftp", "amqps", "redis", "ldap"]
)
def test_base64_of_a_url_is_found_where_the_url_holds_a_password(scheme):
    dice = random.Random(scheme)
    for value in (PASSWORDS["word and number"](dice), TOKENS["base62"](dice), "Ember#45/x"):
        text = base64.b64encode(f"{scheme}://bob:{quote(value, safe='')}@db.site.org:1/x".encode()).decode()
        for each in written(f"data:\n  url: {text}\n  pool: NQ=="):
            assert text.rstrip("=") not in clean(each)
    for url in (f"{scheme}://db.site.org:1/x?of=everything", f"{scheme}://bob:${{PASSWORD}}@db.site.org/x"):
        text = f"data:\n  url: {base64.b64encode(url.encode()).decode()}\n"
        assert clean(text) == text


def test_what_elasticsearch_prints_of_a_new_key_is_found():
    dice = random.Random(3)
    letters = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ0123456789"
    pair = f"{some(dice, letters, 20)}:{some(dice, letters, 22)}"
    key = base64.b64encode(pair.encode()).decode()
    for text in written(f'{{"id":"a","name":"ci","encoded":"{key}"}}'):
        assert clean(text) == text.replace(key, "<secret:api-key:1>")
