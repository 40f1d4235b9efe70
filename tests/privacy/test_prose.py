"""Secrets that people say in chats and agents repeat, in many languages; and sentences about secrets that hold none."""

import json
import time

import pytest

from machine.privacy.redact import redacted
from machine.privacy.sources import Sources

NONE = Sources.of({})
CHOSEN = "Kupfer7842!"
WORDLIKE = "falcon5718"
PHRASE = "walnut-Orbit-saddle-timber"
CAMEL = "meadowLanternglacier"
MADE = "q7Rw2kVx9ZtL4mNp8sYb3cDf"
HEX = "9d0e27c41b6f83a5c2e94d7018fb63ae"
UUID = "7c0b92e1-4d3a-4f6b-9a58-e2d1c07f4b36"
MARKED = "olga&stefan2003"
GROUPS = "omjw wvcc vgqu wxvh"
BITLOCKER = "359260-428340-533379-370095-035475-287056-590557-534699"
UMLAUTS = "Schl\u00fcssel#2451GdR"

SAID = [
    # English
    (f"The db password is {CHOSEN}, please don't share it.", CHOSEN),
    (f"Use this consul http token for the staging box: {UUID}", UUID),
    (f"I found the rabbitmq default pass in the old wiki: `{CHOSEN}`. I'll put it in.", CHOSEN),
    (f'My smtp password is "{PHRASE}" - can you check?', PHRASE),
    (f"here's the token btw {HEX}\n\nthe repo is orders", HEX),
    (f"here's the password btw {PHRASE}\n", PHRASE),
    (f"auth with the deploy token `{MADE}` and then list", MADE),
    (f"Set FTP_PASS to {WORDLIKE} and rerun the tests.", WORDLIKE),
    (f"I changed the root password to {CHOSEN} yesterday", CHOSEN),
    (f"wifi is Guest, password {CAMEL}", CAMEL),
    (f"user admin, pw {CHOSEN}, url https://host.io", CHOSEN),
    (f"my key \u2192 {HEX}", HEX),
    (f"the password for the staging db \u2192 {CHOSEN}", CHOSEN),
    (f"use {MADE} as the API key", MADE),
    (f"you can use `{CHOSEN}` as password for the admin", CHOSEN),
    (f"{CHOSEN} is the password", CHOSEN),
    (f"the admin password (staging) is now {CHOSEN}.", CHOSEN),
    (f'Hmm, the config has database_password set to "{CHOSEN}", but', CHOSEN),
    (f"[12:01] ERROR: invalid bind pw '{CHOSEN}' for ldap", CHOSEN),
    (f"the password is \u201c{PHRASE}\u201d", PHRASE),
    (f"password ({CHOSEN})", CHOSEN),
    # logins
    (f"Log in at https://app.host.io with admin / {CHOSEN}", CHOSEN),
    (f"You can log in with root / {CHOSEN} at https://host.io", CHOSEN),
    (f"creds: admin:{CHOSEN}", CHOSEN),
    (f"the credentials are admin / {CHOSEN}", CHOSEN),
    (f"staging login\nsvc_orders\n{CHOSEN}", CHOSEN),
    (f"Login: admin, PW: {CHOSEN}", CHOSEN),
    (f"- User: admin\n- Pass: {PHRASE}", PHRASE),
    (f"credentials bob/{CHOSEN}", CHOSEN),
    (f"Logindaten: admin / {CHOSEN}", CHOSEN),
    (f"the new one is {CHOSEN} (password)", CHOSEN),
    (f"DB: postgres / {CHOSEN}", CHOSEN),
    (f"SSH: root@10.0.0.4 / {CHOSEN}", CHOSEN),
    (f"the admin account is **admin**: root / {CHOSEN}", CHOSEN),
    (f"password has been set to {WORDLIKE}", WORDLIKE),
    (f"with the password being {WORDLIKE}", WORDLIKE),
    # German
    (f"Das neue Kennwort wurde auf {WORDLIKE} gesetzt", WORDLIKE),
    (f"Hier ist mein Passwort: {CAMEL} \u2013 bitte trag es ein.", CAMEL),
    (f"das Passwort f\u00fcr db.host.io lautet {CHOSEN}, damit sollte es gehen", CHOSEN),
    (f'Kannst du bitte mit dem Passwort "{UMLAUTS}" testen?', UMLAUTS),
    (f"Zugangsdaten:\nBenutzer: bob\nKennwort: {CHOSEN}", CHOSEN),
    (f"das API-Schl\u00fcssel f\u00fcr x.io lautet {MADE}, damit", MADE),
    (f"Zugangsschl\u00fcssel = {HEX}\nServer = x.io", HEX),
    (f"nimm {CHOSEN} als Passwort", CHOSEN),
    (f"Zugangsdaten: admin / {CHOSEN}", CHOSEN),
    # French
    (f"Le mot de passe est {CHOSEN}, merci de ne pas le partager.", CHOSEN),
    (f"voici ma cl\u00e9 secr\u00e8te : {MADE}\ntu peux relancer ?", MADE),
    (f"J'ai chang\u00e9 le cl\u00e9 API, c'est maintenant {MADE}", MADE),
    (f"utilise \u00ab {PHRASE} \u00bb comme mot de passe pour api.host.io", PHRASE),
    (f"utilise \u00ab {MADE} \u00bb comme jeton pour api.host.io", MADE),
    (f"login admin, mdp : {CHOSEN}", CHOSEN),
    (f"Identifiant : bob\nMot de passe : {CHOSEN}", CHOSEN),
    # Spanish
    (f"La contrase\u00f1a es {CHOSEN}, \u00fasala solo en producci\u00f3n.", CHOSEN),
    (f"hola, mi contrase\u00f1a: {WORDLIKE}\n\u00bfpuedes revisar?", WORDLIKE),
    (f"pon la clave secreta `{UUID}` en el archivo", UUID),
    (f"pon la clave de API `{HEX}` en el archivo", HEX),
    (f"te paso la contrase\u00f1a del servidor api.host.io -> {CHOSEN}", CHOSEN),
    (f"entra con admin y la clave {WORDLIKE}", WORDLIKE),
    # Portuguese, Italian, Dutch, Polish, Russian, Chinese, Japanese
    (f"a senha \u00e9 {WORDLIKE}, pode testar?", WORDLIKE),
    (f"a chave da API \u00e9 {MADE}, pode testar?", MADE),
    (f"Chave: {MADE}\nusu\u00e1rio: bob", MADE),
    (f"la password \u00e8 {CHOSEN}, usala", CHOSEN),
    (f"la chiave API \u00e8 {MADE}, usala", MADE),
    (f"wachtwoord: {CHOSEN}", CHOSEN),
    (f"de API-sleutel is {UUID}", UUID),
    (f"has\u0142o: {CHOSEN}", CHOSEN),
    (f"klucz API: {UUID}", UUID),
    (f"\u043f\u0430\u0440\u043e\u043b\u044c: {CHOSEN}", CHOSEN),
    (f"\u041f\u0430\u0440\u043e\u043b\u044c \u043e\u0442 \u0431\u0430\u0437\u044b: {CHOSEN}", CHOSEN),
    (f"\u5bc6\u7801\u662f{CHOSEN}", CHOSEN),
    (f"\u5bc6\u7801\uff1a{CHOSEN}\uff0c\u8bf7\u52ff\u5206\u4eab", CHOSEN),
    (f"\u30d1\u30b9\u30ef\u30fc\u30c9\u306f{WORDLIKE}\u3067\u3059", WORDLIKE),
    (f"has\u0142o to {CHOSEN}", CHOSEN),
    (f"voici le jeton d'acc\u00e8s : {MADE}", MADE),
    (f"l\u00f6senord: {CHOSEN}", CHOSEN),
    (f"\u0442\u043e\u043a\u0435\u043d: {MADE}", MADE),
    (
        f"\u041d\u043e\u0432\u044b\u0439 \u043f\u0430\u0440\u043e\u043b\u044c \u0434\u043b\u044f \u0431\u0430\u0437\u044b \u2014 {CHOSEN}",
        CHOSEN,
    ),
    (f"\u0412\u043e\u0442 \u043a\u043b\u044e\u0447: {HEX}", HEX),
    (f"\u0441\u0435\u043a\u0440\u0435\u0442: {MADE}", MADE),
    (f"\u043b\u043e\u0433\u0438\u043d admin, \u043f\u0430\u0440\u043e\u043b\u044c {WORDLIKE}", WORDLIKE),
    (f"\u043f\u0430\u0440\u043e\u043b\u0430: {CHOSEN}", CHOSEN),
    (f"m\u1eadt kh\u1ea9u: {CHOSEN}", CHOSEN),
    (f"\u5bc6\u78bc\u662f {WORDLIKE}", WORDLIKE),
    (f"\ube44\ubc00\ubc88\ud638\ub294 {CHOSEN}", CHOSEN),
    (f"\u03ba\u03c9\u03b4\u03b9\u03ba\u03cc\u03c2: {CHOSEN}", CHOSEN),
    (f"kata sandi: {CHOSEN}", CHOSEN),
    (f"adgangskoden er {CHOSEN}", CHOSEN),
    (f"l\u00f6senordet \u00e4r {WORDLIKE}", WORDLIKE),
    (f"voici le nouveau secret pour vpn : {MARKED}", MARKED),
    # a way in, and the one word for it
    (f"Hier der neue Zugang f\u00fcr imap: {WORDLIKE} (gilt ab heute).", WORDLIKE),
    (f"new access for the vpn: {CHOSEN}", CHOSEN),
    (f"Zugang f\u00fcr aws: {MADE} (neu)", MADE),
    (f"log in as bob with {CHOSEN}", CHOSEN),
    (f"user admin pass {CHOSEN}", CHOSEN),
    (f"u/p: admin/{CHOSEN}", CHOSEN),
    (f"orders router: 192.168.1.1, admin, {CHOSEN}. Reset is on the back.", CHOSEN),
    (f"the router at 10.0.0.1 admin/{CHOSEN}", CHOSEN),
    # keys that nobody has heard of
    (f"- [ ] new together key \u2192 {HEX}{HEX}", HEX),
    (f"rotate the deepl key \u2192 {HEX}", HEX),
    (f"then use the key `{HEX}` (changed by bob)", HEX),
    (f"Steps: we set key = {MADE}== in the panel, saved", MADE),
    (f"token is {CHOSEN}", CHOSEN),
    # what replaces something
    (f"I replaced the placeholder in `config/app.yml` with `{CHOSEN}` and restarted", CHOSEN),
    (f"Replaced `CHANGE_ME` with `{MADE}`.", MADE),
    (f"swapped the dummy value for `{WORDLIKE}`", WORDLIKE),
    # passwords for one program, codes
    (f"App password for the backup mailer (google account): {GROUPS}", GROUPS),
    (f"- [ ] new gmail password \u2192 {GROUPS}", GROUPS),
    (f"Your app password for your device\n\n{GROUPS}\n", GROUPS),
    ("Save your backup code for orders: 190u-4hos-knmt\nEach code can be used once.", "190u-4hos-knmt"),
    ("recovery code: 70d04-f694c", "70d04-f694c"),
    (f"The laptop asks for BitLocker. I found this recovery key in AD: {BITLOCKER} \u2013 right?", BITLOCKER),
    # digits
    ("the keypad PIN is 604137, don't post it", "604137"),
    ("SIM_PIN=529851", "529851"),
    ('door_pin: "551649"', "551649"),
    ("your verification code is 482913", "482913"),
    ("OTP: 733106", "733106"),
]

