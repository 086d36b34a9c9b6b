"""Whom SSH visits when, what a look means, and where a visit leaves a host."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.chain_calls import CLEAN, RESUME, START
from catena.core.run_ref import RunRef
from catena.master.jobs.delivery import Delivery
from catena.master.push import decide
from catena.master.push.decide import (
    Boot,
    End,
    Ended,
    Errand,
    HostFacts,
    Known,
    OpenJob,
    Seen,
    Verdict,
)
from catena.master.push.lifecycle import HOST, HostEvent, HostState

ONE, TWO = "20261121200000000001", "20261121200000000002"
NOW = 1000.0


def job(jid: str = ONE, fun: str = START, state: str = "queued", **more: Any) -> OpenJob:
    return OpenJob(jid, fun, Delivery(state), **more)


def facts(state: str = "wanted", **more: Any) -> HostFacts:
    return HostFacts(HostState(state), **more)


# -- who is visited when -----------------------------------------------------------------------


def test_a_job_is_what_a_visit_is_for() -> None:
    assert decide.errand(facts(jobs=(job(),)), NOW) == Errand(job())


def test_what_a_host_has_begun_goes_before_what_waits() -> None:
    begun = job(TWO, "cmd.run", "running")
    assert decide.errand(facts(jobs=(job(), begun)), NOW) == Errand(begun)


def test_a_run_is_forgotten_before_another_one_starts() -> None:
    clean = job(TWO, CLEAN)
    assert decide.errand(facts(jobs=(job(), clean)), NOW) == Errand(clean)


def test_what_never_began_is_given_up_when_its_time_is_over() -> None:
    sent = job(state="sent", not_after=NOW - 1)
    assert decide.too_late(facts("away", jobs=(sent,)), NOW) == [sent]
    # Somebody is just there.
    assert decide.too_late(facts("visited", jobs=(sent,)), NOW) == []
    begun = job(state="running", not_after=NOW - 1)
    assert decide.too_late(facts("away", jobs=(begun, job(state="sent"))), NOW) == []
    # A run is forgotten before a chain that only was on its way.
    clean = job(TWO, CLEAN)
    assert decide.errand(facts(jobs=(job(state="sent"), clean)), NOW) == Errand(clean)


def test_a_chain_behind_another_one_waits_and_other_jobs_do_not() -> None:
    behind = job(behind=True)
    assert decide.errand(facts(jobs=(behind,)), NOW) is None
    assert decide.next_time(facts(jobs=(behind,))) is None
    other = job(TWO, "test.ping")
    assert decide.errand(facts(jobs=(behind, other)), NOW) == Errand(other)


def test_nobody_is_visited_twice_at_a_time_or_before_the_pause_is_over() -> None:
    assert decide.errand(facts("visited", jobs=(job(),)), NOW) is None
    away = facts("away", due=NOW + 1, jobs=(job(),))
    assert decide.errand(away, NOW) is None
    assert decide.next_time(away) == NOW + 1
    assert decide.errand(away, NOW + 1) == Errand(job())


def test_a_clock_that_is_set_back_makes_no_pause_longer() -> None:
    assert decide.pause_ends(NOW + 60, NOW, 240) == NOW + 60
    assert decide.pause_ends(NOW + 240, NOW, 240) == NOW + 240
    assert decide.pause_ends(NOW + 24 * 3600, NOW, 240) == 0.0


def test_a_host_that_was_never_seen_is_looked_at_and_again_until_it_is() -> None:
    assert decide.errand(facts(seen=False), NOW) == Errand()
    assert decide.errand(facts("away", seen=False), NOW) == Errand()
    assert decide.errand(facts("resting"), NOW) is None
    # Whoever asked has been told why it can't be used.
    assert decide.errand(facts("unfit", seen=False), NOW) is None


def test_a_reboot_that_has_had_its_time_is_looked_for() -> None:
    rebooting = facts("resting", looks=(NOW + 240,))
    assert decide.errand(rebooting, NOW) is None
    assert decide.next_time(rebooting) == NOW + 240
    assert decide.errand(rebooting, NOW + 240) == Errand()


def test_a_host_with_nothing_to_do_rests() -> None:
    assert decide.rests(facts("away"))
    assert not decide.rests(facts("away", jobs=(job(),)))
    assert not decide.rests(facts("resting"))
    assert not decide.rests(facts("visited"))
    assert not decide.rests(facts("wanted", seen=False))


# -- boots -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Boot("a"), Boot("a"), True),
        (Boot("a"), Boot("b"), False),
        # The ids say it, whatever the clocks do.
        (Boot("a", "2026-11-21T20:00:00+00:00"), Boot("b", "2026-11-21T20:00:00+00:00"), False),
        (Boot("", "2026-11-21T20:00:00+00:00"), Boot("", "2026-11-21T20:00:03+00:00"), True),
        (Boot("", "2026-11-21T20:00:00+00:00"), Boot("", "2026-11-21T20:00:04+00:00"), False),
        # A day later at the same time of day is another boot.
        (Boot("", "2026-11-21T20:00:00+00:00"), Boot("", "2026-11-22T20:00:00+00:00"), False),
        (Boot("a"), Boot(""), True),
        (Boot("", "soon"), Boot("", "late"), True),
    ],
)
def test_boots_are_told_apart_by_their_ids_else_by_three_seconds(
    one: Boot, other: Boot, same: bool
) -> None:
    assert one.is_same(other) is same
    assert other.is_same(one) is same


# -- looks -------------------------------------------------------------------------------------


def seen(pending: dict[str, Any] | None = None, boot: str = "b2", **more: Any) -> Seen:
    return Seen("m1", Boot(boot), pending or {}, **more)


def known(**more: Any) -> Known:
    return Known(**{"machine_id": "m1", "open_chains": {5: "night"}, **more})


POINT = {"actionchain_id": 5, "boot_id": "b1", "persist_boot_time": ""}


def test_a_new_boot_with_a_waiting_chain_plays_the_start_event_once() -> None:
    assert decide.judge("web1", seen(POINT), known(), None) == Verdict(play=True)
    just_now = known(played="b2", long_ago=False)
    assert decide.judge("web1", seen(POINT), just_now, None) == Verdict()
    assert decide.judge("web1", seen(POINT), known(played="b2"), None).play


def test_the_same_boot_waits_and_is_reminded_when_its_time_is_over() -> None:
    assert decide.judge("web1", seen(POINT, "b1"), known(), None) == Verdict()
    assert decide.judge("web1", seen(POINT, "b1"), known(overdue=True), None).remind
    just_now = known(overdue=True, long_ago=False)
    assert decide.judge("web1", seen(POINT, "b1"), just_now, None) == Verdict()


def test_a_last_reboot_is_proven_without_a_resume_file() -> None:
    asked = known(asked_in=(Boot("b1"),))
    assert decide.judge("web1", seen(), asked, None).play
    assert not decide.judge("web1", seen(boot="b1"), asked, None).play


def test_a_chunk_that_was_cut_off_is_resumed_in_the_same_boot() -> None:
    taken = {**POINT, "boot_id": "b2", "running": True}
    assert decide.judge("web1", seen(taken), known(), None).play
    assert not decide.judge("web1", seen(taken), known(resuming=True), None).play


def test_what_waits_there_of_somebody_else_is_not_resumed() -> None:
    assert decide.judge("web1", seen(POINT), known(open_chains={}), None) == Verdict()


def test_another_machine_under_the_name_waits_for_a_person() -> None:
    other = Seen("m2", Boot("b9"))
    verdict = decide.judge("web1", other, known(), job(), 5)
    assert not verdict.go
    assert "m2" in verdict.person and "m1" in verdict.person
    assert "catena chain cancel 5" in verdict.person
    # A host that is set up anew between two chains is no secret.
    assert decide.judge("web1", other, known(open_chains={}), job(), 6).go


def test_a_chain_of_nobody_fails_the_new_one_with_the_command_that_clears_it() -> None:
    stranger = {**POINT, "actionchain_id": 77}
    verdict = decide.judge("web1", seen(stranger), known(), job(), 5)
    assert not verdict.go
    assert "chain 77, of which this master knows nothing" in verdict.refuse
    assert verdict.refuse.endswith("catena run web1 mgractionchains.clean")


def test_a_chain_waits_behind_one_that_this_master_knows() -> None:
    both = known(open_chains={5: "night", 6: "day"})
    verdict = decide.judge("web1", seen(POINT, "b1"), both, job(TWO), 6)
    assert not verdict.go
    assert verdict.wait == "waits behind night"
    assert not verdict.refuse


def test_a_chain_that_is_over_here_and_waits_there_is_forgotten_first() -> None:
    run = RunRef(5, 1)
    over = known(open_chains={6: "day"}, ended_runs=frozenset({run}))
    waits = seen({**POINT, "epoch": 1}, "b1")
    verdict = decide.judge("web1", waits, over, job(TWO), 6)
    assert (verdict.go, verdict.forget) == (False, run)
    # A newer run of that chain is queued: it is not what waits there.
    queued = known(
        open_chains={6: "day", 5: "night"}, ended_runs=frozenset({run}), epochs={6: 1, 5: 2}
    )
    assert decide.judge("web1", waits, queued, job(TWO), 6).forget == run


def test_its_own_resume_file_does_not_keep_a_chain_from_going_on() -> None:
    assert decide.judge("web1", seen(POINT, "b1"), known(resuming=True), job(), 5).go


def test_a_resume_file_that_is_malformed_fails_the_new_chain() -> None:
    text = "malformed resume file /x: not signed; to give that chain up: catena run <minion> y"
    verdict = decide.judge("web1", seen(fault=text), known(), job(), 5)
    assert verdict.refuse == (
        "malformed resume file /x: not signed; to give that chain up: "
        "catena run web1 mgractionchains.clean"
    )
    # A run that has begun is followed all the same.
    assert decide.judge("web1", seen(fault=text), known(), job(state="running"), 5).go


# -- how a visit ends --------------------------------------------------------------------------


def test_a_host_that_is_away_is_tried_again_later_and_later() -> None:
    tries, pauses = 0, []
    for _ in range(8):
        left = decide.leave(Ended(End.away, "connect: refused"), job(), tries, NOW)
        assert left.event is HostEvent.lose and not left.reject
        pauses.append(left.due - NOW)
        tries = left.tries
    assert pauses == [2, 5, 10, 20, 40, 60, 60, 60]


def test_what_was_never_begun_fails_where_the_host_cannot_be_used() -> None:
    left = decide.leave(Ended(End.fault, "authenticate: no"), job(state="sent"), 0, NOW)
    assert (left.event, left.reject) == (HostEvent.leave, "authenticate: no")


@pytest.mark.parametrize(
    "begun", [job(state="received"), job(state="running"), job(fun=RESUME, state="sent")]
)
def test_a_chain_in_its_midst_waits_for_a_host_that_cannot_be_used(begun: OpenJob) -> None:
    left = decide.leave(Ended(End.fault, "install: no space left"), begun, 0, NOW)
    assert left.event is HostEvent.fail
    assert not left.reject
    assert left.due > NOW


def test_a_person_is_waited_for_and_the_host_tried_all_the_same() -> None:
    left = decide.leave(Ended(End.person, "host key: changed"), job(), 0, NOW)
    assert left.event is HostEvent.refuse
    assert left.due == NOW + decide.PERSON_SECONDS


@pytest.mark.parametrize("ended", [Ended(end) for end in End])
@pytest.mark.parametrize("what", [None, job(), job(state="running")])
def test_every_end_of_a_visit_is_in_the_life_cycle(ended: Ended, what: OpenJob | None) -> None:
    left = decide.leave(ended, what, 3, NOW)
    assert HOST.allows(HostState.visited, left.event)


# -- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "more", "text"),
    [
        ("wanted", {"seen": False}, "over SSH: to be looked at"),
        ("wanted", {}, "over SSH: waits for a free place"),
        ("visited", {}, "over SSH: run: 3/5 since 20:00:00"),
        ("visited", {"tries": 2}, "over SSH: not reached since 20:00:00, tried again now"),
        ("away", {}, "over SSH: not reached since 20:00:00 (run: 3/5), again at 20:01:00"),
        (
            "away",
            {"jobs": (job(state="running"),)},
            "over SSH: not reached since 20:00:00 (run: 3/5), again at 20:01:00; what runs there "
            "goes on and waits for the master",
        ),
        ("resting", {"looks": (NOW,)}, "over SSH: looked at again at 20:01:00"),
        ("refused", {}, "over SSH: waits for a person since 20:00:00: run: 3/5"),
        ("unfit", {}, "over SSH: can't be used since 20:00:00: run: 3/5"),
    ],
)
def test_a_host_says_in_words_where_it_stands(state: str, more: dict[str, Any], text: str) -> None:
    found = decide.words(facts(state, **more), "run: 3/5", "20:00:00", "20:01:00", False)
    assert found == text
