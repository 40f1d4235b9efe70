"""Skills and documents: their front matter is Pi's, their commands and options exist, their JSON fields are real."""

import dataclasses
import inspect
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
import yaml

import runpages
from machine.bootstrap import PACKAGE
from machine.cli import ShellHost
from machine.commands import evaluate, root, run, train
from machine.correction.ledger import Ledger, Opened, new_id
from machine.evals.evaluation import Evaluation
from machine.evals.record import read_record
from machine.slash import OWN, argv
from machine.store.project import Project
from machine.tinker.checkpoints import Held
from machine.training import loop
from students import questions

SKILLS = sorted((PACKAGE / "skills").glob("*/SKILL.md"))
DOCUMENTS = sorted(
    {*SKILLS, *(PACKAGE / "docs").rglob("*.md"), PACKAGE / "README.md", *(PACKAGE / "examples").rglob("README.md")}
)
NAMES = {"machine", "tinker-research", "tinker-debug"}
FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools", "disable-model-invocation"}
MOST_LINES = 150
VALUES = {"ID": "c_1", "N": "1", "VALUE": "1"}
"""What stands for a word in capitals where a number or an id is asked for; any other word is itself."""


@dataclass(frozen=True)
class Found:
    """A command line of a document. `named`: what it takes may be left out, as in running text and in `[...]`."""

    file: Path
    line: int
    text: str
    named: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(PACKAGE)}:{self.line}: {self.text}"


def command_lines(file: Path) -> list[Found]:
    """Every command of the file: in fences, indented blocks, and code in running text, which may go over a line's end."""
    found, prose, fence, language = [], [], "", ""
    is_usage = file == PACKAGE / "docs" / "commands.md"
    text = re.sub(r"\A---\n.*?\n---\n", lambda m: "\n" * m[0].count("\n"), file.read_text("utf-8"), flags=re.DOTALL)
    for number, line in enumerate(text.split("\n"), 1):
        opened = re.match(r"\s*(`{3,})(\w*)", line)
        if opened and (not fence or opened[1] == fence):
            fence, language = ("", "") if fence else (opened[1], opened[2])
            prose.append("")
        elif fence or line.startswith("    "):
            prose.append("")
            if language in ("", "sh"):
                found += [
                    Found(file, number, part, named=is_usage or bool(re.search(r"\[|\.\.\.$", part)))
                    for part in parts(line)
                ]
        else:
            prose.append(line)
    running = "\n".join(prose)
    for span in re.finditer(r"(?<!`)`([^`]+)`(?!`)", running):
        number = running.count("\n", 0, span.start()) + 1
        code = " ".join(span[1].replace("\\|", "|").split())
        found += [Found(file, number, part, named=True) for part in parts(code)]
    return found


def parts(line: str) -> Iterator[str]:
    """The commands in a line of code, each without what is said of it: columns stand two spaces apart, `#` ends them."""
    for column in re.split(r"\s{2,}", re.sub(r"(^|\s)#\s.*", "", line).strip()):
        column = re.sub(r"\[[^\]]*\]", lambda m: m[0].replace(" | ", "|"), column)
        if re.match(r"/[a-z-]+(?![\w./:-])", column):
            yield from re.split(r",\s+(?=/)", column)
        else:
            for each in re.split(r"\s[|;]\s|&&|\$\(|\)", column):
                if called := re.match(r"(?:\S*/)?machine (?=\S)(.*)", each.strip()):
                    yield f"machine {called[1]}"


def spelt_out(text: str) -> list[list[str]]:
    """The words of a line in each way that it can be meant: `a|b` is a or b, `[c]` is c, `...` is nothing."""
    words = argv(*text[1:].partition(" ")[::2]) if text.startswith("/") else shlex.split(text)[1:]
    lines: list[list[str]] = [[]]
    for word in words:
        word = word if " " in word else word.strip("[]").removesuffix("...").rstrip("[],")
        choices = [word] if re.search(r"\s", word) else [choice for choice in word.split("|") if choice]
        lines = [[*line, choice] for line in lines for choice in choices] or lines
    return lines


def fault(words: list[str], named: bool) -> str:
    """What click says of a command line; empty: nothing. No command is run."""
    words = [VALUES.get(word, word) for word in words if word not in ("--json", "--help")]
    if words == ["WORDS"]:
        return ""  # any of them
    command: click.Command = root
    context = click.Context(root, info_name="machine")
    try:
        while isinstance(command, click.Group):
            context = command.make_context(context.info_name, words or ["--"], parent=context.parent)
            words = [*context._protected_args, *context.args]
            if not words or words == ["--"]:
                return "" if named or command.invoke_without_command else "a group, no command"
            name, found, words = command.resolve_command(context, words)
            assert found is not None
            command, context = found, click.Context(found, info_name=name, parent=context)
        command.make_context(context.info_name, words, parent=context.parent)
    except click.MissingParameter as error:
        return "" if named else error.format_message()
    except click.BadOptionUsage as error:  # an option that is spoken of, without its value
        return "" if named and "requires an argument" in error.message else error.format_message()
    except click.ClickException as error:
        return error.format_message()
    return ""


