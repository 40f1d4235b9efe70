import copy
import json

import pytest

from machine.capture.reader import read
from machine.capture.rows import Recorder, capture, preview
from machine.capture.trajectory import NO_RESULT
from machine.errors import Refused
from machine.trace import check, decode, encode
from sessions import TOOL, Script


@pytest.fixture
def make(tmp_path):
    def row(script: Script, **options):
        [row] = capture(read(script.save(tmp_path / "s.jsonl")), tag="good", **options).rows
        return row

    return row


def roles(row):
    return [m["role"] for m in row.messages]


def test_plain_turn(make):
    s = Script()
    user, answer = s.user("Capital of France?"), s.assistant("Paris.")
    row = make(s)
    assert [(m["role"], m["content"]) for m in row.messages] == [
        ("system", "You are Pi."),
        ("user", "Capital of France?"),
        ("assistant", "Paris."),
    ]
    assert row.target == (2,)
    assert row.source.entries == (user, answer)
    assert row.source.models == (None, None, "p/m")


def test_tool_turn_has_schemas_calls_as_json_text_and_all_assistants_as_targets(make):
    s = Script(tools=[TOOL])
    s.user("What is in a.py?")
    s.assistant("Looking.", [("c1", {"path": "a.py"})])
    s.result("c1", "print(1)")
    s.assistant("It prints 1.")
    row = make(s)
    assert roles(row) == ["system", "user", "assistant", "tool", "assistant"]
    call = row.messages[2]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"path": "a.py"}
    assert row.messages[3] == {"role": "tool", "content": "print(1)", "tool_call_id": "c1", "name": "read"}
    assert row.target == (2, 4)
    assert row.tools == (TOOL,)


def test_parallel_results_stored_in_completion_order_are_re_paired_in_call_order(make):
    s = Script(tools=[TOOL])
    s.user("Compare.")
    s.assistant("", [("c1", {}), ("c2", {}), ("c3", {})])
    for call in ("c3", "c1", "c2"):
        s.result(call, f"result {call}")
    s.assistant("Same.")
    tools = [m for m in make(s).messages if m["role"] == "tool"]
    assert [(m["tool_call_id"], m["content"]) for m in tools] == [(c, f"result {c}") for c in ("c1", "c2", "c3")]


def test_earlier_turns_are_context_not_target(make):
    s = Script()
    s.user("One")
    s.assistant("1")
    s.user("Two")
    s.assistant("2")
    row = make(s)
    assert row.target == (4,)
    assert roles(row) == ["system", "user", "assistant", "user", "assistant"]


def test_a_retry_that_failed_first_leaves_no_trace(make):
    s = Script()
    s.user("Hi")
    failed = s.assistant("", stopReason="error", errorMessage="500")
    s.entry("context_edit", targetId=failed, replacement=None)
    s.assistant("Hello.")
    row = make(s)
    assert roles(row) == ["system", "user", "assistant"]
    assert row.messages[2]["content"] == "Hello."


def test_an_abort_is_refused_and_names_its_entry(make):
    s = Script(tools=[TOOL])
    s.user("Hi")
    s.assistant("", [("c1", {})])
    s.result("c1", "aborted")
    aborted = s.assistant("", stopReason="aborted")
    with pytest.raises(Refused, match=f"aborted.*{aborted}"):
        make(s)


def test_a_turn_without_an_answer_is_refused(make):
    s = Script()
    s.user("Hi")
    with pytest.raises(Refused, match="no answer"):
        make(s)


def test_a_retry_that_never_succeeded_is_refused_with_its_cause(make):
    s = Script()
    s.user("Hi")
    failed = s.assistant("", stopReason="error")
    s.entry("context_edit", targetId=failed, replacement=None)
    with pytest.raises(Refused, match=f"it failed \\(entry {failed}\\)"):
        make(s)


def test_no_turn_at_all_is_refused(make):
    with pytest.raises(Refused, match="no turn to tag"):
        make(Script())


def test_a_call_without_a_result_is_refused_inside_the_turn_and_marked_outside(make):
    s = Script(tools=[TOOL])
    s.user("One")
    s.assistant("", [("c1", {})])
    s.user("Two")
    s.assistant("2")
    row = make(s)
    assert [m["content"] for m in row.messages if m["role"] == "tool"] == [NO_RESULT]
    assert [e.kind for e in row.edits] == ["result_synthesised"]

    s = Script(tools=[TOOL])
    s.user("One")
    caller = s.assistant("", [("c1", {})])
    s.assistant("Done.")
    with pytest.raises(Refused, match=caller):
        make(s)


