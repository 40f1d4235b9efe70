"""Secrets in tables, after prompts, and on the line after what announces them; and what only looks alike."""

import json
import time

import pytest

from machine.privacy.redact import redacted
from machine.privacy.sources import Sources

NONE = Sources.of({})
CHOSEN = "Kupfer7842!"
PHRASE = "walnut-Orbit-saddle-timber"
LETTERS = "meadowlanternglaciercopper"
MADE = "q7Rw2kVx9ZtL4mNp8sYb3cDf"
HEX = "9d0e27c41b6f83a5c2e94d7018fb63ae"
UUID = "7c0b92e1-4d3a-4f6b-9a58-e2d1c07f4b36"
BITLOCKER = "359260-428340-533379-370095-035475-287056-590557-534699"
BASE32 = "KZ4T7QW2XB5NLR3M"
BCRYPT = "$2b$12$Kq3vTz8WmYx1LdRfNhJpCuG5sBaEoXiVgQrZtMwUyDkPnHcSeLfAj"
AWS_ID = "AKIA" + "Q7XB3LMZ2KDWT5RN"
AWS_SECRET = "tR9/kW2xVbQ7mLzY4nPd+J8sHcGfUa1eXo5iTqBw"

TABLES = [
    # commas, semicolons, tabs
    (f"id,name,email,password,created\n17,bob,bob@host.io,{CHOSEN},2024-11-03\n", CHOSEN),
    (f"id,name,password\r\n1,bob,{CHOSEN}\r\n", CHOSEN),
    (f'"id","name","password"\n"1","bob","{PHRASE}"', PHRASE),
    (f"id,password,created\n1,,2024\n2,changeme,2024\n3,{LETTERS},2024", LETTERS),
    (f"name;host;token\norders;api.host.io;{HEX}", HEX),
    (f"url,username,api_key,note\nhttps://host,bob,{MADE},\nhttps://other,bob,,sso", MADE),
    (f"user\tpassword\thost\nbob\t{CHOSEN}\tdb1", CHOSEN),
    (f"User name,Access key ID,Secret access key\nci,{AWS_ID},{AWS_SECRET}", AWS_SECRET),
    (f"folder,favorite,type,name,login_uri,login_username,login_password\n,,login,x,https://h,bob,{CHOSEN}", CHOSEN),
    (f"Benutzer;Passwort;Rolle\nbob;{CHOSEN};admin", CHOSEN),
    (f"usuario,contraseña\nbob,{CHOSEN}", CHOSEN),
    (f"email,password_hash\nbob@host.io,{BCRYPT}", BCRYPT),
    (f"password,user\n{CHOSEN},bob", CHOSEN),
    (f"     1\tid,name,password\n     2\t1,bob,{CHOSEN}", CHOSEN),
    (f"+id,name,password\n+1,bob,{CHOSEN}", CHOSEN),
    (f"1→name\tpassword\n2→bob\t{CHOSEN}", CHOSEN),
    (f"client_id,client_secret\nweb,{MADE}", MADE),
    (f"name, password, host\nbob, {CHOSEN}, db1", CHOSEN),
    (f"2026-01-02 DEBUG loaded username,password,role\nbob,{CHOSEN},admin", CHOSEN),
    (f"Rows (username,password,role\nbob,{CHOSEN},admin).", CHOSEN),
    # bars
    (f"| Service | User | Password |\n|---|---|---|\n| a | viewer | (ask ops) |\n| b | bob | {CHOSEN} |", CHOSEN),
    (f"| Service | API key |\n|:--|:-:|\n| b | `{UUID}` |", UUID),
    (f"| Variable | Value | Notes |\n|:--|:--|:--|\n| PORT | 8080 | |\n| SMTP_PASSWORD | `{CHOSEN}` | prod |", CHOSEN),
    (f"| Setting | Value |\n|---|---|\n| Database password | **{CHOSEN}** |", CHOSEN),
    (f"Service | Password\n--- | ---\ndb | {PHRASE}", PHRASE),
    (f"+----+------------+\n| id | password   |\n+----+------------+\n|  1 | {CHOSEN} |\n+----+------------+", CHOSEN),
    (f" id | password \n----+----------\n  1 | {CHOSEN}\n(1 row)", CHOSEN),
    (f"-[ RECORD 1 ]-------\nname     | bob\npassword | {CHOSEN}\n", CHOSEN),
    (
        f"┏━━━━━━┳━━━━━━━━━━┓\n┃ name ┃ password ┃\n┡━━━━━━╇━━━━━━━━━━┩\n│ bob  │ {CHOSEN} │\n└──────┴──────────┘",
        CHOSEN,
    ),
    (f"||  SecretAccessKey |  {AWS_SECRET}  ||", AWS_SECRET),
    (f"||User||Password||\n|bob|{CHOSEN}|", CHOSEN),
    (f"email:password\nbob@host.io:{CHOSEN}", CHOSEN),
    (f"| Env | Example | Prod |\n|---|---|---|\n| DB_PASSWORD | changeme | {CHOSEN} |", CHOSEN),
    (f"\x1b[2m│\x1b[0m | User | Password |\n\x1b[2m│\x1b[0m |---|---|\n\x1b[2m│\x1b[0m | bob | {CHOSEN} |", CHOSEN),
    (f"|  Name   |  /a/db_password  |\n|  Type   |  SecureString    |\n|  Value  |  {LETTERS}  |", LETTERS),
    (f'{{"Type": "SecureString",\n "Value": "{LETTERS}"}}', LETTERS),
    # in mails and terminals
    (f'> "Title","Username","Password"\n> "x","bob","{CHOSEN}"', CHOSEN),
    (f"> Host;User;Passwort\n> srv;bob;{CHOSEN}", CHOSEN),
    (f"\x1b[2m│\x1b[0m user,password\n\x1b[2m│\x1b[0m bob,{CHOSEN}", CHOSEN),
    # a column of values in a list of secrets
    (f"name,service,owner,value,rotated\na,x,bob,{MADE},2024-01-01\nb,none,bob,,2024-01-01", MADE),
    ("name,service,owner,value,rotated\na,apple,bob,gwyi-ssqu-yylw-oxlt,2024-01-01", "gwyi-ssqu-yylw-oxlt"),
    (f"secret_name;value;last_rotated\nx;{CHOSEN};2024", CHOSEN),
    (
        f"KeyName    Permissions    Value\n---------  -------------  ------\nkey1       FULL           {MADE}{HEX}==",
        MADE,
    ),
    # pages
    (f"<tr><th>User</th><th>Password</th></tr>\n<tr><td>bob</td><td>{CHOSEN}</td></tr>", CHOSEN),
    (f'<table><tr class="x"><td>API token</td><td><code>{MADE}</code></td></tr></table>', MADE),
    (f"<dt>Password</dt>\n  <dd>{CHOSEN}</dd>", CHOSEN),
    # columns that spaces align
    (f"NAME                    VALUE\nLOG_LEVEL               info\nADMIN_PASSWORD          {CHOSEN}", CHOSEN),
    (f"NAME          VALUE\nMAIL_PASS     {LETTERS}", LETTERS),
    (f"NAME          VALUE\nMFA_SECRET    {BASE32}", BASE32),
    (
        f"Key                  Value\n---                  -----\ntoken                hvs.{MADE}\ntoken_duration       768h",
        MADE,
    ),
    (f"USER    PASSWORD       HOST\nbob     {CHOSEN}    db1\neve     {PHRASE}  db2", PHRASE),
    (f"Username    Password\n----------  ----------\nbob         {CHOSEN}", CHOSEN),
    (f"AccessorID:       {UUID[::-1]}\nSecretID:         {UUID}\nLocal:            false", UUID),
    (f"Accessor ID  = {UUID[::-1]}\nSecret ID    = {UUID}\nType         = management", UUID),
    (f"Unseal Key 1: {MADE}+b2=\nUnseal Key 2: x", MADE),
    (f"Initial Root Token: hvs.{MADE}", MADE),
]

