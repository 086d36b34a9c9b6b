"""A power failure at every step of everything that writes durable files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.clock import SystemClock
from catena.core.job import (
    JobReturn,
    JobSpec,
)
from catena.minion.jobs.folder import Claim
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.seen import SeenJobs
from catena.minion.jobs.store import JobStore
from catena.runtime.chain_store import ChainStore
from catena.transport import wire
from catena.transport.messages import JobReturned
from tests.sim import world
from tests.sim.cut_cases import (
    JID,
    MANIFEST,
    Files,
    assert_journal_keeps_appended_records,
    nothing,
    point,
    resume_file,
)
from tests.sim.cuts import Bench
from tests.sim.host import Fate
from tests.sim.world import Order, Wish, World

#: Of the steps of a whole chain, each so-many-th is cut; 1: all (`make test-cuts`).
EVERY = int(os.environ.get("CATENA_SIM_CUTS_EVERY", "12"))


# -- the journal ----------------------------------------------------------------------------------


def test_journal_keeps_appended_records_and_at_most_the_unfinished_one(
    below: Path,
) -> None:
    assert_journal_keeps_appended_records(below)


# -- the resume file ------------------------------------------------------------------------------


def with_first_point(root: Path) -> None:
    resume_file(root).write(point(2))


def test_resume_file_is_old_or_new_and_new_after_its_write_returned(below: Path) -> None:
    def write(root: Path) -> Iterator[int]:
        resume_file(root).write(point(3))
        yield 3

    for root, kept, _ in Bench(below, with_first_point, write).states():
        found = resume_file(root).waiting()
        assert found is not None and found.chunk in (kept or (2, 3))


def test_first_resume_file_is_durable_with_its_signing_key_after_its_write_returned(
    below: Path,
) -> None:
    def write(root: Path) -> Iterator[int]:
        resume_file(root).write(point(2))
        yield 2

    for root, kept, _ in Bench(below, nothing, write).states():
        found = resume_file(root).waiting()
        assert found is not None if kept else found is None or found.chunk == 2


def test_taken_resume_file_always_has_exactly_one_name(below: Path) -> None:
    def write(root: Path) -> Iterator[str]:
        resume_file(root).take()
        yield "taken"
        resume_file(root).drop_taken()
        yield "dropped"

    for root, kept, _ in Bench(below, with_first_point, write).states():
        file = resume_file(root)
        names = [
            name for name, read in (("waiting", file.waiting), ("taken", file.taken)) if read()
        ]
        if not kept:
            assert names in (["waiting"], ["taken"])
        elif kept == ["taken"]:
            assert names in (["taken"], [])
        else:
            assert names == []


# -- jobs and the outbox --------------------------------------------------------------------------


def a_return(value: str = "x" * 100) -> JobReturn:
    return JobReturn(JID, "test.ping", (), True, 0, value, 1.0, 1.0)


def store_of(root: Path, boot: str = "another boot") -> JobStore:
    return JobStore(root, boot)


def with_store(root: Path) -> None:
    store_of(root)


def with_job(root: Path) -> None:
    store = store_of(root, "boot")
    store.add(JobSpec(JID, "test.ping"), begins=True)
    assert store.folder(JID).claim(Claim(ProcessRef(5, 7, "boot")))


def test_confirmed_job_is_durable_and_a_possibly_started_job_does_not_start_again(
    below: Path,
) -> None:
    def write(root: Path) -> Iterator[str]:
        store = store_of(root, "boot")
        store.add(JobSpec(JID, "test.ping"))
        yield "confirmed"
        store.begin(JID)
        yield "begins"
        store.folder(JID).claim(Claim(ProcessRef(5, 7, "boot")))

    for root, kept, _ in Bench(below, with_store, write).states():
        store = store_of(root)
        found, bad = store.scan()
        assert not bad and (found or not kept)
        assert store.folder(JID).is_claimed() or "begins" not in kept


@pytest.mark.parametrize("value", ["small", "x" * 70_000])
def test_return_is_durable_after_it_was_kept(below: Path, value: str) -> None:
    ret = a_return(value)

    def write(root: Path) -> Iterator[str]:
        store = store_of(root, "boot")
        store.folder(JID).finish(wire.pack_body(JobReturned(ret)))
        store.keep_return(store.folder(JID))
        yield "kept"

    for root, kept, _ in Bench(below, with_job, write).states():
        store = store_of(root)
        found, bad = store.scan()
        folder = store.folder(JID)
        assert found and not bad
        if kept or folder.has_return():
            assert folder.read_return(100_000) == ret
        else:
            assert folder.is_claimed()


def with_return(root: Path) -> None:
    with_job(root)
    store = store_of(root, "boot")
    store.folder(JID).finish(wire.pack_body(JobReturned(a_return())))
    store.keep_return(store.folder(JID))
    SeenJobs(root / "seen", 0.0)


def is_known(root: Path) -> bool:
    """Return whether the job is not run again: it is remembered, or its return is there."""
    store = store_of(root)
    found, bad = store.scan()
    seen = JID in SeenJobs(root / "seen", 0.0) or JID in store.ended()
    return not bad and (seen or bool(found and store.folder(JID).has_return()))


def test_ended_job_is_remembered_or_its_return_is_resent(below: Path) -> None:
    def write(root: Path) -> Iterator[str]:
        store_of(root, "boot").end(JID, 9)
        yield "ended"

    assert all(is_known(root) for root, _, _ in Bench(below, with_return, write).states())


def test_job_is_remembered_when_it_is_removed_from_the_log(below: Path) -> None:
    def ended(root: Path) -> None:
        with_return(root)
        store_of(root, "boot").end(JID, 9)

    def write(root: Path) -> Iterator[str]:
        store, seen = store_of(root, "boot"), SeenJobs(root / "seen", 0.0)
        seen.note(JID, 9)
        seen.save()
        store.shrink()
        yield "forgotten"

    for root, kept, _ in Bench(below, ended, write).states():
        assert is_known(root)
        assert not (kept and store_of(root).ended())


# -- a chain that is received ---------------------------------------------------------------------


def test_chain_is_received_completely_or_not_at_all(below: Path) -> None:
    files: Any = Files(below / "chunk")

    def write(root: Path) -> Iterator[str]:
        ChainStore(root, "boot", "one", SystemClock()).receive(MANIFEST, files)
        yield "received"

    for root, kept, _ in Bench(below, nothing, write).states():
        store = ChainStore(root, "boot", "one", SystemClock())
        chain = store.look(7)
        assert chain is not None or not kept
        if chain is not None:
            chain.check_chunk(1)
            assert chain.manifest == MANIFEST
        store.receive(MANIFEST, files)
        again = store.look(7)
        assert again is not None and len(store.chains()) == 1
        again.check_chunk(1)


# -- a whole chain --------------------------------------------------------------------------------

WISHES = (("once", 0.5), ("reboot", 0.0), ("idempotent", 0.5))


def one_chain(made: World) -> None:
    """Leave one minion and one chain over a reboot."""
    made.hosts = {"m1": made.hosts["m1"]}
    made.stage.reboots_work = 1.0
    wishes = [
        Wish(f"chain1.{order}", order, ("m1",), kind, seconds)
        for order, (kind, seconds) in enumerate(WISHES)
    ]
    made.orders = [Order("chain1", wishes, 1.0)]


def cut_job(steps: int, share: float, which: int) -> Callable[[World], None]:
    """Return what cuts the power at a step of a chain's first or second job (0, 1)."""

    def change(made: World) -> None:
        one_chain(made)
        host = made.hosts["m1"]
        host.share_kept = share

        def arm() -> None:
            if host.spawned == which:
                host.next_job = Fate(steps, host.power_cut)

        host.before_job = arm

    return change


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("which", [0, 1])
def test_chain_survives_a_power_failure_at_any_step_of_its_jobs(
    below: Path, share: float, which: int
) -> None:
    for steps in range(which + 1, 90, EVERY):
        outcome = world.run(steps, below, calm=True, change=cut_job(steps, share, which))
        told = "\n    ".join(outcome.violations)
        assert not told, f"cut at step {steps} of job {which}:\n    {told}"


@pytest.mark.parametrize("cut", [False, True])
def test_chain_survives_a_crash_of_the_master_at_any_commit(below: Path, cut: bool) -> None:
    def change(made: World) -> None:
        one_chain(made)
        made.master.commits_left = commits
        made.master.dies_by_cut = cut

    for commits in range(0, 60, EVERY):
        outcome = world.run(commits, below, calm=True, change=change)
        told = "\n    ".join(outcome.violations)
        assert not told, f"end at commit {commits}:\n    {told}"
