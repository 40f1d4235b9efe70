"""The whole loop with the engine, as a process of its own: tag, validate, train, measure, chat. Prints what came of it.

    python home_loop.py PROJECT-FOLDER

It is the smallest loop there is: one step, one case, one answer of a few tokens.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

from machine import discovery
from machine.cli import ShellHost
from machine.commands import run
from machine.evals import retention
from machine.home import engine_dir
from machine.store.project import Project
from students import questions


def main() -> None:
    folder = sys.argv[1]
    os.chdir(folder)
    cases, passages = retention.built_in_cases(), retention.built_in_passages()
    retention.built_in_cases = lambda: [next(case for case in cases if not case.tools)]
    retention.built_in_passages = lambda: dict(list(passages.items())[:1])
    project = Project.at(Path(folder))
    project.make()
    for row in questions(2):
        project.pool.append(row)
    done = {}
    machine("engine", "start")
    try:
        done["validate"] = machine("train", "validate")["verdict"]
        machine("train", "sft", "--rank", "2")
        done["trained"] = machine("train", "run", "--yes", "--steps", "1")["state"]["step"]
        asked = project.folder / "asked.jsonl"
        asked.write_text(json.dumps({"prompt": "Is it late?", "expected": "Yes"}) + "\n")
        machine("train", "eval", "init", "--from", str(asked))
        checked = machine("train", "eval", "checkpoint", "--max-tokens", "2", "--yes")
        done["cases"], done["chat"] = checked["cases"], chat(checked["path"])
    finally:
        machine("engine", "stop")
    print(json.dumps(done))


def machine(*words: str) -> dict:
    report = run([*words], ShellHost(quiet=True))
    assert report.exit_code == 0, f"{words}: {report.title} ({report.next_step})"
    return report.data


def chat(model: str) -> int:
    """How many tokens the engine answers with."""
    found, key = discovery.read(engine_dir()), discovery.key(engine_dir())
    body = {"model": model, "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"{found.url}/oai/api/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


if __name__ == "__main__":
    main()
