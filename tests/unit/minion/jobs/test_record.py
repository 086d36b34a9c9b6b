from __future__ import annotations

import pytest

from catena.core.errors import InvalidStateError
from catena.core.fsm import Actor
from catena.minion.jobs.lifecycle import ATTENDED, MACHINE, OPEN, JobEvent, Stage
from catena.minion.jobs.record import Job, JobTable

JID = "20260101000000000001"
RUNS = (JobEvent.start, JobEvent.fork, JobEvent.attach)


def test_table_forgets_a_job_that_the_master_has_stored() -> None:
    jobs = JobTable()
    job = jobs.add(Job(JID))
    for cause in (*RUNS, JobEvent.outcome, JobEvent.keep):
        jobs.move(job, cause)
    assert jobs.get(JID) is job
    jobs.move(job, JobEvent.store, Actor.system)
    assert jobs.get(JID) is None and not jobs.needs_attention


def test_table_lists_jobs_by_stage_and_only_those_that_need_attention() -> None:
    jobs = JobTable()
    job = jobs.add(Job(JID))
    assert not jobs.needs_attention
    jobs.move(job, JobEvent.start)
    jobs.move(job, JobEvent.postpone)
    assert jobs.attended(Stage.postponed) == [job] and jobs.attended(Stage.running) == []
    jobs.move(job, JobEvent.retry)
    jobs.move(job, JobEvent.fail)
    assert jobs.attended(*ATTENDED) == [job]
    jobs.move(job, JobEvent.keep)
    assert not jobs.needs_attention


@pytest.mark.parametrize("cause", [JobEvent.store, JobEvent.keep, JobEvent.fork, JobEvent.kill])
def test_table_refuses_what_a_queued_job_can_not_meet(cause: JobEvent) -> None:
    jobs = JobTable()
    job = jobs.add(Job(JID))
    with pytest.raises(InvalidStateError):
        jobs.move(job, cause)
    assert job.stage is Stage.queued and jobs.get(JID) is job


def test_each_open_job_can_fail_and_a_killed_one_never_begins_again() -> None:
    assert all(MACHINE.after(stage, JobEvent.fail, Actor.agent) is Stage.owed for stage in OPEN)
    assert MACHINE.after(Stage.stopping, JobEvent.requeue, Actor.agent) is None
    assert MACHINE.after(Stage.stopping, JobEvent.attach, Actor.agent) is Stage.stopping
