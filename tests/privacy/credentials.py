"""Credentials: made-up ones of many kinds, as their makers describe them, and the positions in a row that may hold one.

Written from public descriptions of the formats, not from the rules that are to find them. A form is a text with
`{alphabet:length}` where dice are thrown; `[[` and `]]` stand round the secret part, or all of it is secret. Nothing
here is whole: every credential is made when it is asked for.
"""

import base64
import json
import random
import re
import shlex
import string
from collections.abc import Callable
from typing import Any

ALPHABETS = {
    "b62": string.ascii_letters + string.digits,
    "hex": string.digits + "abcdef",
    "HEX": string.digits + "ABCDEF",
    "low": string.ascii_lowercase + string.digits,
    "UP": string.ascii_uppercase + string.digits,
    "b32": string.ascii_uppercase + "234567",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "num": string.digits,
    "b64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
    "pass": string.ascii_letters + string.digits + "!@#%^*-_+=?~.",
    "word": string.ascii_letters + string.digits + "-_",
    "dj": string.ascii_lowercase + string.digits + "!@#$%^&*(-_=+)",
}
WORDS = ["river", "falcon", "copper", "meadow", "lantern", "orbit", "saddle", "timber", "velvet", "walnut", "glacier"]
PEM = "-----"

FORMS = {
    # source hosts and package registries
    "github classic": "ghp_{b62:36}",
    "github oauth": "gho_{b62:36}",
    "github app": "ghs_{b62:36}",
    "github fine-grained": "github_pat_{UP:1}{b62:21}_{b62:59}",
    "gitlab personal": "glpat-{url:20}",
    "gitlab runner": "glrt-{url:20}",
    "gitlab routable": "glpat-{url:27}.01.{low:9}",
    "bitbucket app password": "ATBB{b62:28}{HEX:8}",
    "atlassian api": "ATATT3xFfGF0{url:171}={HEX:8}",
    "npm": "npm_{b62:36}",
    "npmrc": "//registry.npmjs.org/:_authToken=[[npm_{b62:36}]]",
    "npmrc uuid": "//npm.corp.internal/:_authToken=[[{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}]]",
    "pypi": "pypi-AgEIcHlwaS5vcmc{url:150}",
    "rubygems": "rubygems_{hex:48}",
    "crates.io": "cio{b62:32}",
    "docker hub": "dckr_pat_{url:27}",
    "nuget": "oy2{low:43}",
    # clouds
    "aws key id": "AKIA{b32:16}",
    "aws secret in ini": "aws_secret_access_key = [[{b64:40}]]",
    "aws secret in env": "export AWS_SECRET_ACCESS_KEY=[[{b64:40}]]",
    "aws secret in json": '{{"SecretAccessKey": "[[{b64:40}]]", "Expiration": "2026-01-01T00:00:00Z"}}',
    "aws secret in yaml": "secretAccessKey: [[{b64:40}]]",
    "aws session token": "aws_session_token=[[IQoJb3JpZ2luX2VjE{b64:300}==]]",
    "google api": "AIza{url:35}",
    "google oauth secret": "GOCSPX-{url:28}",
    "google access": "ya29.{url:120}",
    "google refresh": "1//0{url:90}",
    "azure ad secret": "{b62:3}8Q~{url:34}",
    "azure storage": "DefaultEndpointsProtocol=https;AccountName=store;AccountKey=[[{b64:86}==]];EndpointSuffix=core.windows.net",
    "azure sas": "https://store.blob.core.windows.net/c/b?sv=2023-11-03&se=2026-01-01&sr=b&sp=r&sig=[[{b62:20}%2B{b62:20}%3D]]",
    "azure service bus": "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=[[{b64:43}=]]",
    "heroku": "HRKU-{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}",
    "digitalocean personal": "dop_v1_{hex:64}",
    "digitalocean oauth": "doo_v1_{hex:64}",
    "fly": "FlyV1 [[fm2_{b64:140}]]",
    "netlify": "nfp_{b62:36}",
    "cloudflare env": "CLOUDFLARE_API_TOKEN=[[{url:40}]]",
    "vercel env": "VERCEL_TOKEN=[[{b62:24}]]",
    "terraform cloud": "{b62:14}.atlasv1.{b62:67}",
    "pulumi": "pul-{hex:40}",
    "vault service": "hvs.{b62:90}",
    "vault batch": "hvb.{url:138}",
    "doppler": "dp.pt.{b62:43}",
    "databricks": "dapi{hex:32}",
    # watching
    "new relic": "NRAK-{UP:27}",
    "grafana service account": "glsa_{b62:32}_{hex:8}",
    "grafana cloud": "glc_eyJvIjoi{b64:100}",
    "sentry user": "sntryu_{hex:64}",
    "sentry organisation": "sntrys_eyJpYXQiOjE3{b64:120}_{b64:43}",
    "sentry dsn": "https://{hex:32}:[[{hex:32}]]@sentry.corp.internal/{num:2}",
    "honeycomb": "HONEYCOMB_API_KEY=[[{b62:22}]]",
    "dynatrace": "dt0c01.{b32:24}.{b32:64}",
    "datadog": "DD_API_KEY=[[{hex:32}]]",
    # models
    "openai project": "sk-proj-{url:74}T3BlbkFJ{url:74}",
    "openai service account": "sk-svcacct-{url:58}T3BlbkFJ{url:58}",
    "openai admin": "sk-admin-{url:58}T3BlbkFJ{url:58}",
    "openai old": "sk-{b62:20}T3BlbkFJ{b62:20}",
    "anthropic": "sk-ant-api03-{url:93}AA",
    "openrouter": "sk-or-v1-{hex:64}",
    "deepseek": "sk-{hex:32}",
    "hugging face": "hf_{b62:34}",
    "replicate": "r8_{b62:37}",
    "groq": "gsk_{b62:52}",
    "perplexity": "pplx-{b62:48}",
    "xai": "xai-{b62:80}",
    "tinker": "tml-{b62:48}",
    # tools of offices and shops
    "slack bot": "xoxb-{num:12}-{num:13}-{b62:24}",
    "slack user": "xoxp-{num:12}-{num:12}-{num:13}-{hex:32}",
    "slack app": "xapp-1-A{UP:10}-{num:13}-{hex:64}",
    "slack webhook": "https://hooks.slack.com/services/T{UP:8}/B{UP:10}/[[{b62:24}]]",
    "discord webhook": "https://discord.com/api/webhooks/{num:18}/[[{url:68}]]",
    "discord bot": "M{b62:23}.{url:6}.{url:27}",
    "telegram": "{num:10}:AA{url:33}",
    "notion": "ntn_{num:11}{b62:35}",
    "linear": "lin_api_{b62:40}",
    "figma": "figd_{url:40}",
    "airtable": "pat{b62:14}.{hex:64}",
    "dropbox": "sl.{url:135}",
    "shopify": "shpat_{hex:32}",
    "square": "EAAA{url:60}",
    "paypal in json": '{{"client_id": "A{url:79}", "client_secret": "[[E{url:79}]]"}}',
    "stripe live": "sk_live_{b62:24}",
    "stripe test": "sk_test_51{b62:97}",
    "stripe webhook": "whsec_{b62:32}",
    "sendgrid": "SG.{url:22}.{url:43}",
    "mailgun": "key-{hex:32}",
    "mailchimp": "{hex:32}-us12",
    "twilio": "TWILIO_AUTH_TOKEN=[[{hex:32}]]",
    "mapbox": "sk.eyJ1Ijoi{url:60}.{url:22}",
    "1password service": "ops_eyJzaWduSW5BZGRyZXNzIjoi{b64:200}",
    # keys in files
    "age": "AGE-SECRET-KEY-1{bech:58}",
    "rsa": PEM + "BEGIN RSA PRIVATE KEY" + PEM + "\n[[{b64:64}\n{b64:64}\n{b64:64}\n{b64:30}==]]\n" + PEM + "END RSA PRIVATE KEY" + PEM,
    "openssh": PEM + "BEGIN OPENSSH PRIVATE KEY" + PEM + "\n[[b3BlbnNzaC1rZXktdjEA{b64:50}\n{b64:70}\n{b64:70}\n{b64:20}=]]\n" + PEM + "END OPENSSH PRIVATE KEY" + PEM,
    "ec": PEM + "BEGIN EC PRIVATE KEY" + PEM + "\n[[{b64:64}\n{b64:64}\n{b64:34}==]]\n" + PEM + "END EC PRIVATE KEY" + PEM,
    "pgp": PEM + "BEGIN PGP PRIVATE KEY BLOCK" + PEM + "\n\n[[{b64:64}\n{b64:64}\n{b64:64}\n={b64:4}]]\n" + PEM + "END PGP PRIVATE KEY BLOCK" + PEM,
    "putty": "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 2\n[[{b64:64}\n{b64:40}=]]\nPrivate-MAC: {hex:64}",
    "wireguard": "[Interface]\nPrivateKey = [[{b64:43}=]]\nAddress = 10.0.0.2/32",
    "jwt": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIx{url:60}.{url:43}",
    "kubeconfig token": "users:\n- name: admin\n  user:\n    token: [[{b62:40}]]",
    "kubeconfig key": "    client-key-data: [[LS0tLS1CRUdJTi{b64:200}==]]",
    "shadow": "deploy:[[$6${b62:16}${b62:86}]]:19700:0:99999:7:::",
    "htpasswd": "deploy:[[$apr1${b62:8}${b62:22}]]",
    "bcrypt": "$2b$12${b62:53}",
    "laravel": "APP_KEY=base64:[[{b64:43}=]]",
    "django": "SECRET_KEY = 'django-insecure-[[{dj:50}]]'",
    "rails": "secret_key_base: [[{hex:128}]]",
    # what stands before them says so
    "authorization bearer": "Authorization: Bearer [[{b62:40}]]",
    "authorization token": "Authorization: token [[{hex:40}]]",
    "x-api-key header": "X-Api-Key: [[{hex:32}]]",
    "set-cookie": "Set-Cookie: session=[[{url:43}]]; Path=/; HttpOnly",
    "cookie": "Cookie: theme=dark; sessionid=[[{low:32}]]; lang=en",
    "curl user": "curl -u deploy:[[{pass:16}]] https://repo.corp.internal/x",
    "netrc": "machine api.corp.internal login deploy password [[{pass:18}]]",
    "pgpass": "db.corp.internal:5432:orders:app:[[{word:18}]]",
    "postgres url": "postgres://app:[[{word:18}]]@db.corp.internal:5432/orders",
    "mysql url": "mysql://root:[[{word:14}]]@127.0.0.1/shop",
    "mongodb url": "mongodb+srv://svc:[[{word:20}]]@c0.ab1cd.mongodb.net/?retryWrites=true",
    "redis url": "redis://:[[{b62:32}]]@cache.corp.internal:6379/0",
    "amqp url": "amqps://svc:[[{b62:24}]]@mq.corp.internal/prod",
    "https url": "git clone https://deploy:[[{b62:24}]]@git.corp.internal/team/app.git",
    "jdbc": "jdbc:sqlserver://sql.corp.internal:1433;databaseName=hr;user=sa;password=[[{pass:16}]];encrypt=true",
    "odbc": "Server=tcp:sql.corp.internal;Database=hr;Uid=app;Pwd=[[{pass:16}]];Encrypt=yes;",
    "password in env": "DB_PASSWORD=[[{pass:20}]]",
    "password in shell": "export PGPASSWORD='[[{pass:20}]]'",
    "password in json": '{{"user": "app", "password": "[[{pass:16}]]"}}',
    "password in yaml": "database:\n  user: app\n  password: [[{word:18}]]",
    "password in toml": '[db]\npassword = "[[{pass:16}]]"',
    "password in ini": "[smtp]\nsmtp_pass = [[{word:16}]]",
    "password in python": 'connect(host="db", password="[[{pass:14}]]")',
    "password in go": 'dbPassword := "[[{pass:14}]]"',
    "password in xml": "<password>[[{word:16}]]</password>",
    "password option": "mysqldump --user=root --password=[[{word:16}]] shop",
    "password option, space": "docker login -u ci --password [[{word:20}]] registry.corp.internal",
    "sshpass": "sshpass -p '[[{pass:14}]]' ssh root@10.0.0.4",
    "mysql -p": "mysql -h db -u root -p[[{b62:14}]] shop",
    "sql": "ALTER USER app WITH PASSWORD '[[{pass:16}]]';",
    "token in yaml": "api_token: [[{b62:32}]]",
    "token option": "deploy --token=[[{b62:32}]] --region eu",
    "api key in js": "const apiKey = '[[{b62:32}]]';",
    "api key in url": "https://api.corp.internal/v1/items?page=2&api_key=[[{hex:32}]]&sort=asc",
    "client secret in env": "OAUTH_CLIENT_SECRET=[[{url:40}]]",
    "passphrase": 'passphrase: "[[{pass:24}]]"',
    "ecs environment": '{{"name": "DB_PASSWORD", "value": "[[{pass:18}]]"}}',
    "kubernetes environment": "- name: API_TOKEN\n  value: [[{b62:32}]]",
}  # fmt: skip
"""At the time when the rules were written and tuned."""
_THROW = re.compile(r"\{(\w+):(\d+)\}")


