"""The observed model's own reasoning can be read for a comparison, and stands nowhere else."""

from machine.capture.hidden import hidden_reasoning
from machine.capture.reader import read
from machine.capture.session import live
from sessions import Script


def thinker():
    script = Script()
    ids = [script.user("Why?")]
    parts = [{"type": "thinking", "thinking": "Because."}, {"type": "thinking", "thinking": "", "redacted": True}]
    ids.append(script.assistant(content=[*parts, {"type": "text", "text": "So."}]))
    ids.append(script.user("And?"))
    ids.append(
        script.assistant(content=[{"type": "thinking", "thinking": "Later."}, {"type": "text", "text": "Thus."}])
    )
    return script, ids


def test_it_is_read_from_the_turns_own_entries(tmp_path):
    script, ids = thinker()
    session = read(script.save(tmp_path / "s.jsonl"))
    assert hidden_reasoning(session, ids[:2]) == ["Because."]
    assert hidden_reasoning(session, [*ids, "gone"]) == ["Because.", "Later."]


def test_a_session_without_a_file_has_it_too():
    script, ids = thinker()
    assert hidden_reasoning(live("s", "/p", None, script.entries), ids[2:]) == ["Later."]
