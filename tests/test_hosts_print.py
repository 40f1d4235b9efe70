"""What a host prints or shows is spelt out, whoever wrote it: no text of a session steers a terminal or Pi."""

import sys

from machine.cli import ShellHost
from machine.sidecar.host import PiHost

HOSTILE = "a\x1b[2J\x1b]52;c;eA==\x07\u202eb\x9b1m\rc"
SPELT = "a\\x1b[2J\\x1b]52;c;eA==\\x07\\u202eb\\x9b1m\\x0dc"


class Peer:
    """Pi's end of the wire: keeps what it is told, and chooses the last option."""

    def __init__(self):
        self.told = []

    def call(self, method, **params):
        self.told.append((method, params))
        if method == "ui.select":
            return params["options"][-1]
        return {"cwd": "/", "hasUI": True} if method == "session.info" else params.get("prefill")


def test_a_shell_prints_no_control_character(capsys, monkeypatch):
    host = ShellHost()
    host.notify(HOSTILE)
    host.progress(HOSTILE)
    monkeypatch.setattr("builtins.input", lambda prompt: print(prompt, file=sys.stderr) or "1")
    monkeypatch.setattr(ShellHost, "interactive", True)
    host.confirm(HOSTILE, HOSTILE)
    host.input(HOSTILE, HOSTILE)
    assert host.select(HOSTILE, [HOSTILE]) == HOSTILE
    said = capsys.readouterr()
    assert said.err.count(SPELT) == 8
    assert not set("\x1b\x07\u202e\x9b\r") & set(said.err + said.out)


def test_pi_is_told_no_control_character(monkeypatch):
    peer = Peer()
    host = PiHost(peer, "ctx")
    host.notify(HOSTILE)
    host.progress(HOSTILE, [HOSTILE])
    host.confirm(HOSTILE, HOSTILE)
    host.input(HOSTILE, HOSTILE)
    assert host.select(HOSTILE, ["other", HOSTILE]) == HOSTILE
    assert host.editor(HOSTILE, HOSTILE) == SPELT
    assert str(peer.told).count(repr(SPELT)) == 11
    assert repr(HOSTILE) not in str(peer.told)
