from pathlib import Path

import msgspec

from machine.release import log
from machine.release.glance import forced, progress
from machine.release.outcomes import Outcome

LATER = "2126-01-01T00:00:00+00:00"


def write(releases: Path, *outcomes: Outcome) -> None:
    file = releases / "BR-001" / "outcomes.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        out.writelines(msgspec.json.encode(each) + b"\n" for each in outcomes)


def came(turn, what="answered", arm="candidate", at=LATER):
    return Outcome(at, "s1", turn, "BR-001", arm, "tinker/br", what)


def test_the_turns_that_the_candidate_of_this_trial_was_asked_in(tmp_path):
    assert progress(tmp_path, "BR-001") == (0, None)
    log.append(tmp_path, "BR-001", 1, "trial", {"turns": 7})
    write(tmp_path, came("t1"), came("t1", "corrected"), came("t2"), came("t3", "unavailable"), came("t4", arm="work"))
    assert progress(tmp_path, "BR-001") == (2, 7)
    write(tmp_path, came("t5", at="2020-01-01T00:00:00+00:00"))  # of a trial before this one
    assert progress(tmp_path, "BR-001") == (2, 7)
    assert progress(tmp_path, "BR-002") == (0, None)
    log.append(tmp_path, "BR-001", 2, "trial", {"turns": 9})
    assert progress(tmp_path, "BR-001") == (2, 9)


def test_damage_is_left_to_others(tmp_path):
    log.append(tmp_path, "BR-001", 1, "trial", {"turns": 7})
    write(tmp_path, came("t1"))
    for file in (tmp_path / "BR-001" / "outcomes.jsonl", tmp_path / log.LOG):
        with file.open("ab") as out:
            out.write(b'{"step": "trial", "torn\n')
    assert progress(tmp_path, "BR-001") == (1, 7)


def test_a_reason_is_looked_for_in_every_activation(tmp_path):
    assert not forced(tmp_path, "BR-001")
    log.append(tmp_path, "BR-001", 1, "activated", {"forced": ""})
    assert not forced(tmp_path, "BR-001")
    log.append(tmp_path, "BR-001", 2, "activated", {"forced": "a reason"})
    log.append(tmp_path, "BR-001", 3, "activated", {"forced": ""})
    assert forced(tmp_path, "BR-001")
    assert not forced(tmp_path, "BR-002")
