import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine.dataset.audit import audit
from machine.dataset.merge import merged
from machine.dataset.render import Example, render
from machine.dataset.targets import expand
from students import WEATHER, assistant, call, questions, result, row, system, user


def trajectory(steps, number=0, session="s"):
    """One question, so many calls of a tool with what it returned, an answer: as many targets, and one more."""
    messages = [system("You are brief."), user("How warm is it everywhere?")]
    for step in range(steps):
        messages += [
            assistant("", call("weather", '{"city": "Oslo"}', f"c{step}")),
            result(f"{step} degrees", f"c{step}"),
        ]
    return row(*messages, assistant("Warm enough."), tools=[WEATHER], number=number, session=session)


def rendered(student, rows):
    return [render(student, target) for target in expand(rows)]


def test_a_trajectory_of_twenty_targets_is_one_datum_at_a_ninth_of_the_tokens(student):
    examples = rendered(student, [trajectory(19)])
    [pack] = merged(examples)
    assert len(examples) == 20
    assert sum(len(example.tokens) for example in examples) > 8 * len(pack.tokens)
    assert pack.tokens == examples[-1].tokens
    assert pack.examples == tuple(range(20))
    for example in examples:
        own = [weight for weight, theirs in zip(pack.weights, example.weights, strict=False) if theirs]
        assert own == [weight for weight in example.weights if weight]
    assert sum(pack.weights) == pytest.approx(20)


def test_turns_of_one_session_are_merged_and_what_only_shares_a_part_is_not(student):
    first = [system("You are brief."), user("One?"), assistant("1.")]
    rows = [
        row(*first, number=1, session="s"),
        row(*first, user("Two?"), assistant("2."), number=2, target=(4,), session="s"),
        *questions(2),
    ]
    assert [pack.examples for pack in merged(rendered(student, rows))] == [(0, 1), (2,), (3,)]
    fork = row(*first, user("Three?"), assistant("3."), number=3, target=(4,), session="fork")
    assert [len(pack.examples) for pack in merged(rendered(student, [*rows, fork]))] == [2, 1, 1, 1]


def test_where_the_renderer_rewrites_history_nothing_is_merged(student):
    class Forgetful(type(student.renderer)):
        """Shows of every answer but the last how many letters it had."""

        def build_supervised_example(self, messages, **options):
            told = [m | {"content": "x"} if m["role"] == "assistant" else m for m in messages[:-1]]
            return super().build_supervised_example([*told, messages[-1]], **options)

        def build_generation_prompt(self, messages, **options):
            told = [m | {"content": "x"} if m["role"] == "assistant" else m for m in messages]
            return super().build_generation_prompt(told, **options)

    import dataclasses

    other = dataclasses.replace(student, renderer=Forgetful(student.tokenizer))
    conversation = row(user("One?"), assistant("1."), user("Two?"), assistant("2."))
    assert len(merged(rendered(student, [conversation]))) == 1
    assert [pack.examples for pack in merged(rendered(other, [conversation]))] == [(0,), (1,)]


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), max_size=12))
def test_every_example_is_in_one_pack_that_begins_with_it_and_has_its_weights(tokens):
    examples = [Example(f"e{i}", "s", row, [float(i + 1)] * len(row), 0) for i, row in enumerate(tokens)]
    packs = merged(examples)
    assert sorted(i for pack in packs for i in pack.examples) == list(range(len(examples)))
    for pack in packs:
        held = [examples[i] for i in pack.examples]
        assert all(pack.tokens[: len(example.tokens)] == example.tokens for example in held)
        assert pack.tokens in [example.tokens for example in held]
        for place, weight in enumerate(pack.weights):
            assert weight == sum(example.weights[place] for example in held if place < len(example.weights))
    ends = [
        row
        for row in map(tuple, tokens)
        if not any(other[: len(row)] == row and other != row for other in map(tuple, tokens))
    ]
    assert len(packs) == len(set(ends))


def test_validate_tells_the_tokens_before_and_after(student):
    found = audit([trajectory(19), *questions(2)], student, 1 << 20)
    assert len(found.packs) == 3
    assert found.tokens == sum(len(pack.tokens) for pack in found.packs)
    assert found.tokens_apart == sum(len(example.tokens) for example in found.examples) > 5 * found.tokens
