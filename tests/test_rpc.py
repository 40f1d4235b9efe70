import os
import threading

import pytest

from machine.rpc import GONE, INTERNAL, UNKNOWN_METHOD, Peer, RpcError


@pytest.fixture
def pair():
    """Two peers, each the other's other end, and what each serves (filled in by the test)."""
    here, there = os.pipe(), os.pipe()
    ends = [(here[0], there[1]), (there[0], here[1])]
    peers = [Peer(os.fdopen(read, "rb"), os.fdopen(write, "wb")) for read, write in ends]
    served: list[dict] = [{}, {}]
    for peer, methods in zip(peers, served, strict=True):

        def handle(method, params, methods=methods):
            if method not in methods:
                raise RpcError(UNKNOWN_METHOD, f"unknown method {method}")
            return methods[method](**params)

        threading.Thread(target=peer.serve, args=(handle,), daemon=True).start()
    return peers, served


@pytest.mark.parametrize(
    "text", ["plain", "\u2028 and \u2029 and \x85", "\U0001f600", "\ud83d alone", "a\nb\r\n", "x" * 3_000_000]
)
def test_text_comes_through_as_it_was(pair, text):
    (here, _), (_, served) = pair
    served["echo"] = lambda text: text
    assert here.call("echo", text=text) == text


def test_calls_nest_both_ways(pair):
    (here, there), (mine, theirs) = pair
    mine["name"] = lambda: "Ada"
    theirs["greet"] = lambda: f"hello {there.call('name')}"
    assert here.call("greet") == "hello Ada"


def test_a_refusal_and_a_fault_reach_the_caller(pair, capsys):
    (here, _), (_, served) = pair
    served["boom"] = lambda: {}["missing"]
    served["leave"] = lambda: exit(3)
    for method, code in [("nothing", UNKNOWN_METHOD), ("boom", INTERNAL), ("leave", INTERNAL)]:
        with pytest.raises(RpcError) as fault:
            here.call(method)
        assert fault.value.code == code
    assert "KeyError" in capsys.readouterr().err


def test_calls_that_wait_can_be_failed_and_later_ones_work(pair):
    (here, _), (_, served) = pair
    asked, answer = threading.Event(), threading.Event()
    served["dialog"] = lambda: asked.set() or answer.wait(10)
    served["quick"] = lambda: 1
    faults = []

    def ask():
        try:
            here.call("dialog")
        except RpcError as error:
            faults.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert asked.wait(5)
    here.fail_waiting("the session was replaced")
    asking.join(5)
    assert [fault.code for fault in faults] == [GONE]
    answer.set()  # the late answer is for nobody
    assert here.call("quick") == 1
