import base64
import json

from tinker.lib._jwt_auth import jwt_claims

from machine.engine.api.tokens import API, DOWNLOAD, Tokens


def forged(token, **claims):
    head, body, signature = token.split(".")
    changed = json.loads(base64.urlsafe_b64decode(body + "==")) | claims
    return f"{head}.{base64.urlsafe_b64encode(json.dumps(changed).encode()).decode().rstrip('=')}.{signature}"


def test_a_token_says_what_was_signed_and_the_sdk_reads_it():
    token = Tokens("tml-a").sign(API, 60, sub="me")
    assert Tokens("tml-a").read(token, API)["sub"] == "me"
    claims = jwt_claims(token)
    assert (claims["sub"], claims["exp"] - claims["iat"]) == ("me", 60)


def test_a_token_is_good_for_one_thing_one_key_and_a_while():
    tokens = Tokens("tml-a")
    token = tokens.sign(API, 60, sub="me")
    assert tokens.read(token, DOWNLOAD) is None
    assert Tokens("tml-b").read(token, API) is None
    assert tokens.read(tokens.sign(API, -1), API) is None


def test_what_is_no_token_is_none():
    tokens = Tokens("tml-a")
    token = tokens.sign(API, 60, sub="me")
    none = header = token.split(".")[0]
    for bad in (
        "",
        ".",
        "..",
        "a.b.c",
        "é.é.é",
        token[:-1],
        token + "A",
        forged(token, exp=2**40),
        f"{none}.{header}.",
    ):
        assert tokens.read(bad, API) is None
