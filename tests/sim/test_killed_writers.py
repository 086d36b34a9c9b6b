"""A second writer takes over from a killed one and survives a power failure.

The second writer sees files and folders whose names the first one had no time to sync. What it
promises must survive the power failure all the same.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.clock import SystemClock
from catena.core.digest import sha256
from catena.core.files import durable_folder, private_folder, write_durable
from catena.core.job import JobSpec
from catena.master.chains.files import ChainFiles, Upload
from catena.minion.jobs.seen import SeenJobs
from catena.minion.jobs.store import JobStore
from catena.minion.link.event_log import EventLog
from catena.runtime import agent_versions
from catena.runtime.chain_store import ChainStore
from catena.transport import keys
from catena.transport.messages import EventFired
from tests.sim.cut_cases import JID, MANIFEST, Files, nothing, point, resume_file
from tests.sim.cuts import Bench


def test_found_job_survives_the_next_power_failure(below: Path) -> None:
    def write(root: Path) -> Iterator[str]:
        store = JobStore(root, "boot")
        found, _ = store.scan()
        if not found:
            store.add(JobSpec(JID, "test.ping"))
        yield JID

    for root, kept in Bench(below, nothing, write).successions():
        found, bad = JobStore(root, "boot").scan()
        assert kept == [stored.spec.jid for stored in found] and not bad


def test_cancelled_job_is_still_refused_after_the_next_power_failure(below: Path) -> None:
    def write(root: Path) -> Iterator[str]:
        seen = SeenJobs(root / "seen", 0.0)
        if seen.why(JID) != "cancelled":
            seen.add(JID, 0, 0.0, "cancelled")
        yield JID

    for root, kept in Bench(below, nothing, write).successions():
        assert kept and SeenJobs(root / "seen", 0.0).why(JID) == "cancelled"


@pytest.mark.parametrize("make", [private_folder, durable_folder])
def test_file_in_a_found_folder_survives_the_next_power_failure(below: Path, make: Any) -> None:
    def write(root: Path) -> Iterator[bytes]:
        write_durable(make(root / "one" / "two") / "file", b"x")
        yield b"x"

    for root, kept in Bench(below, nothing, write).successions():
        assert kept == [(root / "one" / "two" / "file").read_bytes()]


def test_resume_file_keeps_its_key_after_the_next_power_failure(below: Path) -> None:
    def write(root: Path) -> Iterator[int]:
        resume_file(root).write(point(2))
        yield 2

    for root, kept in Bench(below, nothing, write).successions():
        found = resume_file(root).waiting()
        assert found is not None and [found.chunk] == kept


def test_received_chain_survives_the_next_power_failure(below: Path) -> None:
    files: Any = Files(below / "chunk")

    def write(root: Path) -> Iterator[int]:
        ChainStore(root, "boot", "one", SystemClock()).receive(MANIFEST, files)
        yield MANIFEST.chain_id

    for root, kept in Bench(below, nothing, write).successions():
        found = ChainStore(root, "boot", "one", SystemClock()).chains()
        assert kept == [chain.manifest.chain_id for chain in found]


def test_found_event_survives_the_next_power_failure(below: Path) -> None:
    def write(root: Path) -> Iterator[str]:
        events = EventLog(root, lambda: 0.0)
        events.add(EventFired("e1", "tag", {}))
        events.commit()
        yield "e1"
        events.close(0.0)

    for root, kept in Bench(below, nothing, write).successions():
        assert kept == EventLog(root, lambda: 0.0).keys()


def test_key_that_was_shown_survives_the_next_power_failure(below: Path) -> None:
    def write(root: Path) -> Iterator[str]:
        yield keys.load_or_create(root / "pki").public

    for root, kept in Bench(below, nothing, write).successions():
        assert kept == [keys.load(root / "pki").public]


def test_upload_of_an_accepted_chain_survives_the_next_power_failure(below: Path) -> None:
    data = b"#!/bin/sh\n"
    upload = Upload("scripts/one", sha256(data).hexdigest(), 1000)
    source = below / "source"
    source.write_bytes(data)

    def write(root: Path) -> Iterator[bytes]:
        ChainFiles(root).keep(upload, source)
        yield data

    for root, kept in Bench(below, nothing, write).successions():
        assert kept == [path.read_bytes() for path in root.glob("*/*")]


def test_current_agent_version_survives_the_next_power_failure(
    below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_versions, "_try_out", lambda *_: None)
    wheel = below / "catena-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("catena/core/job.py", "X = 1")

    def write(root: Path) -> Iterator[str]:
        agent_versions.switch(root, agent_versions.install(root, [wheel]))
        yield "1.0"

    for root, kept in Bench(below, nothing, write).successions():
        assert kept == [agent_versions.current(root)]
        module = agent_versions.site_of(root, "1.0") / "catena" / "core" / "job.py"
        assert module.read_text() == "X = 1"
