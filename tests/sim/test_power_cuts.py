"""A power failure at every step of everything that writes durable files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.clock import SystemClock
from catena.core.context import FileEntry
from catena.core.digest import sha256
from catena.core.job import (
    ActionKind,
    ActionManifest,
    Boundary,
    ChainManifest,
    ChunkManifest,
    JobReturn,
    JobSpec,
)
from catena.minion.jobs.folder import Claim
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.seen import SeenJobs
from catena.minion.jobs.store import JobStore
from catena.runtime.chain_store import ChainStore
from catena.runtime.journal import Journal, read_records
from catena.runtime.resume_file import ResumeFile, ResumePoint
from catena.transport import wire
from catena.transport.messages import JobReturned
from tests.sim import world
from tests.sim.cuts import Bench
from tests.sim.host import Fate
from tests.sim.world import Order, Wish, World

JID = "20260101000000000001"
#: Of the steps of a whole chain, each so-many-th is cut; 1: all (`make test-cuts`).
EVERY = int(os.environ.get("CATENA_SIM_CUTS_EVERY", "12"))


def nothing(root: Path) -> None:
    """Nothing was there before."""


# -- the journal ----------------------------------------------------------------------------------


def test_journal_keeps_appended_records_and_at_most_the_unfinished_one(
    below: Path,
) -> None:
    states = journals_after_power_cuts(below)
    assert len(states) > 30
    for appended, found, after in states:
        assert found[: len(appended)] == appended and len(found) <= len(appended) + 1
        assert after == [*found, 9]


def journals_after_power_cuts(below: Path) -> list[tuple[list[int], list[int], list[int]]]:
    """Cut the power at every step of three appends to a journal.

    Return for each state of the disk the records whose append had returned, those that are read
    then, and those that are read after record 9 was appended.
    """

    def write(root: Path) -> Iterator[int]:
        with Journal(root / "journal") as journal:
            for number in range(3):
                journal.append({"kind": "x", "n": number, "fill": "y" * 40})
                yield number

    def read(root: Path) -> list[int]:
        return [record["n"] for record in read_records(root / "journal")]

    states = []
    for root, appended, _ in Bench(below, nothing, write).states():
        found = read(root)
        with Journal(root / "journal") as journal:
            journal.append({"kind": "x", "n": 9})
        states.append((list(appended), found, read(root)))
    return states


# -- the resume file ------------------------------------------------------------------------------


def point(chunk: int) -> ResumePoint:
    return ResumePoint(
        next_chunk=f"actionchains.actionchain_7_mach_{chunk}",
        actionchain_id=7,
        chunk=chunk,
        next_action_id=chunk,
        persist_boot_time="",
        boot_id="boot-1",
        session="one",
        boundary="reboot",
        sha256="0" * 64,
        epoch=1,
        ssh_extra_filerefs="",
    )


def resume_file(root: Path) -> ResumeFile:
    return ResumeFile(root / "conf", root / "pki")


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

TEXT = b"state:\n  test.nop: []\n"
MANIFEST = ChainManifest(
    7,
    "mach",
    1,
    (
        ChunkManifest(
            1,
            "actionchains.actionchain_7_mach_1",
            sha256(TEXT).hexdigest(),
            len(TEXT),
            Boundary.none,
            (ActionManifest(1, "state", ActionKind.once),),
        ),
    ),
)


class Files:
    """A file server with one chunk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(TEXT)

    def fetch(self, path: str, saltenv: str = "base") -> Path | None:
        """As FileClient."""
        return self._path

    def entry(self, path: str, saltenv: str = "base") -> FileEntry | None:
        """As FileClient."""
        return None


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
