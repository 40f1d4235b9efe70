import pytest

from machine.dataset.split import split
from machine.errors import Refused
from students import questions


def test_whole_conversations_go_to_one_side():
    rows = [*questions(6, session="long"), *questions(10)]
    for seed in range(20):
        sides = split(rows, 3, seed)
        held = {r.source.session for r in sides.held_out}
        assert len(held) == 3
        assert not held & {r.source.session for r in sides.train}
        assert len(sides.train) + len(sides.held_out) == 16


def test_the_same_seed_holds_out_the_same_conversations_whatever_the_order():
    rows = questions(20)

    def held(rows, seed):
        return {r.id for r in split(rows, 5, seed).held_out}

    assert held(rows, 1) == held(rows[::-1], 1) != held(rows, 2)


def test_nothing_left_to_train_on_is_refused():
    with pytest.raises(Refused, match="none is left"):
        split(questions(3), 3, 0)
