"""The thinking check, on the tokens of the families that hosted Tinker trains, with their own tokenizers, offline."""

import pytest

from machine.dataset.audit import audit
from machine.dataset.readback import Advice, fitting, read_back
from machine.dataset.render import render
from machine.dataset.targets import expand
from machine.renderers import renderers_of
from machine.tinker.students import load_student
from students import WEATHER, assistant, call, questions, result, row, system, user, weather_row

FAMILIES = [
    "thinkingmachines/Inkling-Small",
    "thinkingmachines/Inkling",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-4B-Instruct-2507",
    "Qwen/Qwen3.5-4B",
    "Qwen/Qwen3.6-27B",
    "Qwen/Qwen3.8-27B",
    "deepseek-ai/DeepSeek-V3.1",
    "deepseek-ai/DeepSeek-V4.1-Flash",
    "openai/gpt-oss-20b",
    "moonshotai/Kimi-K2-Thinking",
    "moonshotai/Kimi-K2.5",
    "moonshotai/Kimi-K2.6",
    "zai-org/GLM-5.3",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
]
MUTE = {  # renderer, and what becomes of a row's reasoning
    ("Qwen/Qwen3-8B", "qwen3_disable_thinking"): ("cannot render it", "qwen3"),
    ("Qwen/Qwen3.5-4B", "qwen3_5_disable_thinking"): ("cannot render it", "qwen3_5"),
    ("deepseek-ai/DeepSeek-V3.1", "deepseekv3"): ("drops its reasoning", "deepseekv3_thinking"),
    ("deepseek-ai/DeepSeek-V4.1-Flash", "deepseekv4_1_disable_thinking"): ("drops its reasoning", "deepseekv4_1"),
    ("moonshotai/Kimi-K2.6", "kimi_k26_disable_thinking"): ("cannot render it", "kimi_k26"),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron3_disable_thinking"): ("cannot render it", "nemotron3"),
}
PLAIN = {  # the renderer that trains no empty think block
    "Qwen/Qwen3-8B": "qwen3_disable_thinking",
    "Qwen/Qwen3.5-4B": "qwen3_5_disable_thinking",
    "Qwen/Qwen3.8-27B": "qwen3_8_disable_thinking",
    "deepseek-ai/DeepSeek-V4.1-Flash": "deepseekv4_1_disable_thinking",
    "moonshotai/Kimi-K2.6": "kimi_k26_disable_thinking",
}


def thinks(thought, text, *calls):
    parts = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": text}]
    return assistant(parts, *calls)


def approved(number=0):
    """A row with approved reasoning before its call, and before its answer."""
    return row(
        system("You are brief."),
        user("Is it cold in Oslo?"),
        thinks("They ask for the weather.\nThe tool knows.", "Let me look.", call("weather", '{"city": "Oslo"}')),
        result("-5 degrees"),
        thinks("Minus five is cold.", "Yes, -5 degrees."),
        tools=[WEATHER],
        number=number,
    )


@pytest.mark.parametrize("model", FAMILIES)
def test_one_renderer_of_every_family_trains_reasoning_as_reasoning(model):
    student = fitting(load_student(model), expand([approved()]))
    found = audit([approved()], student)
    assert found.faults == []
    for target, example in zip(expand([approved()]), found.examples, strict=True):
        read = read_back(student, example)
        assert read.ended
        assert read.thinking.split() == target.answer["content"][0]["thinking"].split()
        assert "cold." not in read.text
        assert [name for name, _ in read.calls] == (["weather"] if target.id.endswith("#2") else [])
    trained = [t for t, w in zip(example.tokens, example.weights, strict=True) if w]
    assert "Minus five is cold." in student.tokenizer.decode(trained)


@pytest.mark.parametrize(("model", "renderer"), MUTE)
def test_a_renderer_that_loses_the_reasoning_is_refused_and_another_named(model, renderer):
    what, instead = MUTE[model, renderer]
    found = audit([approved()], load_student(model, renderer))
    assert found.verdict == "FIX FIRST"
    fault = found.faults[-1]
    assert fault.startswith("t_00000000000000000000000000#")
    assert f"{renderer} {what}" in fault
    assert fault.endswith(f"use renderer: {instead} in tinker.yaml")
    assert audit([approved()], load_student(model, instead)).faults == []


