"""The agent without sockets and processes: a full disk, a chain that waits too long."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catena.core.clock import ManualClock
from catena.core.config.minion import MinionSettings
from catena.core.events import own_tag
from catena.core.job import BOUNDARY_SECONDS, ChainManifest, JobReturn, JobSpec
from catena.core.records import encode
from catena.minion import upgrade
from catena.minion.agent import CONFIRM_AGAIN_SECONDS, HOLD_DEADLINES, Agent, Ports
from catena.minion.jobs.folder import ReturnExtras
from catena.minion.jobs.follow_up import Commands
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.receipts import QUICK_SECONDS
from catena.minion.log import Log
from catena.minion.start.blob import StartData
from catena.runtime import chain_store
from catena.transport import wire
from catena.transport.messages import (
    Envelope,
    EventFired,
    EventStored,
    GrainsUpdate,
    JobOrder,
    JobReceived,
    JobReturned,
    Welcome,
)


class NoProcesses:
    """No job is run."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: False


class OneProcess(NoProcesses):
    """One process waits, and is given any job."""

    def free(self, fun: str) -> ProcessRef:
        return ProcessRef(7, 7, "boot")

    def give(self, *_: object) -> bool:
        return True

    def next_due(self) -> None:
        return None


def no_link(now: float) -> Any:
    raise OSError(errno.ECONNREFUSED, "nobody is there")


def agent(
    folder: Path,
    clock: ManualClock | None = None,
    open_chain: int = 0,
    processes: type[NoProcesses] = NoProcesses,
) -> Agent:
    (folder / "boot").write_text("boot")
    settings = replace(
        MinionSettings(),
        cache_dir=str(folder / "cache"),
        pki_dir=str(folder / "pki"),
        boot_id_file=str(folder / "boot"),
    )
    clock = clock or ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    log = Log.open(str(folder / "log"), "info", clock)
    ports = Ports(no_link, lambda *_: processes(), Commands(), lambda: None)
    start = StartData(settings, "web1", "m" * 32, str(folder), open_chain=open_chain)
    return Agent(start, clock, log, ports)


def test_new_version_is_confirmed_once_a_full_disk_has_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, confirmed = [True], []

    def confirm(cache_dir: Path, session: str) -> bool:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        confirmed.append(session)
        return True

    monkeypatch.setattr(upgrade, "confirm", confirm)
    made = agent(tmp_path)
    made.on_welcome(Welcome("1", 15), 0.0)
    assert made.next_due(0.0) <= CONFIRM_AGAIN_SECONDS
    full[0] = False
    made.service(CONFIRM_AGAIN_SECONDS)
    made.service(2 * CONFIRM_AGAIN_SECONDS)
    assert len(confirmed) == 1


def store_chain(folder: Path, boundary_seconds: int | None) -> None:
    """Let chain 1 lie below *folder*."""
    manifest = ChainManifest(1, "mach1", 1, (), boundary_seconds=boundary_seconds)
    (folder / "chains" / "1").mkdir(parents=True)
    (folder / "chains" / "1" / "manifest.json").write_text(json.dumps(encode(manifest)))


@pytest.mark.parametrize("boundary_seconds", [None, 7200])
@pytest.mark.parametrize("given_up", [True, False])
def test_chain_waits_behind_one_without_its_reboot_until_the_master_gives_that_up(
    tmp_path: Path, given_up: bool, boundary_seconds: int | None
) -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    made = agent(tmp_path, clock, open_chain=1)
    store_chain(made.start.cache_dir, boundary_seconds)
    resume_file = tmp_path / "minion.d" / "_mgractionchains.conf"
    resume_file.parent.mkdir()
    resume_file.touch()
    made.recover()
    jid = "20260301000000000001"
    made.runner.order(JobSpec(jid, "mgractionchains.start", (3,)))
    deadline = 60.0 * made.start.settings.reboot_deadline_minutes
    clock.advance(HOLD_DEADLINES * deadline + (boundary_seconds or BOUNDARY_SECONDS) - 60)
    made.service(clock.monotonic())
    assert made.runner.queue.waiting() == [jid]
    if given_up:
        resume_file.unlink()
    else:
        clock.advance(120)
    made.service(clock.monotonic())
    assert made.runner.queue.waiting() == []