def made(form: str, dice: random.Random) -> tuple[str, str]:
    def throw(match: re.Match[str]) -> str:
        name, length = match.group(1), int(match.group(2))
        drawn = "".join(dice.choices(ALPHABETS[name], k=length))
        if name in ("pass", "word"):  # a person's, or a manager's that asks for a letter at both ends and a digit
            drawn = (
                dice.choice(string.ascii_letters)
                + drawn[1:-2]
                + dice.choice(string.digits)
                + dice.choice(string.ascii_letters)
            )
        return drawn

    text = _THROW.sub(throw, form).replace("{{", "{").replace("}}", "}")
    if "[[" not in text:
        return text, text
    start, end = text.index("[["), text.index("]]")
    return text[:start] + text[start + 2 : end] + text[end + 2 :], text[start + 2 : end]


def _human(form: str) -> Callable[[random.Random], tuple[str, str]]:
    def make(dice: random.Random) -> tuple[str, str]:
        secret = f"{dice.choice(WORDS).title()}{dice.choice('-_.!')}{dice.choice(WORDS)}{dice.randrange(100, 9999)}{dice.choice('!?#*')}"
        return form.replace("@@", secret), secret

    return make


def _basic(dice: random.Random) -> tuple[str, str]:
    secret = base64.b64encode(f"deploy:{made('{pass:16}', dice)[0]}".encode()).decode()
    return f"Authorization: Basic {secret}", secret


