from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from catena import modules
from catena.core.job import JobSpec, Payload
from catena.core.marks import QUEUED, RESUMABLE
from catena.core.plugins import FunctionMark, Registry
from catena.minion.jobs.inline import INLINE
from catena.minion.jobs.queue import PARALLEL_LIMIT, JobQueue, QueueEntry, Work, blocker, entry_of
from catena.runtime import functions as runtime_functions
from catena.states import functions as state_functions

CHAIN = Work("chain", 1)


def serial(key: str, chain: int | None = None, resumes: bool = False) -> QueueEntry:
    return QueueEntry(key, True, Work("chain", chain) if chain else None, resumes)


def test_state_runs_go_one_at_a_time_and_in_order() -> None:
    line = JobQueue()
    for key in "abc":
        line.add(serial(key))
    assert [line.position(key) for key in "abc"] == [0, 1, 2]
    assert line.start() == ["a"]
    assert [line.position(key) for key in "abc"] == [0, 1, 2]
    assert line.start() == []
    line.drop("a")
    assert line.start() == ["b"]
    assert line.position("c") == 1


def test_blocker_names_what_a_job_waits_for() -> None:
    runs, chain = serial("a"), serial("c", chain=2)
    assert blocker(serial("b"), [runs], [], None) == "job a is running, and state runs are serial"
    assert blocker(serial("b"), [], [serial("a")], None) == "job a is ahead of it"
    assert blocker(chain, [], [], CHAIN) == "chain 1 continues first"
    assert blocker(serial("b"), [], [chain], CHAIN) == "it begins next"
    many = [QueueEntry(str(number), False) for number in range(PARALLEL_LIMIT)]
    assert (
        blocker(QueueEntry("p", False), many, [], None)
        == "32 jobs are running, which is the maximum"
    )
    assert blocker(QueueEntry("p", False), [runs], [], None) == "it begins next"


def test_other_jobs_pass_state_runs_up_to_the_limit() -> None:
    line = JobQueue(parallel_limit=2)
    for entry in (serial("s"), serial("t"), *(QueueEntry(key, False) for key in "xyz")):
        line.add(entry)
    assert [line.position(key) for key in "xyz"] == [0, 0, 1]
    assert line.start() == ["s", "x", "y"]
    assert line.position("z") == 1
    line.drop("x")
    assert line.start() == ["z"]


def test_start_of_another_chain_waits_for_the_one_that_waits_for_its_boot() -> None:
    line = JobQueue()
    line.add(serial("other", chain=2))
    line.add(serial("apply"))
    line.add(serial("resume", resumes=True))
    assert line.start(held_by=CHAIN) == ["resume"]
    line.drop("resume")
    assert line.start(held_by=CHAIN) == ["apply"]
    line.drop("apply")
    assert line.start(held_by=CHAIN) == []
    assert line.start(held_by=None) == ["other"]


def test_chain_is_not_held_back_by_itself() -> None:
    line = JobQueue()
    line.add(serial("again", chain=1))
    assert line.start(held_by=CHAIN) == ["again"]


def test_dropped_job_leaves_the_queue() -> None:
    line = JobQueue()
    line.add(serial("a"))
    assert line.drop("a") and not line.drop("a")
    assert line.start() == [] and line.waiting() == []


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_state_runs_never_overlap_and_every_job_runs(
    steps: list[tuple[bool, bool]],
) -> None:
    line = JobQueue(parallel_limit=3)
    running: list[str] = []
    for number, (is_serial, ends) in enumerate(steps):
        line.add(QueueEntry(str(number), is_serial))
        running += line.start()
        if ends and running:
            line.drop(running.pop(0))
        assert sum(1 for key in running if steps[int(key)][0]) <= 1
        assert sum(1 for key in running if not steps[int(key)][0]) <= 3
    running += line.start()
    while running:
        line.drop(running.pop(0))
        running += line.start()
    assert line.waiting() == []


@pytest.mark.parametrize("index", [state_functions.INDEX, runtime_functions.INDEX, modules.INDEX])
def test_tables_agree_with_the_marks_of_the_functions(index: dict[str, str]) -> None:
    registry = Registry("function", index, FunctionMark)
    marks = {name: registry[name].mark for name in registry.names()}
    queued = {name for name, mark in marks.items() if mark.queued}
    assert queued == {name for name in QUEUED if name in marks}
    resumable = {name for name, mark in marks.items() if mark.resumable}
    assert resumable == {name for name in RESUMABLE if name in marks}
    assert not [name for name in INLINE if name in marks and not marks[name].inline]


def test_every_name_of_the_tables_is_a_function() -> None:
    index = {**state_functions.INDEX, **runtime_functions.INDEX, "test": modules.INDEX["test"]}
    registry = Registry("function", index, FunctionMark)
    assert [name for name in {*QUEUED, *RESUMABLE, *INLINE} if name not in registry] == []


def test_held_job_and_queued_jobs_say_what_they_wait_for() -> None:
    line = JobQueue()
    line.add(serial("other", chain=2))
    assert (line.position("other", CHAIN), line.behind("other", CHAIN)) == (
        1,
        "chain 1 continues first",
    )
    assert (line.position("other"), line.behind("other")) == (0, "")
    line.start()
    line.add(serial("apply"))
    line.add(serial("last"))
    assert (line.position("apply"), line.behind("apply")) == (
        1,
        "job other is running, and state runs are serial",
    )
    assert (line.position("last"), line.behind("last")) == (
        2,
        "job other is running, and state runs are serial",
    )
    line.drop("other")
    line.start()
    assert (line.position("last"), line.behind("last")) == (
        1,
        "job apply is running, and state runs are serial",
    )
    assert line.behind("apply") == line.behind("nobody") == ""


@pytest.mark.parametrize("kind", ["chain", "playbook"])
def test_payload_of_any_kind_names_the_work_of_a_job(kind: str) -> None:
    spec = JobSpec("1", "playbook.run", payload=Payload(kind, 4, 1, {}))
    assert entry_of(spec).work == Work(kind, 4)
    assert entry_of(JobSpec("1", "playbook.run", (4,))).work is None


def test_chain_that_is_started_by_hand_is_named_by_its_argument() -> None:
    assert entry_of(JobSpec("1", "mgractionchains.start", (8,))).work == Work("chain", 8)
    assert entry_of(JobSpec("1", "mgractionchains.start", ("8",))).work is None