def slash_names() -> tuple[set[str], set[str]]:
    """Machine's slash commands, as the extension registers them, and Pi's own."""
    ours = re.findall(r"^\t(\w+): \{$", (PACKAGE / "extension" / "commands.ts").read_text("utf-8"), re.MULTILINE)
    core = PACKAGE / "node_modules" / "@earendil-works" / "pi-coding-agent" / "dist" / "core" / "slash-commands.js"
    return set(ours), set(re.findall(r'name: "([\w-]+)"', core.read_text("utf-8")))


def wrong(found: Found) -> Iterator[str]:
    ours, pis = slash_names()
    name = found.text[1:].split(" ")[0]
    if found.text.startswith("/") and name not in ours:
        if name not in pis:
            yield f"{found}: neither Machine nor Pi has /{name}"
        return
    for words in spelt_out(found.text):
        if said := fault(words, found.named):
            yield f"{found}: {said}"


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_every_command_line_is_one_that_machine_understands(file):
    assert [said for found in command_lines(file) for said in wrong(found)] == []


def test_command_lines_are_found_where_they_stand(tmp_path):
    file = tmp_path / "x.md"
    file.write_text(
        "Say `machine train\nvalidate` or `/good`, not `/tmp/x` nor `machine`.\n\n"
        "    /train sft      machine train sft      writes\n\n"
        "```sh\nexport A=$(machine engine status --json | cat)  # machine nothing\n.venv/bin/machine data\n```\n"
        "```json\n/nothing\n```\n"
    )
    assert [(found.line, found.text) for found in command_lines(file)] == [
        (4, "/train sft"),
        (4, "machine train sft"),
        (7, "machine engine status --json"),
        (8, "machine data"),
        (1, "machine train validate"),
        (2, "/good"),
    ]


@pytest.mark.parametrize(
    ("text", "named", "says"),
    [
        ("machine train validte", True, "No such command"),
        ("machine train run --epoch 3", True, "No such option"),
        ("machine auto on|of", True, "'of' is not one of"),
        ("machine engine start --device cpu|gpu", False, "'gpu' is not one of"),
        ("/tagged --tag god", True, "is not one of"),
        ("/trian run", True, "neither Machine nor Pi"),
        ("/machine train|tran", True, "No such command"),
        ("machine train eval baseline --samples none", False, "not a valid integer"),
        ("machine tinker use", False, "Missing argument"),
        ("machine train", False, "a group"),
        ("machine data now", True, "unexpected extra argument"),
    ],
)
def test_a_wrong_command_line_is_seen(text, named, says):
    assert says in "; ".join(wrong(Found(PACKAGE / "x.md", 1, text, named)))


@pytest.mark.parametrize(
    "text", ["/machine auto [on|off]", "/corrections [ID|export|drop]", "/tagged [N|ID]", "machine train eval init --from FILE", "/train ..."]
)  # fmt: skip
def test_a_right_one_is_let_pass(text):
    assert list(wrong(Found(PACKAGE / "x.md", 1, text, True))) == []


def options() -> set[str]:
    """Every option of every command."""

    def of(command: click.Command) -> Iterator[str]:
        for parameter in command.params:
            yield from parameter.opts
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                found = command.get_command(click.Context(command), name)
                assert found is not None
                yield from of(found)

    return {*of(root), "--json", "--help"}


@pytest.mark.parametrize("file", SKILLS, ids=lambda file: file.parent.name)
def test_an_option_that_a_skill_speaks_of_exists(file):
    spoken = re.findall(r"`(--[\w-]+)", file.read_text("utf-8"))
    assert spoken
    assert set(spoken) <= options()


@pytest.mark.parametrize("file", SKILLS, ids=lambda file: file.parent.name)
def test_front_matter_is_what_pi_takes(file):
    _, front, body = file.read_text("utf-8").split("---\n", 2)
    fields = yaml.safe_load(front)
    assert set(fields) <= FIELDS
    assert fields["name"] == file.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert len(fields["name"]) <= 64
    assert 0 < len(fields["description"]) <= 1024
    assert "Use " in fields["description"] or "Read this" in fields["description"]  # when, not only what
    assert len(file.read_text("utf-8").splitlines()) <= MOST_LINES
    assert set(re.findall(r"the skills? `([\w-]+)`", body)) <= NAMES


