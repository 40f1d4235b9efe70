"""What is secret in a project whatever it looks like: the values of its environment and its `.env` files."""

import base64
import html
import json
import shlex
import subprocess
import time
from urllib.parse import quote, quote_plus

import pytest

from machine.home import machine_home
from machine.privacy.redact import redacted
from machine.privacy.sources import Exact, Sources, of_project
from machine.privacy.spellings import spellings
from machine.store.project import Project

AWKWARD = "pä\"s's\\w$r`d /+&<x>"


def values(environ):
    return {value: exact.rule for value, exact in Sources.of(environ).values.items()}


@pytest.mark.parametrize(
    "spell",
    [
        str,
        json.dumps,
        lambda value: json.dumps(json.dumps({"a": [json.dumps(value)]})),
        lambda value: json.dumps(f"bash -c {shlex.quote('echo ' + shlex.quote(value))}", ensure_ascii=False),
        lambda value: 'x="' + "".join("\\" + c if c in '\\"$`' else c for c in value) + '"',
        lambda value: f"https://h/?q={quote(value, safe='')}&r=1",
        lambda value: f"q={quote_plus(value)}",
        html.escape,
        lambda value: base64.b64encode(f"user:{value}".encode()).decode(),
        lambda value: base64.urlsafe_b64encode(f"me:{value}:x".encode()).decode(),
    ],
)
def test_a_value_is_found_however_it_is_spelt(spell):
    clean, found = redacted(f"a {spell(AWKWARD)} b", Sources.of({"DB_PASSWORD": AWKWARD}))
    assert len(found) == 1
    assert "<secret:env-db-password:1>" in clean
    assert not any(spelling in clean for spelling in spellings(AWKWARD))


def test_names_that_say_secret_count_and_others_do_not():
    secret = {
        name: f"v4lue-of-{i}" for i, name in enumerate(["API_KEY", "GH_TOKEN", "DB_PASSWORD", "PGPASSWD", "MY_PWD"])
    }
    plain = {
        "PWD": "/work/some/where", "KEYBOARD": "us-intl-1", "TOKENIZERS_PARALLELISM": "falsefalse", "GIT_AUTHOR_NAME": "Ada Love",
        "PUBLIC_KEY": "ssh-ed25519 AAAA", "AUTH_METHOD": "kerberos-5", "AWS_ACCESS_KEY_ID_FILE": "some-file-7", "EDITOR": "vim-improved",
        "DB_PASS": "postgres", "SECRET": "changeme", "TOKEN": "short",
    }  # fmt: skip
    assert set(values(secret | plain)) == set(secret.values())


@pytest.mark.parametrize(
    "variable",
    [
        *("AUTH_BACKEND=sqlalchemy", "AUTH_PROVIDER=keycloak", "KEYCLOAK_REALM=customers", "JWT_AUTH_AUDIENCE=app-v2"),
        *("API_KEY_HEADER=X-API-Key", "COOKIE_DOMAIN=.example.com", "WEBHOOK_EVENTS=push,pull", "KEY_PREFIX=sessions:"),
        *("X_TOKEN=function", "X_TOKEN=assistant", "X_KEY=--------", "X_KEY=- - - - -", "X_KEY=xxxxxxxx"),
        *('X_KEY=({[:,"]})', "WEBHOOK_URL=http://localhost:5678/hooks", "SSH_ASKPASS=/nowhere/askpass"),
    ],
)
def test_what_code_is_full_of_is_no_secret(variable):
    name, _, value = variable.partition("=")
    assert values({name: value}) == {}


def test_the_url_of_a_webhook_is_one():
    url = "https://hooks.zapier.com/hooks/catch/" + "1234567/ab3cd5e/"
    assert values({"ZAP_WEBHOOK_URL": url}) == {url: "env-zap-webhook-url"}


def test_the_password_of_a_url_counts_under_any_name():
    assert values({"DATABASE_URL": "postgres://app:p%40ss-word-9@db:5432/x"}) == {"p@ss-word-9": "env-database-url"}
    assert values({"DATABASE_URL": "postgres://app:postgres@db/x", "A_URL": "https://h/x@y", "B": "x://[bad@"}) == {}


