import pytest

from machine.dataset.render import datum, fingerprint, render
from machine.dataset.targets import expand
from machine.errors import Refused
from students import assistant, questions, row, user, weather_row


def test_one_target_an_assistant_message_of_the_turn():
    targets = expand([weather_row()])
    assert [t.id.rpartition("#")[2] for t in targets] == ["2", "4"]
    assert [len(t.messages) for t in targets] == [3, 5]
    assert targets[1].context[-1]["role"] == "tool"


def test_only_the_last_message_is_trained(student):
    for target in expand([weather_row()]):
        example = render(student, target)
        trained = [t for t, w in zip(example.tokens, example.weights, strict=True) if w]
        text = student.tokenizer.decode(trained)
        assert text.endswith("<|im_end|>")
        assert "Oslo" in text if target.answer.get("tool_calls") else text == "Yes, -5 degrees.<|im_end|>"


def test_the_weights_of_a_target_sum_to_one(student):
    short, long = row(user("a"), assistant("b")), row(user("a"), assistant("b" * 500), number=1)
    for target in expand([short, long, weather_row()]):
        assert sum(render(student, target).weights) == pytest.approx(1.0)


def test_the_prompt_that_is_trained_on_is_the_prompt_that_is_asked(student):
    from machine.renderers import to_conversation

    for target in expand([weather_row(), *questions(2)]):
        example = render(student, target)
        conversation = to_conversation(student.renderer, target.context, target.tools)
        asked = student.renderer.build_generation_prompt(conversation).to_ints()
        assert example.tokens[: example.prompt] == asked
        assert not any(example.weights[: example.prompt])


def test_a_renderer_that_writes_another_prompt_at_training_is_refused(student):
    import dataclasses

    class Shifting(type(student.renderer)):
        def build_generation_prompt(self, *args, **kwargs):
            from tinker import ModelInput

            return ModelInput.from_ints([0, *super().build_generation_prompt(*args, **kwargs).to_ints()])

    other = dataclasses.replace(student, renderer=Shifting(student.tokenizer))
    with pytest.raises(Refused, match="another prompt at training"):
        render(other, expand(questions(1))[0])


def test_an_image_is_for_a_student_of_text_what_pi_shows_it(student):
    picture = {"type": "image", "image": "sha256:0", "mime_type": "image/png"}
    seen = {"role": "user", "content": [{"type": "text", "text": "See"}, picture, picture]}
    example = render(student, expand([row(seen, assistant("a cat"))])[0])
    text = student.tokenizer.decode(example.tokens)
    assert "See\n(image omitted: model does not support images)<" in text


def test_a_datum_predicts_the_next_token(student):
    example = render(student, expand(questions(1))[0])
    made = datum(example)
    assert made.model_input.to_ints() == example.tokens[:-1]
    assert list(made.loss_fn_inputs["target_tokens"].data) == example.tokens[1:]
    assert list(made.loss_fn_inputs["weights"].data) == pytest.approx(example.weights[1:])


def test_the_fingerprint_is_of_the_tokens(student):
    one, two = [[render(student, t) for t in expand(rows)] for rows in (questions(3), questions(4))]
    assert fingerprint(one) == fingerprint(two[:3]) != fingerprint(two)