def _docker(dice: random.Random) -> tuple[str, str]:
    secret = base64.b64encode(f"ci:{made('{b62:20}', dice)[0]}".encode()).decode()
    return json.dumps({"auths": {"registry.corp.internal": {"auth": secret}}}), secret


def _service_account(dice: random.Random) -> tuple[str, str]:
    body = made("{b64:64}\n{b64:64}\n{b64:40}==", dice)[0]
    key = f"{PEM}BEGIN PRIVATE KEY{PEM}\n{body}\n{PEM}END PRIVATE KEY{PEM}\n"
    return json.dumps({"type": "service_account", "private_key": key}), json.dumps(body)[1:-1]


MADE: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "authorization basic": _basic,
    "docker config": _docker,
    "google service account": _service_account,
    "a person's in env": _human("ADMIN_PASSWORD=@@"),
    "a person's in json": _human('{"password": "@@"}'),
    "a person's in prose": _human("my password is @@ if you need it"),
    "a person's in yaml": _human("password: @@"),
}
HELD_OUT: dict[str, str] = {
    "circleci": "CCIPAT_{b62:22}_{hex:40}",
    "postman": "PMAK-{hex:24}-{hex:34}",
    "supabase": "sbp_{hex:40}",
    "hubspot": "pat-na1-{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}",
    "planetscale": "pscale_tkn_{url:43}",
    "tailscale": "tskey-auth-{b62:17}-{b62:32}",
    "mongodb atlas": "MONGODB_ATLAS_PRIVATE_KEY=[[{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}]]",
    "algolia": "ALGOLIA_ADMIN_KEY=[[{hex:32}]]",
    "cohere": "CO_API_KEY=[[{b62:40}]]",
    "okta": "Authorization: SSWS [[00{url:40}]]",
    "jenkins": "JENKINS_API_TOKEN=[[11{hex:32}]]",
    "x-auth-token": "curl -H 'X-Auth-Token: [[{b62:32}]]' https://api.corp.internal",
    "smtp url": "smtp://mailer:[[{word:16}]]@smtp.corp.internal:587",
    "redis-cli": "redis-cli -h cache -a [[{b62:24}]] ping",
    "ansible": "ansible_become_pass: [[{pass:16}]]",
    "spring": "spring.datasource.password=[[{pass:16}]]",
    "java": 'String dbPassword = "[[{pass:16}]]";',
    "php": "define('DB_PASSWORD', '[[{pass:20}]]');",
    "dockerfile": "ENV SECRET_TOKEN [[{b62:32}]]",
    "default in python": 'token = os.environ.get("API_TOKEN", "[[{b62:32}]]")',
    "powershell": '$env:API_KEY = "[[{b62:32}]]"',
    "powershell secure string": 'ConvertTo-SecureString "[[{pass:16}]]" -AsPlainText -Force',
    "terraform": 'administrator_login_password = "[[{pass:18}]]"',
    "rclone": "[remote]\ntype = webdav\nuser = me\npass = [[{url:34}]]",
    "wifi": 'network={{\n  ssid="home"\n  psk="[[{pass:14}]]"\n}}',
    "wireguard shared": "PresharedKey = [[{b64:43}=]]",
    "argon2": "$argon2id$v=19$m=65536,t=3,p=4${b64:22}${b64:43}",
    "django hash": "pbkdf2_sha256$600000${b62:22}${b64:43}=",
    "table": "username,password,role\ndeploy,[[{pass:16}]],admin",
    "phrase": 'passphrase = "[[correct {low:6} battery {low:6} 42]]"',
}  # fmt: skip
"""Written when the rules were done with. 86.6 % of them were found at first; what was then missed without need (Wi-Fi
keys, PowerShell's strings, phrases) has rules since. A password in a column of a table is not found.
"""
KINDS = [*FORMS, *MADE]