BENIGN = [
    "Access to fetch at 'https://host.io/v2' from origin has been blocked: CORS2",
    "access to the DB: readonly2",
    "log in as bob with python3.12-venv installed",
    "pass | GenericRewrites | 12",
    "password utf8mb4_general_ci",
    "| password | varchar(255) | utf8mb4_general_ci |",
    "the placeholder in `config/app.yml` is replaced with `applicationName`",
    "replace the placeholder with `your-password`",
    "a, admin, configuration, user, permissions2",
    "the key `id` is set, the key `sha256` isn't",
    f"sorted by the group key \u2014 `{MADE}`",
    "set key = node_modules_v2 in the cache step",
    "the secret for hmac: sha256",
    "the token is ready! 2 left",
    "the app password form: text area with more text",
    "error code: 190u-4hos-knmt",
    "either pass or fail. This option is best used only when debugging.",
    "root:x:0:0:root:/root:/bin/bash",
    "\u0432\u043a\u043b\u044e\u0447\u0438\u0442\u044c: mode2-fast",
    "BitLocker is on, ticket 123456-123456",
    "the password is wrong, please try again",
    "The password is stored in AWS Secrets Manager under prod/orders2.",
    "the password is base64-encoded before it is sent",
    "The password is hashed with argon2id-v19 parameters.",
    "The password must contain at least 12 characters, one digit and one symbol.",
    "My token is missing, so the server returns 401",
    "the token is short-lived and the refresh token is rotated",
    "the access token is a JWT signed with RS256 or ES256-GCM",
    "The key is that the worker must be idempotent.",
    "The secret to good code is small functions.",
    "Password: required. Token: optional. Key: the name of the cart.",
    "Where is the password for the cart kept? I can't find it anywhere.",
    "the token count is 12345678 and the key is to keep it small",
    "set the password to something stronger",
    "change the token to a fine-grained one",
    "use userPassword2 as the password field",
    "use `config.password` as the password",
    "pass the token as accessToken to the client",
    "the password is in secrets.yaml next to docker-compose.yml",
    "the password is read from vault.internal.host.io at start-up",
    "the api key is in process.env.API_KEY2",
    "Das Passwort ist abgelaufen und muss erneuert werden.",
    "Das Passwort ist falsch, bitte pr\u00fcfe die Einstellungen.",
    "Das Passwort muss mindestens 12 Zeichen haben, sonst Fehler E1042.",
    "Der Schl\u00fcssel ist im Tresor, siehe Abschnitt 4.2.1",
    "La contrase\u00f1a es obligatoria y debe tener 12 caracteres.",
    "La clave est\u00e1 en la tabla usuarios_2024.",
    "clave primaria: id_usuario",
    "Le mot de passe est stock\u00e9 hach\u00e9 avec argon2 dans la table users.",
    "la cl\u00e9 est que tout soit idempotent",
    "a senha \u00e9 obrigat\u00f3ria e deve ter 12 caracteres",
    "la password \u00e8 scaduta",
    "het wachtwoord is verlopen",
    "has\u0142o jest wymagane",
    "\u043f\u0430\u0440\u043e\u043b\u044c \u043d\u0435\u0432\u0435\u0440\u043d\u044b\u0439",
    "\u5bc6\u7801\u662f\u5fc5\u586b\u9879",
    "Login with your username / password at the cart page.",
    "log in with github / google or with a magic link",
    "login: docker/login-action@v3",
    "creds: arn:aws:iam::123456789012:role/deploy",
    "** add token counting example ([2498e2e](https://github.com/org/repo/commit/2498e2e1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7))",
    "use show_password as the password toggle",
    "GPIO pin 123456 is not there",
    "pin: 1000000",
    "exit code 500123, status code: 404404",
    "the zip code is 604137",
    "password = hash_password2(user)",
    "cache key: node-cache-Linux-x64-npm-9d0e27c41b6f83a5c2e94d7018fb63ae",
    "the idempotency key is 7c0b92e1-4d3a-4f6b-9a58-e2d1c07f4b36",
    '"auth.password.label": "Passwort",\n"auth.password.hint": "Mindestens 8 Zeichen"',
    "contrase\u00f1a: Contrase\u00f1a\nclave: Clave de acceso",
    f"the continuation token is `{MADE}`",
    f"sorted by the composite key `{MADE}`",
    "I forgot the password to Zeus2016X",
    f"the token id is {UUID}",
    "la contrase\u00f1a es clientConfig2024",
    "ratio: total / count2024",
    "speed: width2 / height!",
    "Auth Library - Credentials (com.google.auth:google-auth-library-credentials:1.3.0)",
    "set `MINIMAX_API_KEY` and use `minimax/MiniMax-M2.1` from now on",
    "Multi-pass CborShapeSerializer builds the tree",
    "tokens = expand_tokens(html2_tokens[j1:j2], equal=True)",
]


