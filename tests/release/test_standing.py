"""Where a release stands: a fold over the log, what may follow, and the alias."""

import itertools

import pytest

from machine.errors import Refused
from machine.release.candidate import Candidate
from machine.release.log import Entry
from machine.release.seal import Seal
from machine.release.standing import Ledger, Standing, ledger
from machine.tinker.served import Served
from releasepages import RUN, WEIGHTS

CANDIDATE = Candidate(RUN, WEIGHTS, (1.0,), "machine/chatml", 96, 36, 16, 4e-4, 1000, 0.0, {})
COMMANDS = ("freeze", "amend", "candidate", "gate", "trial", "reject", "activate")


class Told:
    """A log in memory."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def __call__(self, step, release="BR-001", version=1, about=None, **data) -> "Told":
        number = len(self.entries) + 1
        self.entries.append(
            Entry(
                number,
                f"2026-01-01T00:00:{number:02}+00:00",
                release,
                version,
                step,
                "a",
                {**(about or {}), **data},
                "",
                "",
            )
        )
        return self

    def frozen(self, release="BR-001", version=1):
        return self("frozen", release, version, seal={"preregistration": "aa", "suites": {}, "retention": "bb"})

    def candidate(self, release="BR-001", version=1, run=RUN):
        plain = {name: getattr(CANDIDATE, name) for name in CANDIDATE.__struct_fields__}
        return self("candidate", release, version, candidate={**plain, "run": run})

    def gated(self, passed=True, release="BR-001", version=1):
        return self("gated", release, version, passed=passed, sha256="cc", gates={"better": passed, "sane": True})

    def active(self, release="BR-001", version=1, forced=""):
        model = f"tinker/{release.lower()}-v{version}"
        data = {"release": release, "version": version, "model": model, "weights": f"tinker://{release}-{version}"}
        return self("activated", release, version, data, forced=forced, before=None)

    def release(self, release="BR-001", version=1):
        """Everything up to eligible."""
        self("drafted", release) if version == 1 else None
        return (
            self.frozen(release, version)
            .candidate(release, version)
            .gated(True, release, version)("trial", release, version)(
                "eligible", release, version, why="its trial met no stop rule"
            )
        )

    @property
    def ledger(self) -> Ledger:
        found = ledger(self.entries)
        assert found.unread == []
        return found

    def of(self, release="BR-001") -> Standing:
        return self.ledger.of(release)


def test_the_whole_lifecycle():
    told = Told()
    stages = []
    for step in (
        lambda: told("drafted"),
        told.frozen,
        told.candidate,
        lambda: told("gating", run=RUN, given={}),
        told.gated,
        lambda: told("trial"),
        lambda: told("eligible", why="long enough"),
        told.active,
        lambda: told("rolled back", reason="it was worse"),
    ):
        step()
        stages.append(told.of().stage)
    assert stages == [
        "draft", "frozen", "candidate", "candidate", "gated", "trial", "eligible", "active", "rolled back",
    ]  # fmt: skip
    standing = told.of()
    assert standing.seal == Seal("aa", {}, "bb")
    assert standing.candidate == CANDIDATE
    assert (standing.frozen, standing.since) == ("2026-01-01T00:00:02+00:00", "2026-01-01T00:00:09+00:00")
    assert standing.why == "it was worse"
    assert standing.verdicts.gates == {"better": True, "sane": True}
    assert len(standing.entries) == 9


def at(stage) -> Standing:
    """A release at a stage."""
    told = Told()("drafted")
    if stage == "draft":
        return told.of()
    told.frozen()
    if stage == "frozen":
        return told.of()
    told.candidate()
    if stage == "rejected":
        return told.gated(False).of()
    for name, step in (
        ("candidate", lambda: told),
        ("gated", told.gated),
        ("trial", lambda: told("trial")),
        ("eligible", lambda: told("eligible")),
        ("active", told.active),
    ):
        step()
        if name == stage:
            return told.of()
    return (told("rolled back") if stage == "rolled back" else told.release("BR-002").active("BR-002")).of()


MAY = {
    "draft": {"freeze"},
    "frozen": {"amend", "candidate", "reject"},
    "candidate": {"amend", "candidate", "gate", "reject"},
    "gated": {"amend", "trial", "reject"},
    "trial": {"reject"},
    "eligible": {"amend", "reject", "activate"},
    "active": {"amend"},
    "superseded": {"amend"},
    "rolled back": {"amend"},
    "rejected": {"amend", "candidate"},
}


@pytest.mark.parametrize(("stage", "doing"), list(itertools.product(MAY, COMMANDS)))
def test_what_does_not_follow_is_refused_in_words(stage, doing):
    standing = at(stage)
    assert standing.stage == stage
    if doing in MAY[stage]:
        standing.refuse_unless(doing)
        return
    with pytest.raises(Refused) as refused:
        standing.refuse_unless(doing)
    assert refused.value.message.startswith("BR-001 v1 ")
    assert "frozenset" not in refused.value.message
    assert "machine" in refused.value.next_step


@pytest.mark.parametrize(
    ("stage", "doing", "message", "step"),
    [
        ("draft", "gate", "BR-001 v1 is a draft that is not frozen yet, so it cannot go through its gates",
         "machine release freeze BR-001"),
        ("draft", "amend", "BR-001 v1 is a draft that is not frozen yet, so it cannot be amended",
         "edit its preregistration.yaml as it is, then machine release freeze BR-001"),
        ("frozen", "freeze", "BR-001 v1 is frozen already, and does not change any more",
         "machine train run --yes, then machine release candidate BR-001"),
        ("active", "freeze", "BR-001 v1 is frozen already, and does not change any more",
         'machine release rollback, should it disappoint; or, to change it, machine release amend BR-001 --reason "..."'),
        ("rejected", "trial", "BR-001 v1 was rejected (failed better), so it cannot go into trial",
         'machine release amend BR-001 --reason "..."'),
        ("trial", "amend", "BR-001 v1 is in trial, so it cannot be amended",
         'machine release reject BR-001 --reason "...", then amend it'),
    ],
)  # fmt: skip
def test_the_refusals_read_well(stage, doing, message, step):
    with pytest.raises(Refused) as refused:
        at(stage).refuse_unless(doing)
    assert (refused.value.message, refused.value.next_step) == (message, step)


def test_one_supersedes_the_other_and_rollbacks_go_back_one_by_one():
    told = Told().release("BR-001").release("BR-002").active("BR-001").active("BR-002")
    assert (told.of("BR-001").stage, told.of("BR-001").why) == ("superseded", "by BR-002")
    assert told.ledger.now.served == Served("tinker/br-002-v1", "tinker://BR-002-1", "BR-002")
    told("rolled back", "BR-002")
    assert (told.of("BR-002").stage, told.of("BR-001").stage) == ("rolled back", "active")
    assert told.ledger.now.release == "BR-001"
    told("rolled back", "BR-001")
    assert told.ledger.now is None
    assert told.of("BR-001").stage == "rolled back"


def test_an_amendment_leaves_what_is_active():
    told = Told().release().active()("amended", version=2, reason="more cases")
    assert (told.of().version, told.of().stage, told.of().why) == (2, "draft", "more cases")
    assert told.of().candidate is None
    assert told.ledger.now.version == 1
    other = Told()
    other.entries = list(told.entries)
    other.release("BR-002").active("BR-002")
    assert (other.of().version, other.of().stage) == (2, "draft"), "the draft was not superseded, v1 was"
    other("rolled back", "BR-002")
    assert (other.of().version, other.of().stage, other.ledger.now.version) == (2, "draft", 1)
    told("rolled back", version=1, reason="worse")
    assert (told.of().version, told.of().stage) == (2, "draft"), "the draft goes on when v1 is rolled back"
    assert told.ledger.now is None


def test_a_version_follows_the_one_before_and_goes_back_to_it():
    told = Told().release().active()("amended", version=2, reason="more").release(version=2).active(version=2)
    assert (told.of().version, told.of().stage) == (2, "active")
    told("rolled back", version=2)
    assert (told.of().version, told.of().stage, told.ledger.now.version) == (2, "rolled back", 1)


def test_failed_candidates_are_counted_in_their_version():
    told = Told()("drafted").frozen().candidate().gated(False).candidate(run="other").gated(False)
    assert (told.of().failed, told.of().stage, told.of().why) == (2, "rejected", "failed better")
    told.candidate(run="third")
    assert (told.of().failed, told.of().stage, told.of().verdicts) == (2, "candidate", None)
    told.gated(False)("amended", version=2, reason="smaller")
    assert told.of().failed == 0


def test_forced_stays_for_ever():
    told = Told()("drafted").frozen().candidate().active(forced="the boss said so")
    told("rolled back")("amended", version=2, reason="properly now").release(version=2).active(version=2)
    assert told.of().forced == "the boss said so"


def test_what_was_given_is_not_drawn_again_for_the_same_run():
    told = Told()("drafted").frozen().candidate()("gating", run=RUN, given={"fresh": "24 fresh seeds, aa"})
    assert told.of().gating["given"] == {"fresh": "24 fresh seeds, aa"}
    told.candidate()
    assert told.of().gating["given"] == {"fresh": "24 fresh seeds, aa"}, "named again, it keeps what it was given"
    told.candidate(run="other")
    assert told.of().gating is None
    told.candidate()
    assert told.of().gating["given"] == {"fresh": "24 fresh seeds, aa"}


def test_which_release_is_meant():
    empty, one = Ledger(), Told()("drafted").ledger
    assert one.of(None).release == "BR-001"
    with pytest.raises(Refused, match="no release yet"):
        empty.of(None)
    with pytest.raises(Refused, match=r"there is no release BR-002 \(there are BR-001\)"):
        one.of("BR-002")
    with pytest.raises(Refused, match="several releases: BR-001, BR-002"):
        Told()("drafted")("drafted", "BR-002").ledger.of(None)


@pytest.mark.parametrize("step", ["frozen", "candidate", "gated", "amended", "activated", "rejected", "gating"])
def test_an_entry_that_cannot_be_read_is_told_and_counts_for_nothing(step):
    told = Told()("drafted")(step)
    found = ledger(told.entries)
    assert found.of(None).stage == "draft"
    assert [each[:19] for each in found.unread] == ["entry 2 of the log "]


def test_what_a_log_that_was_set_aside_held_is_no_release_of_this_one():
    told = Told()("restarted", "", 0)("rolled back", "BR-009", 0, reason="of the old log")
    assert told.ledger.releases == {}