def test_an_orphan_result_is_dropped_outside_the_turn_and_refused_inside(make):
    s = Script(tools=[TOOL])
    s.user("Old")
    s.assistant("", [("c1", {})])
    kept = s.result("c1", "x")
    s.assistant("Done.")
    s.entry("compaction", summary="S", firstKeptEntryId=kept, tokensBefore=9, systemMessage=s.entries[0]["message"])
    s.user("One")
    s.assistant("1")
    row = make(s)
    assert "tool" not in roles(row)
    assert [e.kind for e in row.edits] == ["orphan_dropped"]

    s = Script(tools=[TOOL])
    s.user("One")
    orphan = s.result("gone", "x")
    s.assistant("1")
    with pytest.raises(Refused, match=orphan):
        make(s)


def test_as_replaces_the_text_and_records_it(make):
    s = Script()
    s.user("Capital of France?")
    s.assistant("I think that it may be Paris")
    row = make(s, answer="ANSWER: Paris.")
    assert row.messages[2]["content"] == "ANSWER: Paris."
    assert [(e.kind, e.message) for e in row.edits] == [("answer_replaced", 2)]


def test_a_length_cut_answer_is_refused_unless_replaced(make):
    s = Script()
    s.user("Hi")
    cut = s.assistant("Hel", stopReason="length")
    with pytest.raises(Refused, match=f"length limit.*{cut}"):
        make(s)
    assert make(s, answer="Hello.").target == (2,)


def test_observed_reasoning_is_never_saved(make):
    s = Script()
    s.user("Hi")
    s.assistant(
        content=[{"type": "thinking", "thinking": "hmm", "thinkingSignature": "x"}, {"type": "text", "text": "Yo"}]
    )
    row = make(s)
    assert row.messages[2]["content"] == "Yo"
    assert "hmm" not in json.dumps(row.messages)
    assert [e.kind for e in row.edits] == ["thinking_dropped"]


def test_bang_commands_are_context_and_never_a_turn(make):
    s = Script()
    s.user("Hi")
    s.assistant("Hello.")
    ran = {"output": "a.py", "exitCode": 0, "cancelled": False, "truncated": False}
    s.message(role="bashExecution", command="ls", **ran)
    s.message(role="bashExecution", command="cat .env", excludeFromContext=True, **ran)
    row = make(s)
    assert roles(row) == ["system", "user", "assistant"]
    s.user("What did I run?")
    s.assistant("ls")
    row = make(s)
    assert "Ran `ls`" in row.messages[3]["content"]
    assert ".env" not in json.dumps(row.messages)
    assert row.target == (5,)


def test_a_steering_message_belongs_to_the_turn(make):
    s = Script(tools=[TOOL])
    first = s.user("Fix it")
    s.assistant("", [("c1", {})])
    s.result("c1", "x")
    s.user("but keep the name")
    s.assistant("Fixed.")
    row = make(s)
    assert row.source.entries[0] == first
    assert row.target == (2, 5)


def test_entries_after_the_turn_do_not_hide_it(make):
    s = Script()
    s.user("Hi")
    s.assistant("Hello.")
    s.entry("label", targetId=s.leaf, label="x")
    s.entry("model_change", provider="p", modelId="n")
    s.entry("custom", customType="other", data={})
    assert make(s).messages[-1]["content"] == "Hello."


def test_a_compaction_before_the_turn_is_what_the_model_saw(make):
    s = Script()
    s.user("Old question")
    s.assistant("Old answer")
    kept = s.user("Kept question")
    s.assistant("Kept answer")
    s.entry(
        "compaction",
        summary="They talked.",
        firstKeptEntryId=kept,
        tokensBefore=9,
        systemMessage=s.entries[0]["message"],
    )
    s.user("New")
    s.assistant("Newer")
    text = [m["content"] for m in make(s).messages]
    assert "They talked." in text[1]
    assert text[2:] == ["Kept question", "Kept answer", "New", "Newer"]


