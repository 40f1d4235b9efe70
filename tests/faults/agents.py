"""Scenarios of Pi and its sidecar: killed, stopped for a while, not read, and two of them on one project."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from ground import Ground, children, gone, until
from survived import Cell, Survived, equal, holds, says, scenario

from pi.harness import Pi, command

SAVED = "Saved as good"


def _sidecar(pi: Pi) -> int:
    """The process id of Pi's sidecar, once it is there."""
    found: list[int] = []
    until(lambda: found or found.extend(children(pi.process.pid)))
    return found[0]


def _answers(ground: Ground) -> list[str]:
    """The last message of each row of the pool."""
    return [row["messages"][-1]["content"] for row in ground.world.rows()]


@scenario("kill -9 of Pi, right after `/good` said saved")
def pi_after_good(ground: Ground) -> Survived:
    with Pi(ground.world) as pi:
        pi.prompt("one")
        sidecar = _sidecar(pi)
        pi.send("prompt", message="/good")
        said = pi.dialog("notify")["message"]
        pi.process.kill()
        pi.process.wait()
    ended = until(lambda: gone(sidecar))
    kept = _answers(ground)
    with Pi(ground.world, "--continue") as pi:
        pi.prompt("/good")
        again = pi.messages()[-1]
        pi.prompt("two")
        pi.prompt("/good")
        pi.prompt("/tagged")
        listed = pi.messages()[-1]
    after = {
        "its sidecar ended": ended,
        "the turn tagged again is one row": "Already tagged" in again and len(ground.world.rows()) == 2,
        "the next turn is saved": _answers(ground)[-1] == "You said: two",
        "both are listed": "2 of 2 rows" in listed,
    }
    return Survived(
        "SIGKILL at the moment that the message came",
        equal("the row is in the pool, once", kept, ["You said: one"]),
        holds(
            "the sidecar ends too; a new Pi goes on with the session: the same turn is one row, the next is saved",
            after,
        ),
        says(said, SAVED, "1 in the pool"),
    )


@scenario("kill -9 of Pi, in the middle of `/good`")
def pi_in_good(ground: Ground) -> Survived:
    moments = (0.0, 0.03, 0.1)
    whole: dict[str, bool] = {}
    said = ""
    for number, moment in enumerate(moments):
        question = f"question {number}"
        with Pi(ground.world) as pi:
            pi.prompt(question)
            _sidecar(pi)
            pi.send("prompt", message="/good")
            time.sleep(moment)
            pi.process.kill()
            pi.process.wait()
            told = any(SAVED in message for message in pi.messages())
        answer = f"You said: {question}"
        time.sleep(0.3)
        whole[f"told saved after {moment} s, so there"] = not told or answer in _answers(ground)
        with Pi(ground.world, "--continue") as pi:
            pi.prompt("/good")
            said = pi.messages()[-1]
        whole[f"tagged again after {moment} s, so there once"] = _answers(ground).count(answer) == 1
    listed = ground.world.shell("tagged", "99")
    return Survived(
        f"SIGKILL {', '.join(f'{moment * 1000:.0f}' for moment in moments)} ms after the command was sent",
        holds("what was told saved is there; no half row", whole),
        equal("a new Pi tags the same turn: each is there once", len(listed["data"]["rows"]), len(moments)),
        Cell(
            "`Saved as good`, or `Already tagged` where the first had got so far",
            said.startswith((SAVED, "Already tagged")),
            said,
        ),
    )


@scenario("kill -9 of the sidecar, in the middle of a command")
def sidecar_in_command(ground: Ground) -> Survived:
    with Pi(ground.world) as pi:
        pi.prompt("one")
        pi.prompt("/good")
        before = _sidecar(pi)
        start = len(pi.records)
        os.kill(before, signal.SIGSTOP)  # so that the command is surely under way
        pi.send("prompt", message="/good --note again")
        time.sleep(0.3)
        os.kill(before, signal.SIGKILL)
        said = pi.dialog("notify", start)["message"]
        pi.prompt("/good --note again")
        pi.prompt("/tagged")
        listed = pi.messages()[-1]
        after = {
            "it is another process": _sidecar(pi) != before,
            "the command works": "1 of 1 rows" in listed and len(ground.world.rows()) == 2,
            "Pi answers": bool(pi.prompt("still there?")["success"]),
        }
    rows = ground.world.rows()
    return Survived(
        "SIGKILL while `/good --note` was under way",
        equal("the row saved before is in the pool", rows[0]["messages"][-1]["content"], "You said: one"),
        holds("the next slash command starts a new sidecar and works; Pi answers", after),
        says(said, "SIGKILL", "Next: "),
    )