def test_the_package_names_its_skills():
    manifest = json.loads((PACKAGE / "package.json").read_text("utf-8"))
    assert manifest["pi"]["skills"] == ["./skills"]
    assert "skills" in manifest["files"]
    assert {file.parent.name for file in SKILLS} == NAMES


def fields_told() -> dict[str, list[tuple[str, list[str]]]]:
    """The table of JSON fields in the skill: by command, each field with those of its items."""
    told = {}
    text = (PACKAGE / "skills" / "machine" / "SKILL.md").read_text("utf-8")
    for command, cell in re.findall(r"^\| `(machine [^`|]+)` \| (.*`.*) \|$", text, re.MULTILINE):
        items = re.findall(r"`([a-z_]+)`(?: \(each ([^)]*)\))?", re.sub(r"\((?!each)[^)]*\)", "", cell))
        told[command] = [(name, re.findall(r"`([a-z_]+)`", each)) for name, each in items if name != "running"]
    return told


def lacking(command: str, data: dict) -> list[str]:
    """Fields that the skill tells of `command`, and that `data` has not."""
    told = fields_told()[command]
    assert told
    absent = [f"{command}: {name}" for name, _ in told if name not in data]
    for name, inner in told:
        value = data.get(name)
        item = value[0] if isinstance(value, list | tuple) and value else value
        absent += [f"{command}: {name}.{field}" for field in inner if not isinstance(item, dict) or field not in item]
    return absent


@pytest.fixture
def pool(tmp_path, monkeypatch):
    folder = tmp_path / "app"
    folder.mkdir()
    monkeypatch.chdir(folder)
    project = Project.at(folder)
    project.make()
    for each in questions(6):
        project.pool.append(each)
    return project


def answered(*words: str) -> dict:
    """The data of a command that is run."""
    return run([*words], ShellHost(quiet=True)).data


def test_the_fields_of_what_needs_no_service(pool):
    row = next(pool.pool.rows())
    opened = Opened(
        correction=new_id(), rows=(row.id,), session="s", entries=("e",), question="q", words="", answer=None
    )
    Ledger(pool).append(opened)
    pool.refused("good", "why")
    commands = ["data", "tagged", "corrections", "auto", "doctor"]
    assert [said for word in commands for said in lacking(f"machine {word}", answered(word))] == []
    assert {"messages", "tools", "target", "edits", "source", "correction"} <= answered("tagged", row.id).keys()
    assert {"id", "state", "events"} <= answered("corrections", opened.correction).keys()


def test_the_fields_of_what_asks_the_service(service, engine, pool):
    given = {"use": [engine.model, "greeter"]}
    lines = ["tinker status", "tinker models", "tinker use latest", "tinker list", "train validate", "train sft"]
    absent = []
    for line in lines:
        words = line.removesuffix(" latest").split()
        absent += lacking(f"machine {line}", answered(*words, *given.get(words[-1], [])))
    held = dataclasses.asdict(Held("tinker://a/sampler_weights/b", "sampler", "now", 1))
    absent += lacking("machine tinker checkpoints", {"checkpoints": [held]})
    assert absent == []


def test_the_fields_of_an_engine_that_runs(engine, tmp_path, monkeypatch):
    (tmp_path / "engine").symlink_to(engine.home)
    monkeypatch.setenv("MACHINE_DATA_DIR", str(tmp_path))
    found = answered("engine", "status")
    assert found["running"] is True
    assert lacking("machine engine status", found) == []


def test_the_fields_of_runs_and_evaluations(pool):
    done, cases = runpages.trained(pool.folder), [runpages.case("c", "2 + 2?")]
    runpages.evaluated(done, cases, [("4", False)], [("ANSWER: 4.", True)])
    suite = answered("train", "eval", "init")  # refused: it is there
    assert "already there" in suite["error"]
    reported = train._trained(done, []).data
    assert lacking("machine train runs", answered("train", "runs")) == []
    made_here = ("page", "metrics.learning_rate")  # the page is written by the command, the rate by its loop
    assert [each for each in lacking("machine train run --yes", reported) if not each.endswith(made_here)] == []
    assert '"learning_rate": ' in inspect.getsource(loop)
    record = Evaluation(read_record(pool.evals, "baseline"))
    asked = evaluate._answered(pool, record, cases, "").data
    assert lacking("machine train eval baseline --yes", asked) == []
    compared = answered("train", "eval", "compare")
    assert lacking("machine train eval compare", compared) == []
    assert "page" in compared


def test_the_fields_of_a_suite_that_is_written(service, pool, tmp_path):
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"prompt": "What is 40 plus one?", "expected": "ANSWER: 41."}\n')
    answered("train", "sft")
    made = answered("train", "eval", "init", "--from", str(cases), "--scorer", "exact")
    assert lacking("machine train eval init", made) == []


def test_slash_commands_are_those_of_the_extension():
    assert slash_names()[0] == {*OWN, "machine"}