def test_the_engines_model_trains_reasoning_as_reasoning(student):
    found = audit([approved()], student)
    assert found.faults == []
    assert read_back(student, found.examples[1]).thinking == "Minus five is cold."


@pytest.mark.parametrize("model", PLAIN)
def test_an_empty_think_block_is_told_with_the_renderer_that_writes_none(model):
    (note,) = [n for n in audit(questions(3), load_student(model)).notes if "think" in n]
    assert note.startswith("3 of 3 targets hold no reasoning")
    assert PLAIN[model] in note
    quiet = load_student(model, PLAIN[model])
    assert audit(questions(3), quiet).notes == []
    assert fitting(load_student(model), expand(questions(3))).renderer_name == PLAIN[model]


def test_a_call_that_is_not_read_back_as_one_is_refused():
    """deepseekv3 of cookbook 0.5 ends no answer that calls a tool, and reads none of its calls."""
    found = audit([weather_row()], load_student("deepseek-ai/DeepSeek-V3.1", "deepseekv3"))
    if found.faults:  # a later cookbook may write it well
        assert any("not ended" in fault for fault in found.faults)
        assert any("reads no call" in fault for fault in found.faults)
    student = load_student("deepseek-ai/DeepSeek-V3.1", "deepseekv3")
    (call_target, _) = expand([weather_row()])
    assert (not read_back(student, render(student, call_target)).calls) is bool(found.faults)


@pytest.mark.parametrize("model", ["moonshotai/Kimi-K2-Thinking", "moonshotai/Kimi-K2.6"])
def test_kimis_calls_bear_the_ids_that_its_format_asks_for(model):
    student = load_student(model)
    example = render(student, expand([weather_row()])[1])
    text = student.tokenizer.decode(example.tokens)
    assert "functions.weather:0" in text
    assert "c1" not in text
    first = render(student, expand([weather_row()])[0])
    assert read_back(student, first).calls == [("weather", {"city": "Oslo"})]


def test_reasoning_in_the_text_is_found():
    """A template that knows no reasoning writes it before the answer."""
    import dataclasses

    student = load_student("Qwen/Qwen3-4B-Instruct-2507")

    class Blurting(type(student.renderer)):
        def build_supervised_example(self, messages, *args, **kwargs):
            parts = messages[-1]["content"]
            said = "".join(part.get("thinking") or part.get("text") for part in parts)
            return super().build_supervised_example(
                [*messages[:-1], {**messages[-1], "content": said}], *args, **kwargs
            )

    blurting = dataclasses.replace(student, renderer=Blurting(student.tokenizer))
    faults = audit([row(user("a"), thinks("I wonder.", "b"))], blurting).faults
    assert "puts its reasoning into the text" in faults[0]


def test_arguments_whose_types_a_format_does_not_write_are_told():
    typed = row(user("a"), assistant("", call("weather", '{"city": "1"}')), tools=[WEATHER])
    student = load_student("Qwen/Qwen3.5-4B", "qwen3_5_disable_thinking")
    assert any("other JSON values" in note for note in audit([typed], student).notes)
    assert audit([weather_row()], student).notes == []


def test_every_family_has_renderers_and_advice_is_bounded():
    assert renderers_of("Qwen/Qwen3-8B") == ["qwen3", "qwen3_disable_thinking"]
    assert renderers_of("nobody/knows-it") == []
    advice = Advice(load_student("zai-org/GLM-5.3"))
    answers = {advice.instead(target) for _ in range(60) for target in expand([weather_row()])}
    assert answers == {None}


def test_no_renderer_is_named_that_would_drop_the_reasoning_of_other_rows():
    student = load_student("Qwen/Qwen3-8B", "qwen3")
    found = audit([approved(), *questions(3)[1:]], student)
    assert found.faults == []
    (note,) = [n for n in found.notes if "think" in n]
    assert "qwen3_disable_thinking" not in note
    assert "no other of the model keeps the reasoning" in note
