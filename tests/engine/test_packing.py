import random

import numpy as np
import pytest
import torch
from test_model import hidden

from machine.engine.training import packing
from machine.engine.training.packing import Past, SegmentAttention, passes, prefix_tree

ROWS = [[5, 6, 7, 8, 9, 10], [5, 6, 7, 11], [5, 6, 7], [5, 6, 7, 8, 9, 12, 13]]


def arrays(rows):
    return [np.array(row, np.int64) for row in rows]


def paths(segments, above=()):
    """What the tree says of each row: (row, tokens from the top down)."""
    for segment in segments:
        whole = (*above, *segment.tokens.tolist())
        assert segment.start == len(above)
        below = list(paths(segment.children, whole))
        yield from below
        yield from ((row, whole) for row in segment.rows if row not in {row for row, _ in below})


def computed(segments):
    return sum(len(segment.tokens) + computed(segment.children) for segment in segments)


@pytest.mark.parametrize("saving", [1, 4, 1000])
def test_every_row_is_a_path_from_the_top(monkeypatch, saving):
    monkeypatch.setattr(packing, "MIN_SAVING", saving)
    chooser = random.Random(0)
    for size in (1, 2, 7, 40):
        rows = [[chooser.randrange(2) for _ in range(chooser.randrange(1, 12))] for _ in range(size)]
        tree = prefix_tree(arrays(rows))
        found = dict(paths(tree))
        assert found == {i: tuple(row) for i, row in enumerate(rows)}
        assert computed(tree) <= sum(map(len, rows))


def test_what_is_shared_is_computed_once():
    prefix, turn = list(range(100)), list(range(200, 300))
    rows = [[*prefix, 1, 2], [*prefix, *turn, 3], [*prefix, *turn, 4], [*prefix, *turn], [*prefix, 5]]
    tree = prefix_tree(arrays(rows))
    assert computed(tree) == 100 + 2 + 100 + 1 + 1 + 1
    [top] = tree
    assert sorted(top.rows) == [0, 1, 2, 3, 4]
    assert [len(segment.tokens) for segment in top.children] == [2, 1, 100]


def test_a_chain_of_many_rows_is_not_a_deep_tree():
    def depth(segments):
        return max((1 + depth(segment.children) for segment in segments), default=0)

    rows = [list(range(n)) for n in range(1, 400, 2)]
    tree = prefix_tree(arrays(rows))
    assert depth(tree) <= packing.MAX_DEPTH + 1
    assert {row for row, _ in paths(tree)} == set(range(len(rows)))


def test_passes_hold_the_budget_and_every_segment_once():
    tree = prefix_tree(arrays([[i] * (10 + i) for i in range(1, 20)]))
    groups = list(passes(tree, 64))
    assert [segment for group in groups for segment in group] == tree
    assert all(len(group) == 1 or sum(len(s.tokens) for s in group) <= 64 for group in groups)


def test_segments_see_what_is_above_them_and_nothing_else(tiny):
    with torch.no_grad():
        top = SegmentAttention([3], keep=True)
        tiny.forward(torch.tensor(ROWS[0][:3]), torch.arange(3), top)
        past = Past.join(None, top.keys, top.values, grad=False)
        tokens, positions = torch.tensor([*ROWS[0][3:], *ROWS[1][3:]]), torch.tensor([3, 4, 5, 3])
        below = tiny.forward(tokens, positions, SegmentAttention([3, 1], past))
        for row, own in ((ROWS[0], below[:3]), (ROWS[1], below[3:])):
            torch.testing.assert_close(hidden(tiny, row)[3:], own, rtol=1e-5, atol=1e-5)
