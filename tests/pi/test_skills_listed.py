"""Machine's skills in the real Pi: listed, told to the model, and without a warning."""

import html
import shutil

import pytest

from pi.harness import PACKAGE, Pi, Terminal, World

NAMES = ["machine", "tinker-debug", "tinker-research"]


@pytest.fixture
def copied(tmp_path, server):
    """A world with a copy of the package, to be changed."""
    package = tmp_path / "package"
    for part in ("extension", "src", "skills"):
        shutil.copytree(PACKAGE / part, package / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE / "package.json", package)
    return World(tmp_path, server.pi_models(), package=package)


def test_pi_lists_the_skills_and_tells_the_model_of_them(world, server):
    with Pi(world) as pi:
        listed = pi.request("get_commands")["data"]["commands"]
        pi.prompt("Capital of France?")
    skills = {each["name"]: each for each in listed if each["source"] == "skill"}
    assert sorted(skills) == [f"skill:{name}" for name in NAMES]
    for name in NAMES:
        told = skills[f"skill:{name}"]
        assert told["sourceInfo"]["path"] == str(PACKAGE / "skills" / name / "SKILL.md")
        prompt = html.unescape(server.requests[-1]["messages"][0]["content"])
        assert f"<name>{name}</name>" in prompt
        assert told["description"] in prompt


def test_pi_warns_of_none_of_them(world):
    with Terminal(world) as pi:
        pi.wait("[Skills]")
        pi.wait("tinker-research")
        pi.type("/machine footer")
        pi.wait("Machine's part of Pi's footer")
        assert "[Skill warnings]" not in pi.seen


def test_a_skill_that_pi_would_warn_of_is_seen(copied):
    file = copied.package / "skills" / "machine" / "SKILL.md"
    file.write_text(file.read_text("utf-8").replace("name: machine", "name: Machine!"), "utf-8")
    with Terminal(copied) as pi:
        pi.wait("[Skill warnings]")
        pi.wait("invalid characters")