@scenario("kill -9 of the sidecar, while a dialog of `/correction` is open")
def sidecar_in_dialog(ground: Ground) -> Survived:
    with Pi(ground.world, answers={"select": [None, {"cancelled": True}]}) as pi:
        pi.prompt("run: echo wrong")
        start = len(pi.records)
        pi.send("prompt", message="/correction it printed the wrong line")
        pi.dialog("select", start)
        os.kill(_sidecar(pi), signal.SIGKILL)
        said = pi.wait(lambda r: r.get("method") == "notify" and "SIGKILL" in r["message"], start=start)["message"]
        opened = ground.world.shell("corrections")
        pi.prompt("/correction --resume")
        resumed = pi.messages()[-1]
    kept = {
        "the bad row": [row["tag"] for row in ground.world.rows()] == ["bad"],
        "the open correction": len(opened["data"]["corrections"]) == 1,
    }
    return Survived(
        "SIGKILL while the user was being asked for a reasoning",
        holds("the bad row and the open correction are there", kept),
        Cell("`/correction --resume` goes on with it", "goes on" in resumed, resumed),
        says(said, "SIGKILL", "Next: "),
    )


@scenario("two Pis on one project, which tag at the same time")
def two_pis(ground: Ground) -> Survived:
    turns = 6
    told: list[list[str]] = [[], []]

    def work(number: int) -> None:
        with Pi(ground.world) as pi:
            for turn in range(turns):
                pi.prompt(f"Pi {number}, turn {turn}")
                pi.prompt("/good")
            told[number] = [message for message in pi.messages() if SAVED in message]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = sorted(f"You said: Pi {number}, turn {turn}" for number in range(2) for turn in range(turns))
    [file, *_] = sorted(ground.world.agent.rglob("sessions/*/*.jsonl"))
    both = [ground.start("good", "--session", str(file), "--note", "twice") for _ in range(2)]
    ends = [process.communicate(timeout=60)[0] + str(process.returncode) for process in both]
    rows = [row for row in ground.world.rows() if row.get("note") == "twice"]
    ids = {row["id"] for row in ground.world.rows()}
    after = {
        "one of them added it, the other found it there": sum("Already tagged" in end for end in ends) == 1,
        "there once": len(rows) == 1,
        "no id twice": len(ids) == len(ground.world.rows()),
    }
    return Survived(
        f"{turns} turns each, tagged as fast as they came; then one turn tagged by two commands at once",
        equal("all that was told saved is there, none twice", sorted(_answers(ground)[: 2 * turns]), wanted),
        holds("the same turn tagged by both at once is one row", after),
        equal(f"`{SAVED}` each time", [len(each) for each in told], [turns, turns]),
    )


@scenario("sleep and resume of Pi, in the middle of `/good`", slow=True)
def pi_sleeps(ground: Ground) -> Survived:
    return _asleep(ground, lambda pi: pi.process.pid)


@scenario("sleep and resume of the sidecar, in the middle of `/good`")
def sidecar_sleeps(ground: Ground) -> Survived:
    return _asleep(ground, _sidecar)


def _asleep(ground: Ground, whose: Callable[[Pi], int]) -> Survived:
    with Pi(ground.world) as pi:
        pi.prompt("one")
        pid = whose(pi)
        os.kill(pid, signal.SIGSTOP)
        asked = pi.send("prompt", message="/good")
        time.sleep(3)
        slept = _answers(ground)
        os.kill(pid, signal.SIGCONT)
        pi.wait(lambda r: r["type"] == "response" and r.get("id") == asked)
        said = pi.messages()[-1]
        kept = _answers(ground)
        pi.prompt("two")
        pi.prompt("/good")
    return Survived(
        "SIGSTOP, `/good`, 3 s, SIGCONT",
        equal("the row is in the pool, once", (slept, kept), ([], ["You said: one"])),
        equal("the next turn is saved", _answers(ground), ["You said: one", "You said: two"]),
        says(said, SAVED, "1 in the pool"),
    )


@scenario("a full pipe: a client of Pi that does not read")
def pi_unread(ground: Ground) -> Survived:
    pipe = subprocess.PIPE
    words = command("--mode", "rpc")
    process = subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=ground.world.project, env=ground.env, text=True
    )
    long = "x" * 30_000
    asked = [f'{{"id": "a{n}", "type": "prompt", "message": "{long} {n}"}}' for n in range(6)]
    asked += [
        '{"id": "g", "type": "prompt", "message": "/good"}',
        '{"id": "t", "type": "prompt", "message": "/tagged"}',
    ]
    assert process.stdin is not None
    assert process.stdout is not None
    lines: list[str] = []
    try:
        process.stdin.write(asked[0] + "\n")
        process.stdin.flush()
        time.sleep(4)  # Pi's answer is more than a pipe holds: it waits for its reader
        reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
        reader.start()
        until(lambda: any('"agent_settled"' in line for line in lines))
        for line, end in zip(asked[-2:], ('"g"', '"t"'), strict=True):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            until(lambda end=end: any(f'"id":{end}' in each for each in lines))
        process.stdin.close()
        process.wait(10)
        reader.join(5)
    finally:
        process.kill()
        process.wait()
    said = next((line for line in lines if SAVED in line), "")
    listed = next((line for line in lines if "of 1 rows" in line), "")
    return Survived(
        "4 s without a reader, and more said than a pipe holds",
        equal(
            "the row is in the pool, whole", [len(answer) for answer in _answers(ground)], [len(f"You said: {long} 0")]
        ),
        Cell("once it is read, it goes on: `/good` and `/tagged` work", "1 of 1 rows" in listed, listed[:200]),
        says(said[:400], SAVED),
    )
