"""Decisions about visits over SSH."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.chain_calls import CLEAN, RESUME, START
from catena.core.run_ref import RunRef
from catena.master.jobs.delivery import Delivery
from catena.master.push import decide
from catena.master.push.decide import (
    Boot,
    EndedVisit,
    HostFacts,
    HostKnowledge,
    OpenJob,
    Seen,
    VisitEnd,
    VisitPurpose,
    VisitVerdict,
)
from catena.master.push.lifecycle import HOST, HostEvent, HostState

ONE, TWO = "20261121200000000001", "20261121200000000002"
NOW = 1000.0


def job(jid: str = ONE, fun: str = START, state: str = "queued", **more: Any) -> OpenJob:
    return OpenJob(jid, fun, Delivery(state), **more)


def facts(state: str = "wanted", **more: Any) -> HostFacts:
    return HostFacts(HostState(state), **more)


# -- who is visited when -----------------------------------------------------------------------


def test_visit_is_made_for_an_open_job() -> None:
    assert decide.purpose(facts(jobs=(job(),)), NOW) == VisitPurpose(job())


def test_started_job_is_visited_before_a_waiting_one() -> None:
    begun = job(TWO, "cmd.run", "running")
    assert decide.purpose(facts(jobs=(job(), begun)), NOW) == VisitPurpose(begun)


def test_old_run_is_cleaned_before_another_one_starts() -> None:
    clean = job(TWO, CLEAN)
    assert decide.purpose(facts(jobs=(job(), clean)), NOW) == VisitPurpose(clean)


def test_job_that_never_started_is_given_up_after_its_time_limit() -> None:
    sent = job(state="sent", not_after=NOW - 1)
    assert decide.too_late(facts("away", jobs=(sent,)), NOW) == [sent]
    # Somebody is just there.
    assert decide.too_late(facts("visited", jobs=(sent,)), NOW) == []
    begun = job(state="running", not_after=NOW - 1)
    assert decide.too_late(facts("away", jobs=(begun, job(state="sent"))), NOW) == []
    # A run is forgotten before a chain that only was on its way.
    clean = job(TWO, CLEAN)
    assert decide.purpose(facts(jobs=(job(state="sent"), clean)), NOW) == VisitPurpose(clean)


def test_chain_queued_behind_another_waits_while_other_jobs_run() -> None:
    behind = job(behind=True)
    assert decide.purpose(facts(jobs=(behind,)), NOW) is None
    assert decide.next_time(facts(jobs=(behind,))) is None
    other = job(TWO, "test.ping")
    assert decide.purpose(facts(jobs=(behind, other)), NOW) == VisitPurpose(other)


def test_host_is_not_visited_twice_at_once_or_before_its_retry_time() -> None:
    assert decide.purpose(facts("visited", jobs=(job(),)), NOW) is None
    away = facts("away", due=NOW + 1, jobs=(job(),))
    assert decide.purpose(away, NOW) is None
    assert decide.next_time(away) == NOW + 1
    assert decide.purpose(away, NOW + 1) == VisitPurpose(job())


def test_clock_set_back_does_not_extend_a_retry_delay() -> None:
    assert decide.pause_ends(NOW + 60, NOW, 240) == NOW + 60
    assert decide.pause_ends(NOW + 240, NOW, 240) == NOW + 240
    assert decide.pause_ends(NOW + 24 * 3600, NOW, 240) == 0.0


def test_host_that_was_never_seen_is_visited_until_one_visit_succeeds() -> None:
    assert decide.purpose(facts(seen=False), NOW) == VisitPurpose()
    assert decide.purpose(facts("away", seen=False), NOW) == VisitPurpose()
    assert decide.purpose(facts("resting"), NOW) is None
    # Whoever asked has been told why it can't be used.
    assert decide.purpose(facts("unfit", seen=False), NOW) is None


def test_host_is_visited_when_its_reboot_should_be_over() -> None:
    rebooting = facts("resting", looks=(NOW + 240,))
    assert decide.purpose(rebooting, NOW) is None
    assert decide.next_time(rebooting) == NOW + 240
    assert decide.purpose(rebooting, NOW + 240) == VisitPurpose()


def test_host_without_jobs_rests() -> None:
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
def test_boots_are_compared_by_id_or_within_three_seconds_of_boot_time(
    one: Boot, other: Boot, same: bool
) -> None:
    assert one.is_same(other) is same
    assert other.is_same(one) is same


# -- looks -------------------------------------------------------------------------------------


def seen(pending: dict[str, Any] | None = None, boot: str = "b2", **more: Any) -> Seen:
    return Seen("m1", Boot(boot), pending or {}, **more)


def known(**more: Any) -> HostKnowledge:
    return HostKnowledge(**{"machine_id": "m1", "open_chains": {5: "night"}, **more})


POINT = {"actionchain_id": 5, "boot_id": "b1", "persist_boot_time": ""}


def test_start_event_is_fired_once_for_a_waiting_chain_after_a_new_boot() -> None:
    assert decide.judge("web1", seen(POINT), known(), None) == VisitVerdict(play=True)
    just_now = known(played="b2", long_ago=False)
    assert decide.judge("web1", seen(POINT), just_now, None) == VisitVerdict()
    assert decide.judge("web1", seen(POINT), known(played="b2"), None).play


def test_host_in_the_same_boot_is_reminded_of_an_overdue_reboot() -> None:
    assert decide.judge("web1", seen(POINT, "b1"), known(), None) == VisitVerdict()
    assert decide.judge("web1", seen(POINT, "b1"), known(overdue=True), None).remind
    just_now = known(overdue=True, long_ago=False)
    assert decide.judge("web1", seen(POINT, "b1"), just_now, None) == VisitVerdict()


def test_job_of_a_paused_chain_does_not_begin() -> None:
    paused = known(paused="paused by joe")
    for fun in (START, RESUME):
        verdict = decide.judge("web1", seen(), paused, job(fun=fun, state="sent"), 7)
        assert not verdict.go
        assert verdict.pause == "paused by joe"
    assert decide.judge("web1", seen(), paused, job(state="running"), 7).go


def test_paused_chain_is_not_reminded_of_its_reboot() -> None:
    paused = known(overdue=True, paused="paused by joe")
    assert decide.judge("web1", seen(POINT, "b1"), paused, None) == VisitVerdict()


def test_paused_job_causes_no_visit() -> None:
    paused = facts(jobs=(job(state="paused"),))
    assert decide.purpose(paused, 0.0) is None
    text = decide.status_text(paused, "", "10:00", "", False)
    assert text == "over SSH: nothing is sent, its chain must wait"


def test_last_reboot_is_proven_without_a_resume_file() -> None:
    asked = known(asked_in=(Boot("b1"),))
    assert decide.judge("web1", seen(), asked, None).play
    assert not decide.judge("web1", seen(boot="b1"), asked, None).play


def test_interrupted_chunk_is_resumed_in_the_same_boot() -> None:
    taken = {**POINT, "boot_id": "b2", "running": True}
    assert decide.judge("web1", seen(taken), known(), None).play
    assert not decide.judge("web1", seen(taken), known(resuming=True), None).play


def test_waiting_chain_of_another_master_is_not_resumed() -> None:
    assert decide.judge("web1", seen(POINT), known(open_chains={}), None) == VisitVerdict()


def test_changed_machine_id_of_a_host_waits_for_a_decision() -> None:
    other = Seen("m2", Boot("b9"))
    verdict = decide.judge("web1", other, known(), job(), 5)
    assert not verdict.go
    assert "m2" in verdict.person and "m1" in verdict.person
    assert "catena chain cancel 5" in verdict.person
    # A host that is set up anew between two chains is no secret.
    assert decide.judge("web1", other, known(open_chains={}), job(), 6).go


def test_unknown_chain_fails_the_new_one_and_the_error_names_the_clearing_command() -> None:
    stranger = {**POINT, "actionchain_id": 77}
    verdict = decide.judge("web1", seen(stranger), known(), job(), 5)
    assert not verdict.go
    assert "chain 77, which is unknown to this master" in verdict.refuse
    assert verdict.refuse.endswith("catena run web1 mgractionchains.clean")


def test_chain_waits_behind_a_known_chain_on_the_host() -> None:
    both = known(open_chains={5: "night", 6: "day"})
    verdict = decide.judge("web1", seen(POINT, "b1"), both, job(TWO), 6)
    assert not verdict.go
    assert verdict.wait == "waits behind night"
    assert not verdict.refuse


def test_ended_chain_that_still_waits_on_the_host_is_cleaned_first() -> None:
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


def test_resume_file_without_an_epoch_means_the_open_run() -> None:
    under_way = known(epochs={5: 2})
    assert decide.judge("web1", seen(POINT), under_way, None).play
    assert decide.judge("web1", seen({**POINT, "epoch": 2}), under_way, None).play
    assert not decide.judge("web1", seen({**POINT, "epoch": 1}), under_way, None).play


def test_resume_file_without_an_epoch_of_an_ended_chain_is_cleaned() -> None:
    ended = frozenset({RunRef(5, 1), RunRef(5, 3), RunRef(4, 7)})
    over = known(open_chains={6: "day"}, ended_runs=ended)
    assert decide.judge("web1", seen(POINT, "b1"), over, job(TWO), 6).forget == RunRef(5, 3)
    named = seen({**POINT, "epoch": 2}, "b1")
    verdict = decide.judge("web1", named, over, job(TWO), 6)
    assert (verdict.forget, verdict.go) == (
        None,
        False,
    ) and "unknown to this master" in verdict.refuse


def test_chain_is_resumed_despite_its_own_resume_file() -> None:
    assert decide.judge("web1", seen(POINT, "b1"), known(resuming=True), job(), 5).go


def test_resume_file_that_is_malformed_fails_the_new_chain() -> None:
    text = "malformed resume file /x: not signed; to give that chain up: catena run <minion> y"
    verdict = decide.judge("web1", seen(fault=text), known(), job(), 5)
    assert verdict.refuse == (
        "malformed resume file /x: not signed; to give that chain up: "
        "catena run web1 mgractionchains.clean"
    )
    # A run that has begun is followed all the same.
    assert decide.judge("web1", seen(fault=text), known(), job(state="running"), 5).go


# -- how a visit ends --------------------------------------------------------------------------


def test_unreachable_host_is_retried_with_growing_delays() -> None:
    tries, pauses = 0, []
    for _ in range(8):
        left = decide.leave(EndedVisit(VisitEnd.away, "connect: refused"), job(), tries, NOW)
        assert left.event is HostEvent.lose and not left.reject
        pauses.append(left.due - NOW)
        tries = left.tries
    assert pauses == [2, 5, 10, 20, 40, 60, 60, 60]


def test_job_that_never_started_fails_on_an_unusable_host() -> None:
    left = decide.leave(EndedVisit(VisitEnd.fault, "authenticate: no"), job(state="sent"), 0, NOW)
    assert (left.event, left.reject) == (HostEvent.leave, "authenticate: no")


@pytest.mark.parametrize(
    "begun", [job(state="received"), job(state="running"), job(fun=RESUME, state="sent")]
)
def test_started_chain_waits_for_an_unusable_host(begun: OpenJob) -> None:
    left = decide.leave(EndedVisit(VisitEnd.fault, "install: no space left"), begun, 0, NOW)
    assert left.event is HostEvent.fail
    assert not left.reject
    assert left.due > NOW


def test_host_that_waits_for_a_decision_is_still_retried() -> None:
    left = decide.leave(EndedVisit(VisitEnd.person, "host key: changed"), job(), 0, NOW)
    assert left.event is HostEvent.refuse
    assert left.due == NOW + decide.PERSON_SECONDS


@pytest.mark.parametrize("ended", [EndedVisit(end) for end in VisitEnd])
@pytest.mark.parametrize("what", [None, job(), job(state="running")])
def test_every_end_of_a_visit_is_an_allowed_transition(
    ended: EndedVisit, what: OpenJob | None
) -> None:
    left = decide.leave(ended, what, 3, NOW)
    assert HOST.allows(HostState.visited, left.event)


# -- status texts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "more", "text"),
    [
        ("wanted", {"seen": False}, "over SSH: waits for its first visit"),
        ("wanted", {}, "over SSH: waits for a free visit slot"),
        ("visited", {}, "over SSH: run: 3/5 since 20:00:00"),
        ("visited", {"tries": 2}, "over SSH: not reached since 20:00:00, retrying now"),
        ("away", {}, "over SSH: not reached since 20:00:00 (run: 3/5), next try at 20:01:00"),
        (
            "away",
            {"jobs": (job(state="running"),)},
            "over SSH: not reached since 20:00:00 (run: 3/5), next try at 20:01:00; its running "
            "job continues and keeps the result",
        ),
        ("resting", {"looks": (NOW,)}, "over SSH: next visit at 20:01:00"),
        ("refused", {}, "over SSH: waits for a person since 20:00:00: run: 3/5"),
        ("unfit", {}, "over SSH: can't be used since 20:00:00: run: 3/5"),
    ],
)
def test_host_status_is_described_in_words(state: str, more: dict[str, Any], text: str) -> None:
    found = decide.status_text(facts(state, **more), "run: 3/5", "20:00:00", "20:01:00", False)
    assert found == text
