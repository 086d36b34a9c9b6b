"""An agent starts on damaged files, whatever stands in their places, and starts no job again."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from catena.core import records
from catena.core.files import is_misplaced
from catena.core.job import JobReturn, JobSpec
from catena.minion.agent import Agent
from catena.minion.jobs.folder import Claim, JobFolder, ReturnExtras
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.store import JobStore
from catena.minion.link.event_log import EventLog
from catena.runtime import damage
from catena.transport import wire
from catena.transport.messages import EventFired, JobReturned
from tests.unit.minion.test_agent import NoProcesses, agent

WAITS, BEGUN, POSTPONED, RETURNED, ENDED, NEW = (f"2026010100000000000{n}" for n in range(1, 7))
OLD_FILE = "outbox/7-old"


def returned(jid: str) -> bytes:
    ret = JobReturn(jid, "cmd.run", ("x",), True, 0, "said", 1.0, 1.0)
    return wire.pack_body(JobReturned(ret))


def left_behind(cache: Path) -> None:
    """Make the files of an agent that was killed: one job in each state, and two events."""
    store = JobStore(cache, "boot")
    for jid in (WAITS, BEGUN, POSTPONED, RETURNED, ENDED):
        store.add(JobSpec(jid, "cmd.run", ("x",)), begins=jid != WAITS)
        if jid != WAITS:
            store.folder(jid).claim(Claim(ProcessRef(7, 7, "boot")))
            store.folder(jid).output.write_text("printed")
    store.folder(POSTPONED).give_back()
    for jid in (RETURNED, ENDED):
        store.folder(jid).finish(returned(jid), ReturnExtras(open_chain=1))
        store.keep_return(store.folder(jid))
    store.end(ENDED, 2_000_000_000)
    store.leave()
    events = EventLog(cache, lambda: 1.0)
    for number in range(2):
        events.add(EventFired(f"event-{number}", "a/tag", {}))
    events.commit()
    (cache / OLD_FILE).write_bytes(wire.pack_body(EventFired("old", "a/tag", {})))


def put_folder(file: Path, _: bytes) -> None:
    file.mkdir()
    (file / "inside").write_text("x")


def flipped(file: Path, data: bytes) -> None:
    changed = bytearray(data or b"\0")
    changed[len(changed) // 2] ^= 16
    file.write_bytes(changed)


DAMAGES: dict[str, Callable[[Path, bytes], object]] = {
    "missing": lambda file, data: None,
    "empty": lambda file, data: file.touch(),
    "zeroed": lambda file, data: file.write_bytes(b"\0" * len(data)),
    "cut": lambda file, data: file.write_bytes(data[: len(data) // 2]),
    "flipped": flipped,
    "garbage": lambda file, data: file.write_bytes(random.Random(1).randbytes(len(data) + 64)),
    "a folder": put_folder,
    "a pipe": lambda file, data: os.mkfifo(file),
    "a dangling link": lambda file, data: file.symlink_to("nowhere"),
    "a link": lambda file, data: file.symlink_to("/etc/hostname"),
}
FILES = [
    "jobs.log",
    "seen",
    "seen.checked",
    "outbox/events.log",
    "outbox/.events.log.new",
    OLD_FILE,
    "agent_upgrade.json",
    "jobs",
    "outbox",
    "damaged",
    *(f"jobs/{jid}" for jid in (WAITS, BEGUN, POSTPONED, RETURNED)),
    f"jobs/{ENDED}",
    f"jobs/bad-{BEGUN}",
    f"jobs/{WAITS}/spec",
    *(f"jobs/{BEGUN}/{name}" for name in ("spec", "process", "output", "return", "aside")),
    f"jobs/{POSTPONED}/postponed",
    *(f"jobs/{RETURNED}/{name}" for name in ("spec", "process", "return", "aside")),
]

#: What records that a process has begun BEGUN. The log alone does not say so: an agent that was
#: killed before the process started leaves the same.
CLAIMS = (f"jobs/{BEGUN}/process",)
HOLDING_CLAIMS = ("jobs", f"jobs/{BEGUN}")


def do_damage(file: Path, how: str) -> None:
    data = b""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    elif os.path.lexists(file):
        data = os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes()
        file.unlink()
    file.parent.mkdir(mode=0o700, exist_ok=True)
    DAMAGES[how](file, data)


class NoneFree(NoProcesses):
    """No process waits for a job."""

    def free(self, fun: str) -> None:
        return None

    def next_due(self) -> None:
        return None


def started(home: Path) -> Agent:
    """Start an agent that works, so that the order that it is given is durable."""
    made = agent(home, processes=NoneFree)
    made.recover()
    made.service(1.0)
    return made


def is_begun_again(made: Agent, jid: str) -> bool:
    waits = jid in (*made.runner.queue.waiting(), *made.runner.queue.running())
    return waits and not made.runner.store.has_return(jid)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_agent_starts_twice_on_a_damaged_file(tmp_path: Path, name: str, how: str) -> None:
    cache = tmp_path / "cache"
    left_behind(cache)
    do_damage(cache / name, how)
    first = started(tmp_path)
    assert first.runner.order(JobSpec(NEW, "cmd.run")) == ""
    if not (name in CLAIMS or (name in HOLDING_CLAIMS and how in ("missing", "a folder"))):
        assert not is_begun_again(first, BEGUN)
    assert not is_begun_again(first, RETURNED)
    second = started(tmp_path)
    assert NEW in second.runner.open_jobs()
    second.fired(EventFired("later", "a/tag", {}), lambda fault: None)
    second.service(2.0)
    assert "later" in EventLog(cache, lambda: 1.0).keys()


@pytest.mark.parametrize("how", ["a folder", "a pipe", "a dangling link"])
@pytest.mark.parametrize("name", ["jobs.log", "seen", "outbox/events.log"])
def test_what_is_in_the_place_of_a_file_is_moved_aside_and_reported_each_time(
    tmp_path: Path, name: str, how: str
) -> None:
    cache = tmp_path / "cache"
    left_behind(cache)
    for number in range(1, 3):
        do_damage(cache / name, how)
        started(tmp_path)
        found = [one for one in damage.known(cache) if one.path == str(cache / name)]
        assert len(found) == number
        assert "is in its place" in found[-1].what
        assert is_misplaced(found[-1].kept)
        # The log, and an event for the master.
        assert (tmp_path / "log").read_text().count(f"{name} is damaged") == number


def interrupted_without_order(home: Path) -> JobFolder:
    """Empty the log, let the job of an unknown process end as interrupted, remove its folder."""
    store = JobStore(home / "cache", "boot")
    store.add(JobSpec(BEGUN, "cmd.run", ("x",)), begins=True)
    (home / "cache" / "jobs.log").write_bytes(b"")
    made = started(home)
    folder = made.runner.store.folder(BEGUN)
    assert made.runner.store.has_return(BEGUN)
    return folder


def test_agent_starts_and_resends_a_return_whose_order_the_log_has_lost(tmp_path: Path) -> None:
    folder = interrupted_without_order(tmp_path)
    # The master has stored the return; a kill of the agent lost the record of that.
    folder.remove()
    made = started(tmp_path)
    assert made.runner.open_jobs() == [BEGUN]
    body = made.runner.store.logged_return(BEGUN)
    assert body is not None
    ret = records.decode(JobReturned, wire.unpack_body(body, wire.Limit(10_000))).ret
    assert (ret.jid, ret.fun, ret.fun_args) == (BEGUN, "cmd.run", ("x",))
    assert str(ret.value).startswith("interrupted")
    made.runner.stored(BEGUN)
    assert started(tmp_path).runner.open_jobs() == [BEGUN]
    assert [one.what for one in damage.known(tmp_path / "cache")] == [
        "it has no record of 1 open jobs"
    ]


def test_agent_starts_if_the_log_only_knows_that_a_job_has_begun(tmp_path: Path) -> None:
    store = JobStore(tmp_path / "cache", "earlier")
    store.begin(BEGUN)
    assert started(tmp_path).runner.open_jobs() == []
