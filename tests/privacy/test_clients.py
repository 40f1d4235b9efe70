"""Secrets that code gives, without a name, to what it makes of them."""

import json
import random

import pytest
from given import PASSWORDS, TOKENS, clean

MADE = [
    'f = Fernet(b"@@")',
    "pyotp.TOTP('@@').now()",
    'verifier = SignatureVerifier("@@")',
    "new AzureKeyCredential('@@')",
    'credential=AzureKeyCredential(key="@@")',
    "client = Client('AB512', '@@')",
    "const client = algoliasearch('AB512', '@@');",
    "jwt.sign(payload, '@@', { expiresIn: 1 })",
    'jwt.encode({"a": 1}, "@@", algorithm="HS256")',
    "jwt.verify(token, '@@')",
    "crypto.createHmac('sha256', '@@')",
    "hash_hmac('sha256', $data, '@@')",
    'client = Vault("@@")',
    "const api = new AcmeApi('@@');",
    'session = acme.Session(api="@@")',
]
TYPED = [
    'WiFi.begin("guests", "@@");',
    "wlan.connect('guests', '@@')",
    'generate_password_hash("@@")',
    "await bcrypt.hash('@@', 10)",
    'bcrypt.hashpw(b"@@", salt)',
    'check_password_hash(stored, "@@")',
    'user.set_password("@@")',
    'client.username_pw_set("bob", "@@")',
    "new PDO('mysql:host=a;dbname=b', 'root', '@@');",
    'pymysql.connect("localhost", "root", "@@", "db")',
    'DriverManager.getConnection("jdbc:mysql://a/b", "root", "@@");',
    "User.objects.create_superuser('bob', 'bob@site.org', '@@')",
]
BAD = [
    'f = Fernet(os.environ["KEY"])',
    'f = Fernet(b"your-key-goes-here-please-123")',
    "jwt.verify(token, publicKey)",
    "jwt.verify(token, 'configuration.jwt.publickey')",
    'client = Client("https://api.site.org/v1/things")',
    'session = Session("main-session-of-the-app")',
    "WiFi.begin(ssid, password);",
    'WiFi.begin("guests", WIFI_PASSWORD);',
    "bcrypt.hash(password, 10)",
    "generate_password_hash('password')",
    'check_password_hash(user.password_hash, form["password"])',
    "new PDO($dsn, $user, $password);",
    'mysqli_connect("localhost", "root", "", "db");',
    'service = create_sampling_client(base_model="Qwen/Qwen3-4B-Instruct-2507")',
]


@pytest.mark.parametrize("way", MADE)
def test_a_token_is_found_in_what_is_made_of_it(way):
    dice = random.Random(way)
    for kind in ("base62", "hex", "base32", "base64"):
        value = TOKENS[kind](dice)
        for text in (way.replace("@@", value), json.dumps({"content": way.replace("@@", value)})):
            assert value not in clean(text), text
            assert clean(text).startswith(text[:8])
            assert clean(text).endswith(text.partition(value)[2])


@pytest.mark.parametrize("way", TYPED)
def test_a_password_is_found_where_code_connects_or_hashes(way):
    dice = random.Random(way)
    for kind in ("word and number", "leet", "manager's", "passphrase of three"):
        value = PASSWORDS[kind](dice)
        for text in (way.replace("@@", value), json.dumps({"content": way.replace("@@", value)})):
            assert value not in clean(text), text
            assert clean(text).startswith(text[:8])
            assert clean(text).endswith(text.partition(value)[2])


@pytest.mark.parametrize("text", BAD)
def test_variables_places_and_words_are_left_alone(text):
    for each in (text, json.dumps({"content": text})):
        assert clean(each) == each