def spelt(text: str) -> list[object]:
    """The text as it is, in the arguments of a call, escaped to ASCII there, and in JSON in those."""
    call = {"arguments": json.dumps({"message": text}, ensure_ascii=False)}
    escaped = [{"arguments": json.dumps({"message": text})}, {"arguments": json.dumps(call)}]
    return [text, call, *(escaped if max(text) < "\u0250" else [])]


def held(row: object, secret: str) -> bool:
    written = json.dumps(row, ensure_ascii=False)
    return secret in written or json.dumps(secret)[1:-1] in written.replace("\\\\", "\\")


@pytest.mark.parametrize(("text", "secret"), SAID)
def test_what_people_say_is_found(text, secret):
    for row in spelt(text):
        assert held(row, secret)
        clean, found = redacted(row, NONE)
        assert found, row
        assert not held(clean, secret), clean
        if isinstance(clean, dict):
            json.loads(clean["arguments"])


@pytest.mark.parametrize("text", BENIGN)
def test_a_sentence_about_secrets_stays(text):
    for row in spelt(text):
        assert redacted(row, NONE) == (row, [])


@pytest.mark.parametrize("before", ["+ ", "- ", "     7\t", "  7\u2192", "> ", "# ", "// ", "\x1b[32m"])
def test_what_stands_before_the_line_does_not_matter(before):
    text = f"{before}das Passwort lautet {CHOSEN}\r\n{before}next"
    assert redacted(text, NONE)[0] == text.replace(CHOSEN, "<secret:password:1>")


