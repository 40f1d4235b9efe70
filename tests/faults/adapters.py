"""Scenarios of the engine's checkpoints: half copied, and saved to a disk that is full."""

import shutil
from collections.abc import Callable
from pathlib import Path

from ground import Ground
from smalldisk import FULL, small_disk, sweep
from survived import Cell, Survived, equal, holds, scenario

from engine.raw import Model, result
from fixtures_engine import RunningEngine

WEIGHTS, CONFIG, OPTIMIZER, META = (
    "adapter_model.safetensors",
    "adapter_config.json",
    "optimizer.safetensors",
    "checkpoint.json",
)


def _running(ground: Ground) -> RunningEngine:
    found = ground.engine()
    key = (ground.engine_state / "key").read_text()
    return RunningEngine(found.url, key, ground.engine_state, found.model, found.model_path)


def _trained(engine: RunningEngine) -> Model:
    """A model after one step."""
    model = Model(engine)
    assert result(engine, model.learn()[1])["loss:sum"] > 0
    assert "metrics" in result(engine, model.step()[1])
    return model


def _cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _zeros(path: Path) -> None:
    """As long as it was, with nothing in its second half: a copy whose room was made before its bytes came."""
    data = path.read_bytes()
    half = max(len(data) // 2, 8 + int.from_bytes(data[:8], "little"))
    path.write_bytes(data[:half] + bytes(len(data) - half))


HALVES: dict[str, Callable[[Path], None]] = {
    "weights.cut": lambda folder: _cut(folder / WEIGHTS),
    "weights.zeros": lambda folder: _zeros(folder / WEIGHTS),
    "weights.gone": lambda folder: (folder / WEIGHTS).unlink(),
    "config.cut": lambda folder: _cut(folder / CONFIG),
    "config.gone": lambda folder: (folder / CONFIG).unlink(),
    "optimizer.cut": lambda folder: _cut(folder / OPTIMIZER),
    "optimizer.zeros": lambda folder: _zeros(folder / OPTIMIZER),
    "optimizer.gone": lambda folder: (folder / OPTIMIZER).unlink(),
    "facts.cut": lambda folder: _cut(folder / META),
    "facts.gone": lambda folder: (folder / META).unlink(),
    "two.of.four": lambda folder: [(folder / name).unlink() for name in (WEIGHTS, META)] and None,
    "empty": lambda folder: [file.unlink() for file in folder.iterdir()] and None,
}


@scenario("a half-copied checkpoint: a file cut, of zeros, or gone")
def half_copied(ground: Ground) -> Survived:
    engine = _running(ground)
    model = _trained(engine)
    path = result(engine, model.ask("save_weights", path="whole")[1])["path"]
    whole = ground.engine_state / "checkpoints" / path.removeprefix("tinker://")
    before = {file.name: file.read_bytes() for file in whole.iterdir()}
    answers: dict[str, str] = {}
    for name, damage in HALVES.items():
        shutil.copytree(whole, whole.with_name(name))
        damage(whole.with_name(name))
        status, asked = model.ask("load_weights", path=path.replace("whole", name), optimizer=True)
        said = result(engine, asked) if status == 200 else asked
        answers[name] = str(said.get("error") or said.get("detail") or f"LOADED {said}")
    unnamed = {name: said for name, said in answers.items() if name not in said and not said.startswith("LOADED")}
    loaded = sorted(name for name, said in answers.items() if said.startswith("LOADED"))
    again = result(engine, model.ask("load_weights", path=path, optimizer=True)[1])
    after = {
        "the whole one is loaded": again.get("path") == path,
        "training goes on": result(engine, model.learn()[1]).get("loss:sum", 0) > 0,
    }
    return Survived(
        f"a checkpoint copied {len(HALVES)} times, each half in another way, and asked for",
        Cell(
            "the whole one is as it was; none of the others is loaded",
            not loaded and {file.name: file.read_bytes() for file in whole.iterdir()} == before,
            loaded,
        ),
        holds("the engine loads the whole one, and trains on", after),
        Cell("each refusal names the checkpoint, and what is wrong with it", not unnamed, unnamed),
    )


@scenario("a full disk, at each write of the engine's checkpoint")
def disk_checkpoint(ground: Ground) -> Survived:
    with small_disk(ground.engine_state, 8 << 20) as disk:
        engine = _running(ground)
        model = _trained(engine)
        path = result(engine, model.ask("save_weights", path="state")[1])["path"]
        folder = ground.engine_state / "checkpoints" / path.removeprefix("tinker://")
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        result(engine, model.learn()[1])
        result(engine, model.step()[1])
        refusals: list[str] = []
        spoilt: list[str] = []

        def attempt(options: object) -> bool:
            said = result(engine, model.ask("save_weights", path="state")[1])
            if "error" not in said:
                return True
            refusals.append(said["error"])
            found = {file.name: file.read_bytes() for file in folder.iterdir()}
            left = [str(each) for each in folder.parent.glob(".*")]
            spoilt.extend(["another checkpoint"] * (found != before) + left)
            return False

        sweep(disk, attempt, most=1200, step=40)
        new = {file.name: file.read_bytes() for file in folder.iterdir()}
        loaded = result(engine, model.ask("load_weights", path=path, optimizer=True)[1])
        trained = result(engine, model.learn()[1])
        ground.kill_engine()
    bad = [said for said in refusals if not any(word in said for word in FULL) or "free space" not in said]
    return Survived(
        f"the disk filled up but for 0, 40, 80 … pages until it was saved ({len(refusals)} times it was not)",
        equal("the old checkpoint is there, whole, and nothing beside it", spoilt, []),
        holds(
            "with space again the new one replaces it, is loaded, and training goes on",
            {
                "new": new[WEIGHTS] != before[WEIGHTS],
                "loaded": loaded.get("path") == path,
                "trained": trained.get("loss:sum", 0) > 0,
            },
        ),
        Cell(f"`{FULL[0]} on device (free space on the disk …)`", not bad and bool(refusals), bad[:2]),
    )