LINES = [
    # a label, and the value below it
    (f"Oauth refresh token:\n{MADE}\n\nRegion:\neu-west-1", MADE),
    (f"## Function key\n\n```\n{MADE}==\n```\n", MADE),
    (f"## Mysql root password\n\n```text\n{CHOSEN}\n```\n", CHOSEN),
    (f"Generated database password:\n\n  {LETTERS}\n\nStore it now.", LETTERS),
    (f"DB_PASSWORD\n\n    {CHOSEN}\n", CHOSEN),
    (f"CLIENT_SECRET\n\n    {MADE}\n", MADE),
    (f"Here is the password you asked for:\n\n{CHOSEN}", CHOSEN),
    (f"**Password**\n`{CHOSEN}`", CHOSEN),
    (f"Password:\n{PHRASE}\nLast login: Mon", PHRASE),
    (f"Passwort:\n{CHOSEN}", CHOSEN),
    (f"Mot de passe :\n{CHOSEN}", CHOSEN),
    (f"API Key\n-------\n{MADE}", MADE),
    # commands and what they print
    (f"$ cat secrets/db_password\n{CHOSEN}\n$ ls secrets\ndb_password", CHOSEN),
    (f"$ op read op://prod/orders/database_password\n{PHRASE}", PHRASE),
    (f"$ cat .vault_pass\n{CHOSEN}\n$ ansible-playbook site.yml", CHOSEN),
    (f"$ cat config/master.key\n{HEX}", HEX),
    ("$ cat /var/lib/rabbitmq/.erlang.cookie\nQWLKZMXNCBVTYRUEIPSD", "QWLKZMXNCBVTYRUEIPSD"),
    (f"$ echo $MAIL_PASS\n{CHOSEN}\nJob succeeded", CHOSEN),
    (f"dev@host:~$ printenv DB_PASSWORD\n{LETTERS}", LETTERS),
    (f"❯ gh auth token\n{MADE}", MADE),
    (f"# cat /run/secrets/api_token\n{UUID}", UUID),
    (f"PS C:\\src> Get-Content .\\secret.txt\n{MADE}", MADE),
    (f"$ aws secretsmanager get-secret-value --secret-id x --query SecretString --output text\n{MADE}", MADE),
    (f"Password for the [elastic] user successfully reset.\nNew value: {CHOSEN}", CHOSEN),
    (f"$ cat /etc/openvpn/auth.txt\nsvc_app\n{LETTERS}", LETTERS),
    (f"$ argocd admin initial-password -n argocd\n{CHOSEN}\n\n This password must be changed", CHOSEN),
    (f"$ wg genkey | tee privatekey\n{AWS_SECRET}+b2=", AWS_SECRET),
    (f'127.0.0.1:6379> HGETALL orders\n1) "endpoint"\n2) "https://x"\n3) "db_password"\n4) "{LETTERS}"', LETTERS),
    (f'127.0.0.1:6379> HGET cfg smtp_password\n"{CHOSEN}"', CHOSEN),
    (f"2024 [Note] [MY-010454] A temporary password is generated for root@localhost: {LETTERS}", LETTERS),
    (f"Token created for bob. This is the only time the value is shown:\n\n  {HEX}\n\nExpires: 2025", HEX),
    (f"Copy this token now; it will not be shown again: {MADE}", MADE),
    (f"name = gpg_passphrase\nvalue = {LETTERS}\nupdated = 2024", LETTERS),
    (f"id    | 2\nname  | smtp_password\nvalue | {CHOSEN}", CHOSEN),
    (f"as agreed, your password for sql.host.io:1433 is\n\n    {CHOSEN}\n\nPlease change it.", CHOSEN),
    (f"your API key for host.io is\n\n    {MADE}\n", MADE),
    (f"Numerical Password:\n  ID: {{{UUID}}}\n  Password:\n    {BITLOCKER}", BITLOCKER),
    (f"RecoveryPassword     : {BITLOCKER}", BITLOCKER),
    (f"argv=['orders', '--rdp-password', '{LETTERS}', '--dry-run']", LETTERS),
    ("argv=['x', '--app-password', 'gwyi-ssqu-yylw-oxlt']", "gwyi-ssqu-yylw-oxlt"),
    (f"\x1b[2m│\x1b[0m API_TOKEN\n\x1b[2m│\x1b[0m {MADE}\n\x1b[2m│\x1b[0m --", MADE),
    ("<< 334 UGFzc3dvcmQ6\r\n>> S3VwZmVyNzg0MiE=\r\n<< 535 5.7.8 Error", "S3VwZmVyNzg0MiE="),
    (f"a001 LOGIN bob@host.io {CHOSEN}\r\na001 OK", CHOSEN),
    (f"    Key Content            : {LETTERS}", LETTERS),
    # prompts
    (f"[sudo] password for dev: {CHOSEN}\nSorry, try again.", CHOSEN),
    (f"[sudo] Passwort für dev: {CHOSEN}\n", CHOSEN),
    (f"Enter passphrase for key '/home/dev/.ssh/id_rsa': {LETTERS}\nIdentity added", LETTERS),
    (f"Password for 'https://admin@git.host.io': {PHRASE}\nremote: Enumerating", PHRASE),
    (f"dev@10.0.0.3's password: {CHOSEN}\nLast login", CHOSEN),
    (f"New password: {CHOSEN}\nRetype new password: {CHOSEN}\n", CHOSEN),
    (f"login: bob\nPassword: {PHRASE}\nLast login: Mon", PHRASE),
    (
        f"AWS Access Key ID [None]: {AWS_ID}\nAWS Secret Access Key [None]: {AWS_SECRET}\nDefault region name",
        AWS_SECRET,
    ),
    (f"10.0.0.1:6379> AUTH {CHOSEN}\nOK", CHOSEN),
    (f"10.0.0.1:6379> AUTH default {CHOSEN}\nOK", CHOSEN),
    (f"redis> CONFIG SET requirepass {PHRASE}\nOK", PHRASE),
    (f"Enter keystore password:  {CHOSEN}\n", CHOSEN),
    (f"USER bob\r\n331 Password required\r\nPASS {CHOSEN}\r\n230 ok", CHOSEN),
    ("Manual entry key: jbsw y3dp ehpk 3pxp mzxw 6ytb", "jbsw y3dp ehpk 3pxp mzxw 6ytb"),
    # pairs and lists
    (f"ACCESSKEY\t{AWS_ID}\t2024-01-01T00:00:00Z\t{AWS_SECRET}\tActive", AWS_SECRET),
    (f"{AWS_ID}\n{AWS_SECRET}\n\nthose are for the sync", AWS_SECRET),
    (f"aws creds: {AWS_ID} / {AWS_SECRET}", AWS_SECRET),
    (f"mc alias set prod https://s3.host.io {AWS_ID} {AWS_SECRET}", AWS_SECRET),
    ("Your GitHub recovery codes\n\n9db04-51ba0\n076b7-00e14\n3b4f3-cd1f3", "076b7-00e14"),
    ("here are my 2fa backup codes: 9db04-51ba0, 076b7-00e14, 3b4f3-cd1f3", "3b4f3-cd1f3"),
    ('{"recovery_codes": ["9db04-51ba0", "076b7-00e14", "3b4f3-cd1f3"]}', "9db04-51ba0"),
    ("Backup codes:\n1. 4821 9930\n2. 99305512\n3. 77120934\n4. 66120934", "77120934"),
]

