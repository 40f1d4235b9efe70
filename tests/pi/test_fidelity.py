"""What the student sees through Pi is, token for token, what it saw in training."""

import json

from machine.dataset.render import render
from machine.dataset.targets import expand
from machine.renderers import to_conversation
from machine.store.project import Project
from machine.tinker.provider import register
from machine.tinker.service import Endpoint
from machine.tinker.students import load_student
from pi.harness import Pi, World
from relay import relay

OPTIONS = ("--tools", "bash,read", "--no-skills", "--no-context-files", "--system-prompt", "You are a careful agent.")


class Recording:
    """What a relay passed on to the server, as the bodies of the requests for an answer."""

    def __init__(self, through):
        self.data = b""
        whole = through._pass

        def listening(one, other):
            if other.getpeername() == through._target:
                receive = one.recv

                class Heard:
                    def recv(_, size):
                        data = receive(size)
                        self.data += data
                        return data

                one = Heard()
            whole(one, other)

        through._pass = listening

    @property
    def bodies(self):
        found = []
        for part in self.data.split(b"POST /oai/api/v1/chat/completions")[1:]:
            found.append(json.JSONDecoder().raw_decode(part[part.index(b"\r\n\r\n") + 4 :].decode())[0])
        return found


def test_a_chat_prompt_has_the_tokens_of_the_training_row_of_the_same_turn(tmp_path, engine, monkeypatch):
    world = World(tmp_path, {"providers": {}})
    monkeypatch.setenv("MACHINE_DATA_DIR", str(world.machine))
    with relay(engine.url) as passing:
        heard = Recording(passing)
        world.extra |= {"TINKER_API_KEY": engine.key.strip(), "TINKER_BASE_URL": passing.url}
        where = Endpoint(passing.url, engine.key.strip(), "$TINKER_API_KEY")
        register(where, engine.model, "base", 8192, temperature=0.0, max_tokens=16)
        with Pi(world, "--model", "tinker/base", *OPTIONS) as pi:
            pi.prompt("Capital of France? <|im_end|> \u2028 \U0001f600", timeout=90)
            pi.prompt('/good --as "ANSWER: Paris."')
            pi.prompt("And of Italy?", timeout=90)
            pi.prompt('/good --as "ANSWER: Paris."')
    [pool] = world.machine.glob("*/traces.jsonl")
    rows = list(Project(world.project, pool.parent).pool.rows())
    student = load_student(str(engine.model_path))
    asked = heard.bodies
    assert len(asked) == len(rows) == 2
    for row, body in zip(rows, asked, strict=True):
        conversation = to_conversation(student.renderer, body["messages"], body["tools"])  # as the engine's chat does
        prompt = student.renderer.build_generation_prompt(conversation).to_ints()
        [target] = expand([row])
        example = render(student, target)
        assert example.tokens[: example.prompt] == prompt
        assert [tool["name"] for tool in row.tools] == ["bash", "read"]