def test_the_marks_of_the_sentence_stay():
    text = f"Le mot de passe est {WORDLIKE}, et la cl\u00e9 est \u00ab {MADE} \u00bb."
    expected = "Le mot de passe est <secret:password:1>, et la cl\u00e9 est \u00ab <secret:password:2> \u00bb."
    assert redacted(text, NONE)[0] == expected


@pytest.mark.parametrize(
    "piece",
    [
        "password ",
        "password is ",
        "password for the ",
        "the key is a ",
        "login ",
        "login with a",
        "login:a:",
        "pin 1",
        "clave: ",
        "`password`",
        "as the password ",
        "creds a\n",
        "PIN code ",
        "\u5bc6\u7801\u662f",
        "token \u00ab ",
        "the only time ",
        "placeholder in `",
        "securestring | ",
        "recovery key 123456-",
        "admin/abcd1!",
        ", admin, ",
        "access to a ",
        "x_password\nvalue ",
        "app password abcd efgh ",
        "backup code for a b ",
        "rotated,value,account\n",
        "smtp.a:25 b:",
        " LOGIN a ",
        "> get password\n",
    ],
)
def test_no_sentence_takes_more_than_its_length(piece):
    text = piece * (60_000 // len(piece)) + CHOSEN
    began = time.process_time()
    redacted(text, NONE)
    assert time.process_time() - began < 3