def test_env_files_of_the_project_count_and_samples_do_not(tmp_path):
    (tmp_path / ".env").write_text(
        "export API_TOKEN=\"tok-en value 1\"\nPORT=8080\nSECRET_KEY='tok-en$value-2' # why\n"
    )
    (tmp_path / "apps" / "web").mkdir(parents=True)
    (tmp_path / "apps" / "web" / ".env.local").write_text("WEB_SECRET=tok-en-value-3\n")
    (tmp_path / "prod.env").write_text("PROD_KEY=tok-en-value-4\n")
    for name in (".env.example", ".env.sample", "template.env", "notes.txt"):
        (tmp_path / name).write_text("API_KEY=sample-value-5\n")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / ".env").write_text("API_KEY=not-ours-66\n")
    found = of_project(tmp_path, {})
    assert set(found.values) == {"tok-en value 1", "tok-en$value-2", "tok-en-value-3", "tok-en-value-4"}
    assert sorted(path.name for path in found.files) == [".env", ".env.local", "prod.env"]


def test_what_is_not_read_is_named(tmp_path):
    (tmp_path / ".env").write_text("A_TOKEN=x\n" + "#" * (1 << 20))
    (tmp_path / "b.env").symlink_to(tmp_path / "nowhere")
    (tmp_path / "c.env").write_bytes(b"C_TOKEN=\xff\xfe-c-token-1\n")
    found = of_project(tmp_path, {})
    assert [str(tmp_path / ".env") + ": larger than a MB"] == list(found.left_out)
    assert next(iter(found.values.values())).rule == "env-c-token"


def test_home_and_address_where_the_settings_ask(tmp_path):
    environ = {"HOME": "/home/ada"}
    text = "in /home/ada/src and /home/adam/src, file:///home/ada, %2Fhome%2Fada, --home-ada-src--, ada@example.org, xada@example.org"
    assert redacted(text, of_project(tmp_path, environ)) == (text, [])
    clean, _ = redacted(text, of_project(tmp_path, environ, home=True, emails=["ada@example.org"]))
    assert clean == (
        "in <secret:home:1>/src and /home/adam/src, file://<secret:home:1>, <secret:home:1>, <secret:home:2>-src--, "
        "<secret:email:3>, xada@example.org"
    )
    assert redacted("at /", of_project(tmp_path, {"HOME": "/"}, home=True)) == ("at /", [])


def test_a_project_knows_its_sources_also_by_its_store_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("MACHINE_DATA_DIR", str(tmp_path / "data"))
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    (root / ".env").write_text("API_TOKEN=tok-en-value-1\n")
    project = Project.at(root)
    project.make()
    for each in (project, Project(project.folder, project.folder)):
        assert "tok-en-value-1" in each.sources().values
    assert project.sources().key == b""
    assert not (machine_home() / "fingerprint.key").exists()
    key = project.sources(fingerprints=True).key
    assert len(key) == 64
    assert project.sources(fingerprints=True).key == key
    assert (machine_home() / "fingerprint.key").stat().st_mode & 0o777 == 0o600
    assert key.decode() not in repr(project.sources(fingerprints=True))
    assert "tok-en-value-1" not in repr(project.sources())


def test_the_addresses_are_those_that_git_knows(tmp_path, monkeypatch):
    monkeypatch.setenv("MACHINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    subprocess.run(["git", "init", "-q", str(tmp_path / "work")], check=True)
    subprocess.run(["git", "-C", str(tmp_path / "work"), "config", "user.email", "ada@example.org"], check=True)
    project = Project.at(tmp_path / "work")
    assert "ada@example.org" not in project.sources().values
    project.set(redact_email=True)
    assert project.sources().values["ada@example.org"].rule == "email"


def test_each_value_of_a_variable_that_is_set_twice_counts_and_lines_that_set_none_are_named(tmp_path, capfd, caplog):
    (tmp_path / ".env").write_text(
        "A_KEY=old-value-1\nexport A_KEY='new value-2'\nTHIS IS: none\nB_KEY='third-value-3\n"
    )
    found = of_project(tmp_path, {})
    assert set(found.values) == {"old-value-1", "new value-2", "third-value-3"}
    assert found.left_out == (f"{tmp_path / '.env'}: line 3 is no NAME=VALUE (2 such)",)
    assert (*capfd.readouterr(), caplog.text) == ("", "", "")


def test_many_values_that_begin_alike_take_no_time():
    values = {f"{'A' * 16}{number:09d}": Exact("env-x") for number in range(20_000)}
    sources = Sources(values)
    list(sources.spelt)
    began = time.process_time()
    clean, _ = redacted("A" * 20_000 + "000000042", sources)
    assert clean == "A" * (20_000 - 16) + "<secret:env-x:1>"
    assert time.process_time() - began < 5
