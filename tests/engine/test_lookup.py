from machine.engine.sampling.lookup import Lookup


def test_what_followed_the_same_tokens_last_is_guessed():
    lookup = Lookup([1, 2, 3, 40, 1, 2, 3, 50, 51, 52, 53, 1, 2, 3])
    assert lookup.guess(8) == [50, 51, 52]
    assert lookup.guess(1) == [50]
    assert lookup.guess(0) == []
    lookup.add(9)
    assert lookup.guess(8) == []


def test_good_guesses_grow():
    lookup = Lookup([*range(40), 0, 1, 2])
    assert len(lookup.guess(15)) == 3
    lookup.learn(3, 3)
    assert len(lookup.guess(15)) == 7
    lookup.learn(7, 7)
    assert len(lookup.guess(99)) == 15


def test_bad_guesses_rest_longer_each_time():
    lookup = Lookup([*range(40), 0, 1, 2])

    def rests():
        lookup.learn(3, 0)
        passes = 0
        while not lookup.guess(3):
            passes += 1
        return passes

    assert [rests() for _ in range(3)] == [2, 4, 8]
    lookup.learn(3, 3)
    assert rests() == 2