BENIGN = [
    "name,service,owner,value,rotated\na,b,c,eu-west-1,2024\nd,e,f,1024,2024",
    "name,value,unit\nspeed,q7Rw2kVx9ZtL4mNp8sYb3cDf,m",
    '1) "endpoint"\n2) "https://x"\n3) "token_count"\n4) "123456789"',
    "name = password_field\nvalue = required",
    'parser.add_argument("--password", "-p", help="the password")\nclick.option("--secret-key", "secret_key")',
    "<< 334 UGFzc3dvcmQ6\n<< 535 5.7.8 Error",
    "User login failed permanently2024",
    "apt\tpasswd\t1:4.13+dfsg1-1+deb12u1\napt\tpatch\t2.7.6-7",
    "| Name | Type | Description |\n|---|---|---|\n| password | string | The user's password |\n| token | required | A token |",
    "| Name | Password | Token |\n|---|---|---|\n| order | required | optional |\n| cart | `string` | `null` |",
    "| Service | Password |\n|---|---|\n| db | *** |\n| web | <hidden> |\n| x | (ask ops) |\n| y | {{ password }} |",
    "id,email,password,token\n",
    "id,email,password,token\n1,bob@host.io,,\n2,eve@host.io,null,none\n3,x@host.io,********,<redacted>",
    "name,hash,size\na.txt,2fd4e1c67a2d28fced849ee1bb76e7391b93eb12,12",
    f"id,sha256,checksum\n1,{HEX}{HEX},{HEX}",
    "commit,author,token_count\n2fd4e1c67a2d28fced849ee1bb76e7391b93eb12,bob,412",
    "id,token,pos\n1,running,VERB\n2,dogs,NOUN",
    "word,token_id,frequency\nhello,12345,0.223\nworld,99281,0.112",
    "NAME          TYPE     DATA   AGE\norders-token-x7k2p   Opaque   3      90d",
    "NAME                        READY   STATUS    RESTARTS\norders-5d8f7c9b4d-x2k9p   1/1     Running   0",
    "Variable | Default | Notes\nDB_PASSWORD | (none) | set for prod",
    " Column   |  Type  | Nullable\n----------+--------+---------\n password | text   | not null\n api_key | character varying(64) |",
    "| key | value |\n|---|---|\n| region | eu-west-1 |\n| image | app-2.14.3-alpine |",
    "CREATE TABLE users (\n  id BIGSERIAL PRIMARY KEY,\n  password VARCHAR(255) NOT NULL,\n  api_key CHAR(32)\n);",
    "def connect(host, user, password, port):\n    return Client(host, user, password, port5432)",
    "type User struct {\n\tPassword   string\n\tAPIKey     string\n\tToken      *oauth2.Token\n}",
    "Password\n--------\n\nThe password field must not be empty.",
    "## Token\n\n```python\nfrom app import Token2\n```",
    "### Password\n\nhunting.for.words is a page",
    "class LoweringPass:\n    pass\n\n\nclass X2Lowering1234(LoweringPass):\n    pass",
    "password:\n  type: string\n  minLength: 8",
    "secret:\n  name: app-secrets-v2\n",
    "$ ls secrets\ndb_password_v2\napi_key",
    "$ cat src/token.py\nimport os",
    "$ git log --grep password\ncommit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "error codes: 12345678, 22345678, 32345678",
    "status codes\n\n2001-0001\n2001-0002\n2001-0003",
    f"AWS Access Key ID [None]: {AWS_ID[:4]}IOSFODNN7EXAMPLE",
    "[sudo] password for dev: \nSorry, try again.",
    "Enter your password: \n",
    "Password for the admin user: required",
    "Key                  Value\n---                  -----\ntoken_duration       768h\ntoken_renewable      true",
    "Name           Password      Description\nfoo            string        the thing",
    "<tr><th>Name</th><th>Password</th></tr>\n<tr><td>db</td><td>required</td></tr><tr><td>x</td><td>string</td></tr>",
    "<label>Password</label><td><input type='password'></td>",
    "UserPASS 12345678 USER",
    "key: this that with from them 2024",
    "def f(\n    x25519_key: X25519PrivateKey,\n    private_key: (\n        MLKEM768X25519PrivateKey\n    ),\n): ...",
    "password: Joi.string().min(12).required(),",
    "package\tpassword\nlogin\t1:4.13+dfsg1-1+deb12u1",
    f"id,password\n1,x\n\nnote,{CHOSEN}",
    "private_key:\n    MLKEM768X25519PrivateKey\n",
    "secret_key:\n    load_key2048(path3X9z)\n",
    "mysql> SELECT user, plugin FROM user;\n| root | caching_sha2_password |\n| app2 | mysql_native_password |",
]