def credential(kind: str, dice: random.Random) -> tuple[str, str]:
    """A text that holds a made-up credential of a kind, and the part of it that is secret."""
    if kind in MADE:
        return MADE[kind](dice)
    return made(FORMS.get(kind) or HELD_OUT[kind], dice)


def _row(**more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"note": "good", "tools": [], "messages": [{"role": "user", "content": "Set it up."}]}
    return row | more


def _said(role: str, text: str, **more: Any) -> dict[str, Any]:
    return _row(messages=[{"role": "user", "content": "Set it up."}, {"role": role, "content": text, **more}])


def _called(arguments: Any) -> dict[str, Any]:
    return _said("assistant", "Now.", tool_calls=[{"id": "1", "name": "bash", "arguments": arguments}])


def _shell(text: str) -> dict[str, Any]:
    body = json.dumps({"step": 1, "note": json.dumps({"text": text})})
    return {"command": "bash -c " + shlex.quote(f"curl -d {json.dumps(body)} https://host.internal/hook")}


def _lines(text: str, form: str) -> str:
    return "\n".join(form.format(number, line) for number, line in enumerate(["first", *text.split("\n"), "last"], 1))


POSITIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "user text": lambda text: _said("user", f"Here you are:\n{text}\nThanks."),
    "user sentence": lambda text: _said("user", f"Please try it with {text} and tell me."),
    "arguments": lambda text: _called({"path": "config", "content": f"a = 1\n{text}\n"}),
    "arguments as text": lambda text: _called(json.dumps({"path": "config", "content": f"a = 1\n{text}\n"})),
    "json in json in a shell": lambda text: _called(json.dumps(_shell(text))),
    "dump of variables": lambda text: _said("tool", f"HOME=/home/me\nVALUE={text}\nSHELL=/bin/zsh\n"),
    "log": lambda text: _said("tool", f"2026-01-02T03:04:05Z DEBUG app.boot loaded {text}\n"),
    "diff": lambda text: _said("tool", _lines(text, "+{1}")),
    "numbered lines": lambda text: _said("tool", _lines(text, "{0:6}\t{1}")),
    "answer": lambda text: _said("assistant", f"I found this:\n```\n{text}\n```\nRotate it."),
    "note": lambda text: _row(note=f"it printed {text}"),
    "reasoning": lambda text: _said("assistant", "Done.", reasoning=f"The file says {text}. I must not print it."),
    "tool schema": lambda text: _row(tools=[{"name": "x", "parameters": {"properties": {"q": {"default": text}}}}]),
    "tool description": lambda text: _row(tools=[{"name": "x", "description": f"Calls it ({text})."}]),
    "key of an object": lambda text: _called({"headers": {text: 1}}),
    "file name": lambda text: _called({"path": f"/tmp/out/{text}.json"}),
}


def lines_of(secret: str) -> list[str]:
    """The lines of a secret, each of which is secret: a key of several lines may stand there with a mark before each."""
    return [line for line in re.split(r"\n|\\n", secret) if len(line) >= 8]
