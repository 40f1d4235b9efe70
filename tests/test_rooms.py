"""The house keeps its plan: data goes one way, an earlier room never imports a later one, every room says what it is."""

import ast
from pathlib import Path

import pytest

import machine

ROOT = Path(machine.__file__).parent
FOUNDATION = {"errors", "trace", "report", "host", "home", "renderers", "slash", "rpc", "page", "discovery", "plain"}
ORDER = [
    "privacy",
    "store",
    "capture",
    "correction",
    "tinker",
    "sandbox",
    "dataset",
    "training",
    "evals",
    "agentic",
    "release",
    "footer",
    "observe",
    "commands",
]
ENGINE = [
    "faults", "memory", "logs", "models", "life", "training", "sampling", "prepare", "work", "wire", "checkpoints", "samplers",
    "core", "api", "chat", "server",
]  # fmt: skip
DOORS = {"cli", "sidecar", "pi"}
_BESIDES = {"commands": {"engine", "bootstrap"}, "agentic": {"bootstrap"}}
FOUNDATION_MAY = {"errors", "home", "host", "trace", "report"}


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "machine":
            names = [node.module] if node.module != "machine" else [f"machine.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.startswith("machine.")]
        found |= {name.split(".", 1)[1] for name in names if "." in name}
    return found


def allowed(room: str) -> set[str]:
    if room in FOUNDATION:
        return FOUNDATION_MAY | ({"discovery"} if room == "renderers" else set())
    if room == "engine":
        return FOUNDATION | {"store.files"}
    if room in ("bootstrap", "templates"):
        return set()
    if room in DOORS:
        return FOUNDATION | set(ORDER) | DOORS
    earlier = set(ORDER[: ORDER.index(room)])
    return FOUNDATION | earlier | _BESIDES.get(room, set())


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_obey_the_rooms(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    room = parts[0]
    if room == "__init__":
        return
    may = allowed(room)
    for name in imports(file):
        other = name.split(".")[0]
        if other == room:
            continue
        assert other in may or any(name.startswith(m) for m in may if "." in m) or name == "__version__", (
            f"{'.'.join(parts)} may not import machine.{name}"
        )


@pytest.mark.parametrize(
    "room", [p for p in sorted(ROOT.iterdir()) if (p / "__init__.py").exists()], ids=lambda p: p.name
)
def test_every_room_says_what_it_is(room):
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    assert text
    assert len(text) > 40


def test_every_module_has_a_docstring():
    assert [str(f) for f in ROOT.rglob("*.py") if not ast.get_docstring(ast.parse(f.read_text()))] == []


@pytest.mark.parametrize("file", sorted((ROOT / "engine").rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_obey_the_engine_s_own_rooms(file):
    parts = file.relative_to(ROOT / "engine").with_suffix("").parts
    if parts[0] == "__init__":
        return
    used = {name.split(".")[1] for name in imports(file) if name.startswith("engine.")}
    assert used <= set(ENGINE[: ENGINE.index(parts[0]) + 1]) | {parts[0]}