def spelt(text: str) -> list[object]:
    """The text as it is, in the arguments of a call, and in JSON in those."""
    call = {"arguments": json.dumps({"path": "a", "content": text}, ensure_ascii=False)}
    return [text, {"content": text}, call, {"arguments": json.dumps(call, ensure_ascii=False)}]


@pytest.mark.parametrize(("text", "secret"), [*TABLES, *LINES])
def test_a_secret_is_found_where_its_layout_says_so(text, secret):
    for row in spelt(text):
        clean, found = redacted(row, NONE)
        assert found, row
        assert secret not in json.dumps(clean, ensure_ascii=False), clean
        if isinstance(clean, dict) and "arguments" in clean:
            json.loads(clean["arguments"])
    clean, _ = redacted(text, NONE)
    assert clean.count("\n") == text.count("\n")


@pytest.mark.parametrize("text", BENIGN)
def test_a_table_or_a_line_without_a_secret_stays(text):
    for row in spelt(text):
        assert redacted(row, NONE) == (row, [])


def test_a_digest_near_an_id_of_aws_stays():
    digest = "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12"
    assert digest in redacted(f"{AWS_ID} since {digest}", NONE)[0]


def test_what_is_around_a_cell_stays():
    text = f'id,name,password\r\n1,bob,"{CHOSEN}"\r\n2,eve,{PHRASE}\r\n'
    expected = 'id,name,password\r\n1,bob,"<secret:password:1>"\r\n2,eve,<secret:password:2>\r\n'
    assert redacted(text, NONE)[0] == expected
    assert redacted(f"| User | Password |\n|---|---|\n| bob | `{CHOSEN}` |", NONE)[0].endswith(
        "| `<secret:password:1>` |"
    )


@pytest.mark.parametrize(
    "piece",
    [
        "password,x\n",
        "x,password\n",
        "|password|",
        "password\n",
        "password:\n\n",
        '"',
        "password  ",
        "a,password,,",
        "\\n",
        "password for x ",
        "AKIA" + "A" * 16 + " ",
        "codes: 1234 ",
        "$ cat password\n",
        "password\t",
        "`**`",
        "token;",
        "<th>Password</th>",
        "<tr><th>Password</th>",
        "<td>Password</td><td>",
        "PASS abc ",
        "||Password",
    ],
)
def test_no_layout_takes_more_than_its_length(piece):
    text = "id,password\n" + piece * (60_000 // len(piece)) + " password,x"
    began = time.process_time()
    redacted(text, NONE)
    assert time.process_time() - began < 3
