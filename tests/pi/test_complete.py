"""One answer of a model outside the session, through the real Pi."""

from pi.harness import Pi
from pi.teacher import TEACHER, answer, ask, write


def question(text, **more):
    return {"system": "Be brief.", "said": [["user", text]], **more}


def test_an_answer_with_its_model_tokens_and_cost_and_without_the_thinking(asking, teacher):
    said = [["user", "first"], ["assistant", "an answer"], ["user", "think of it"]]
    with Pi(asking) as pi:
        got = ask(pi, asking, "complete", system="Be brief.", said=said, model=TEACHER, max_tokens=99)
        own = ask(pi, asking, "complete", **question("hello"))
        session = pi.request("get_state")["data"]["messageCount"]
    del got["pid"]
    assert got == {"text": "the answer", "model": TEACHER, "input_tokens": 10, "output_tokens": 10, "cost": 3.0}
    assert (own["text"], own["model"], own["cost"]) == ("You said: hello", "scripted/scripted-1", 0)
    body, _ = teacher.requests
    assert [m["role"] for m in body["messages"]][-3:] == ["user", "assistant", "user"]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert 99 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert not body.get("tools")
    assert session == 0


def test_what_is_no_whole_answer_is_an_error(asking):
    with Pi(asking) as pi:
        errors = {
            text: ask(pi, asking, "complete", **question(text, model=TEACHER))["error"]
            for text in ("break it", "cut it", "blank it")
        }
        errors |= {
            name: ask(pi, asking, "complete", **question("hello", model=name))["error"]
            for name in ("scripted/nobody", "nobody", "keyless/scripted-1")
        }
        assert ask(pi, asking, "complete", **question("hello"))["text"] == "You said: hello"
    assert all(error.startswith("ServiceError: ") for error in errors.values()), errors
    assert "500" in errors["break it"]
    assert "cut off after 2048 tokens" in errors["cut it"]
    assert "empty" in errors["blank it"]
    assert "no model scripted/nobody" in errors["scripted/nobody"]
    assert "no model nobody" in errors["nobody"]
    assert "no key for keyless/scripted-1" in errors["keyless/scripted-1"]


def test_a_session_that_is_replaced_ends_it(asking, teacher):
    with Pi(asking) as pi:
        pi.send("prompt", message=write(asking, "complete", **question("slow please")))
        teacher.wait()
        start = len(pi.records)
        pi.request("new_session")
        assert "the session was replaced" in answer(pi, start)["error"]
        assert teacher.hung_up.wait(5)  # nobody pays for an answer that nobody waits for


def test_headless(asking):
    done = asking.headless(write(asking, "complete", **question("hello")))
    assert '"text": "You said: hello"' in done.stderr