def test_a_compaction_inside_the_turn_makes_a_row_for_each_context(tmp_path):
    s = Script(tools=[TOOL])
    s.user("Old")
    s.assistant("Older")
    user = s.user("Fix it")
    call = s.assistant("Looking.", [("c1", {})])
    s.result("c1", "x")
    s.entry("compaction", summary="S", firstKeptEntryId=call, tokensBefore=9, systemMessage=s.entries[0]["message"])
    s.assistant("More.", [("c2", {})])
    s.result("c2", "y")
    s.assistant("Fixed.")
    before, after = capture(read(s.save(tmp_path / "s.jsonl")), tag="good", answer="Mended.").rows
    assert [m["content"] for m in before.messages] == ["You are Pi.", "Old", "Older", "Fix it", "Looking."]
    assert [m["role"] for m in after.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "S" in after.messages[1]["content"]
    assert (before.target, after.target) == ((4,), (4, 6))
    assert (before.source.part, after.source.part) == (0, 1)
    assert before.source.entries == after.source.entries
    assert before.source.entries[0] == user
    assert [[e.kind for e in row.edits] for row in (before, after)] == [[], ["answer_replaced"]]
    assert after.messages[-1]["content"] == "Mended."
    assert preview(before) == ("Fix it", "Looking.")


def test_a_compaction_that_embeds_what_it_kept_is_read_once(make):
    s = Script(tools=[TOOL])
    s.user("Old")
    s.assistant("Older")
    kept = [
        s.entries[-1]["message"]
        | {"content": [{"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "Older"}]}
    ]
    kept += [{"role": "assistant", "content": [{"type": "toolCall"}], "stopReason": "error"}, {"role": "label", "x": 1}]
    old = s.entries[1]["id"]
    s.entry("compaction", summary="S", firstKeptEntryId=old, retainedTail=kept, systemMessage=s.entries[0]["message"])
    s.user("New")
    s.assistant("Newer")
    row = make(s)
    assert [m["content"] for m in row.messages][2:] == ["Older", "New", "Newer"]
    assert row.target == (4,)
    assert row.source.messages[1:3] == (s.entries[3]["id"], None)
    assert "hmm" not in json.dumps(row.messages)


def test_a_result_that_comes_after_somebody_spoke_is_not_the_calls(make):
    s = Script(tools=[TOOL])
    s.user("Old")
    s.assistant("", [("c0", {})])
    s.user("Never mind")
    late = s.result("c0", "late")
    s.assistant("Fine.")
    s.user("New")
    s.assistant("Newer")
    row = make(s)
    assert [m["content"] for m in row.messages if m["role"] == "tool"] == [NO_RESULT]
    assert [e.kind for e in row.edits] == ["result_synthesised", "orphan_dropped"]
    assert late in row.edits[1].detail


def test_an_answer_that_was_omitted_is_not_learnt_from(make):
    s = Script()
    s.user("Hi")
    draft = s.assistant("Draft")
    s.entry("context_edit", targetId=draft, replacement=None)
    s.assistant("Hello.")
    row = make(s)
    assert [m["content"] for m in row.messages] == ["You are Pi.", "Hi", "Hello."]
    assert row.target == (2,)


def test_edits_inside_the_turn_are_not_seen_by_the_steps_before_them(tmp_path):
    s = Script(tools=[TOOL])
    s.user("Read it")
    s.assistant("", [("c1", {})])
    result = s.result("c1", "ten thousand lines")
    s.assistant("", [("c2", {})])
    s.entry("context_edit", targetId=result, replacement={"content": "pruned"})
    s.result("c2", "y")
    s.assistant("Done.")
    before, after = capture(read(s.save(tmp_path / "s.jsonl")), tag="good").rows
    assert [m["content"] for m in before.messages if m["role"] == "tool"] == ["ten thousand lines"]
    assert [m["content"] for m in after.messages if m["role"] == "tool"] == ["pruned", "y"]
    assert (before.target, after.target) == ((2, 4), (6,))


def test_tools_that_come_in_the_middle_of_a_turn_were_not_there_before(tmp_path):
    s = Script(tools=[TOOL])
    s.user("Hi")
    s.assistant("", [("c1", {})])
    s.result("c1", "x")
    s.message(role="system", content="", toolsAdded=[{**TOOL, "name": "write"}])
    s.assistant("Done.")
    before, after = capture(read(s.save(tmp_path / "s.jsonl")), tag="good").rows
    assert [tool["name"] for tool in before.tools] == ["read"]
    assert [tool["name"] for tool in after.tools] == ["read", "write"]


def test_answers_of_several_models_are_labelled(make):
    s = Script(tools=[TOOL])
    s.user("Hi")
    s.assistant("", [("c1", {})])
    s.result("c1", "x")
    s.assistant("Done.", model="n")
    row = make(s)
    assert [(e.kind, e.detail) for e in row.edits] == [("models_mixed", "answers of p/m, p/n")]
    assert row.source.models == (None, None, "p/m", None, "p/n")


def test_a_session_that_records_no_prompt_is_refused_unless_that_is_wanted(make):
    s = Script(prompt=None)
    s.user("Hi")
    s.assistant("Hello.")
    with pytest.raises(Refused, match="does not record what the system prompt was"):
        make(s)
    row = make(s, recorder=Recorder(promptless=True))
    assert (roles(row), [e.kind for e in row.edits]) == (["user", "assistant"], ["prompt_missing"])


def test_prompt_and_tools_of_a_host_that_does_not_record_them_are_taken_live(make):
    s = Script(prompt=None)
    s.user("Hi")
    s.assistant("Hello.")
    row = make(s, recorder=Recorder(system_prompt="Live prompt", tools=[TOOL]))
    assert row.messages[0]["content"] == "Live prompt"
    assert row.tools == (TOOL,)


def test_an_image_is_named_by_its_hash_and_kept_apart(tmp_path):
    s = Script()
    picture = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    s.message(role="user", content=[{"type": "text", "text": "See"}, picture, picture])
    s.assistant("A picture.")
    captured = capture(read(s.save(tmp_path / "s.jsonl")), tag="good")
    [row], [name] = captured.rows, captured.pictures
    assert row.messages[1]["content"][0] == {"type": "text", "text": "See"}
    assert [part["image"] for part in row.messages[1]["content"][1:]] == [f"sha256:{name}"] * 2
    assert captured.pictures[name] == b"ABC"
    assert "QUJD" not in json.dumps(row.messages)
    assert {e.kind for e in row.edits} == {"image_stored"}
    check(decode(encode(row)))


def test_secrets_are_redacted_before_the_row_exists_also_in_arguments(make, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", 'hunter2-"hunter2')
    s = Script(tools=[TOOL])
    s.user('my token is hunter2-"hunter2')
    s.assistant("", [("c1", {"header": 'hunter2-"hunter2'})])
    s.result("c1", "ok")
    s.assistant("Done.")
    row = make(s)
    assert "hunter2" not in json.dumps(row.messages)
    arguments = json.loads(row.messages[2]["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"header": "<secret:env-service-token:1>"} or arguments["header"].startswith("<secret:env")
    assert {e.kind for e in row.edits} == {"redacted"}
    assert all("hunter2" not in e.detail for e in row.edits)


def test_u2028_and_astral_characters_survive(make):
    s = Script()
    s.user("a\u2028b \U0001f600")
    s.assistant("c\u2029d")
    row = make(s)
    assert row.messages[1]["content"] == "a\u2028b \U0001f600"
    assert row.messages[2]["content"] == "c\u2029d"


def test_the_same_turn_has_the_same_digest_and_another_answer_another(make):
    s = Script()
    s.user("Hi")
    s.assistant("Hello.")
    one, two, three = make(s), make(s), make(s, answer="Yo.")
    assert one.digest == two.digest != three.digest
    assert one.id != two.id


def test_providers_that_use_a_call_id_again_get_each_result_where_it_belongs(make):
    s = Script(tools=[TOOL])
    for text in ("one", "two"):
        s.user(text)
        s.assistant("", [("call_0", {}), ("call_0", {})])
        s.result("call_0", f"{text} a")
        s.result("call_0", f"{text} b")
        s.assistant("Done.")
    tools = [m["content"] for m in make(s).messages if m["role"] == "tool"]
    assert tools == ["one a", "one b", "two a", "two b"]


def test_an_empty_answer_is_refused_even_after_calls_and_as_stands_in_for_it(make):
    s = Script(tools=[TOOL])
    s.user("One")
    s.assistant("1")
    s.user("What is in a.py?")
    s.assistant("Looking.", [("c1", {})])
    s.result("c1", "x")
    empty = s.assistant("")
    with pytest.raises(Refused, match=f"it is empty \\(entry {empty}\\)"):
        make(s)
    row = make(s, answer="x is in it.")
    assert [m["content"] for m in row.messages if m["role"] == "assistant"] == ["1", "Looking.", "x is in it."]
    assert (row.target, [(e.kind, e.message) for e in row.edits]) == ((4, 6), [("answer_replaced", 6)])


def test_as_stands_in_for_an_empty_answer_of_the_first_turn(make):
    s = Script()
    s.user("Hi")
    s.assistant("")
    assert make(s, answer="Hello.").messages[2]["content"] == "Hello."


def test_empty_text_is_sent_as_pi_sends_it(make):
    s = Script(tools=[TOOL])
    s.message(role="user", content=[{"type": "text", "text": ""}, {"type": "text", "text": "Touch a.py"}])
    s.assistant("", [("c1", {"path": "ä", "n": 1})])
    s.result("c1", " \n")
    s.assistant("Done.")
    row = make(s)
    assert row.messages[1]["content"] == "Touch a.py"
    assert row.messages[2]["tool_calls"][0]["function"]["arguments"] == '{"path":"ä","n":1}'
    assert row.messages[3]["content"] == "(no tool output)"


def test_lone_surrogates_are_dropped_from_text_and_spelt_in_arguments_as_pi_does(make):
    s = Script(tools=[TOOL])
    s.user("a\ud83d")
    s.assistant("", [("c1", {"x": "\ud83d"})])
    s.result("c1", "b\udc00")
    s.assistant("c")
    row = make(s, note="n\udcff")
    assert [row.messages[i]["content"] for i in (1, 3)] == ["a", "b"]
    assert row.messages[2]["tool_calls"][0]["function"]["arguments"] == '{"x":"\\ud83d"}'
    assert decode(encode(row)) == row
    assert row.note == "n"


def test_an_aborted_attempt_may_hold_half_a_call(make):
    s = Script()
    s.user("Hi")
    s.message(role="assistant", content=[{"type": "toolCall"}], stopReason="error")
    s.assistant("Hello.")
    assert roles(make(s)) == ["system", "user", "assistant"]


def test_a_recorded_empty_prompt_is_not_replaced_by_the_live_one(make):
    s = Script(prompt="", tools=[TOOL])
    s.user("Hi")
    s.assistant("Hello.")
    row = make(s, recorder=Recorder(system_prompt="Live", tools=[]))
    assert roles(row) == ["user", "assistant"]
    assert row.tools == (TOOL,)


def everything() -> Script:
    """A session with an entry of every type that reaches a model."""
    s = Script(tools=[TOOL])
    kept = s.user("Old")
    s.assistant("Older")
    s.entry("compaction", summary="S", firstKeptEntryId=kept, tokensBefore=9, systemMessage=s.entries[0]["message"])
    s.entry("branch_summary", summary="B", fromId=kept)
    s.entry("custom_message", customType="x", content="C", display=True)
    s.message(role="bashExecution", command="ls", output="a.py", exitCode=0)
    s.entry("context_edit", targetId=kept, replacement={"content": "New"})
    s.message(role="user", content=[{"type": "text", "text": "?"}, {"type": "image", "data": "Q", "mimeType": "i/p"}])
    s.assistant("Look", [("c1", {"path": "a"})])
    s.result("c1", "x")
    s.assistant("Done.")
    return s


def places(value, path=()):
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


@pytest.mark.parametrize("wrong", [None, 7, "x", "\ud800", [], {}, [7], [None], {"type": "text"}, [{"type": "text"}]])
def test_whatever_an_entry_holds_there_is_a_row_that_reads_back_or_a_refusal(tmp_path, wrong):
    for *path, last in places(everything().entries):
        s = everything()
        held = s.entries = copy.deepcopy(s.entries)
        for key in path:
            held = held[key]
        held[last] = copy.deepcopy(wrong)
        if any(not isinstance(entry, dict) for entry in s.entries):
            continue
        try:
            captured = capture(read(s.save(tmp_path / "s.jsonl")), tag="good", answer="A")
        except Refused:
            continue
        for row in captured.rows:
            check(decode(encode(row)))


def test_json_that_is_nested_too_deep_is_refused(make):
    deep = json.loads("[" * 600 + "]" * 600)
    s = Script(tools=[TOOL])
    s.user("Hi")
    s.assistant("", [("c1", {"a": deep})])
    s.result("c1", "x")
    s.assistant("Done.")
    with pytest.raises(Refused, match="too deep"):
        make(s)