@pytest.mark.parametrize("ended", [True, False])
def test_chain_does_not_wait_behind_one_that_was_given_up_and_left_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """A clean ended the chain, and could not remove the resume file."""
    asked: list[int] = []

    def has_ended(cache_dir: Path, chain: int) -> bool:
        asked.append(chain)
        return ended

    monkeypatch.setattr(chain_store, "has_ended", has_ended)
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    made = agent(tmp_path, clock, open_chain=1)
    resume_file = tmp_path / "minion.d" / "_mgractionchains.conf"
    resume_file.parent.mkdir()
    resume_file.touch()
    made.recover()
    jid = "20260301000000000001"
    made.runner.order(JobSpec(jid, "mgractionchains.start", (3,)))
    made.service(clock.monotonic())
    # No job has reported anything since the chain began to wait.
    assert made.runner.queue.waiting() == [jid] and not asked
    made.on_done("20260301000000000000", ReturnExtras(pending_resume={"actionchain_id": 1}))
    for _ in range(2):
        made.service(clock.monotonic())
    assert asked == [1]
    assert made.runner.queue.waiting() == ([] if ended else [jid])


def test_postponed_job_is_reported_to_the_master_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    made = agent(tmp_path)
    jid = "20260301000000000001"
    for _ in range(3):
        made.on_postponed(jid, "the disk is full")

    def send(_: str, message: Any) -> bool:
        sent.append(message)
        return True

    monkeypatch.setattr(made.link, "send", send)
    made.on_welcome(Welcome("1", 15), 0.0)
    made.service(0.0)
    (fired,) = [message for message in sent if isinstance(message, EventFired)]
    assert fired.tag == f"minion/web1/event/job/{jid}/postponed"
    assert fired.data == {"jid": jid, "reason": "the disk is full"}
    assert own_tag("web1", fired.tag) == fired.tag
    made.on_message(Envelope(b"", b"", EventStored(fired.event_id)), 1.0)
    made.on_postponed(jid, "the disk is full")
    made.service(100.0)
    assert len([message for message in sent if isinstance(message, EventFired)]) == 1


@pytest.mark.parametrize("quick", [True, False])
def test_order_taken_by_an_idle_worker_is_confirmed_by_its_return_or_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: bool
) -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    made = agent(tmp_path, clock, processes=OneProcess)
    said: list[Any] = []

    def send(socket: str, message: Any) -> bool:
        said.append(message)
        return True

    monkeypatch.setattr(made.link, "send", send)
    made.recover()
    made.on_welcome(Welcome("1", 15), clock.monotonic())
    jid = "20260301000000000001"
    order = Envelope(b"", b"", JobOrder(JobSpec(jid, "cmd.run", ("true",))), 1)
    made.on_message(order, clock.monotonic())
    assert not said and made.runner.queue.running() == [jid]
    assert made.next_due(clock.monotonic()) <= clock.monotonic() + QUICK_SECONDS
    body = wire.pack_body(JobReturned(JobReturn(jid, "cmd.run", ("true",), True, 0, "", 0.0, 0.0)))
    if quick:
        made.runner.handed(jid, body)
    clock.advance(QUICK_SECONDS)
    made.service(clock.monotonic())
    assert (JobReceived(jid, 0) in said) == (not quick)
    # The same order again, as a master sends it that has heard nothing.
    made.on_message(order, clock.monotonic())
    assert said.count(JobReceived(jid, 0)) == 1 + (not quick)


class FullLink:
    """A welcomed link whose queue is full until it is emptied."""

    connected, state = True, "connected"

    def __init__(self) -> None:
        self.full = True
        self.sent: list[Any] = []

    def send(self, socket: str, message: Any, *_: object) -> bool:
        if not self.full:
            self.sent.append(message)
        return not self.full

    def service(self, now: float) -> None: ...

    def timeout(self, now: float) -> int:
        return 1000


def test_grains_that_meet_a_full_queue_are_sent_later(tmp_path: Path) -> None:
    made = agent(tmp_path)
    link: Any = FullLink()
    made.link = link
    made.new_grains({"role": "web"})
    assert made.next_due(0.0) < 1.0
    link.full = False
    made.service(1.0)
    made.service(2.0)
    assert [m.grains for m in link.sent if isinstance(m, GrainsUpdate)] == [{"role": "web"}]


def test_order_that_was_answered_inline_never_becomes_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    made = agent(tmp_path, clock)
    said: list[Any] = []

    def send(_: str, message: Any) -> bool:
        said.append(message)
        return True

    monkeypatch.setattr(made.link, "send", send)
    made.recover()
    made.on_welcome(Welcome("1", 15), clock.monotonic())
    resume, start = "20260301000000000001", "20260301000000000002"
    order = Envelope(b"", b"", JobOrder(JobSpec(resume, "mgractionchains.resume")), 1)
    made.on_message(order, clock.monotonic())
    made.on_message(
        Envelope(b"", b"", JobOrder(JobSpec(start, "mgractionchains.start", (7,))), 1),
        clock.monotonic(),
    )
    # The master has not heard the answer, and a chain is on its way by now.
    made.on_message(order, clock.monotonic())
    assert not made.runner.store.knows(resume) and made.runner.store.knows(start)
    assert resume not in [message.jid for message in said if isinstance(message, JobReceived)]
