"""Reboots that a run over SSH requests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from catena.core.job import ActionKind, ActionManifest, Boundary, ChainManifest, ChunkManifest
from catena.core.records import encode
from catena.core.run_ref import RunRef
from catena.fileserver.roots import RootsClient
from catena.runtime.chain_clean import clean
from catena.runtime.chain_run import ChainHost
from catena.runtime.host import After, AfterKind, AgentHome, BaseHost
from catena.runtime.push import runner
from catena.runtime.push.host_folder import Room
from catena.runtime.push.outcome import failed
from catena.runtime.push.protocol import HostIdentity, PushedJob, RunResult, pack_job
from catena.runtime.push.runs import RunFolder, create
from tests.support.pushed import job

CHAIN = 5
TEXT = b"a:\n  test.nop\n"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    (tmp_path / "boot").write_text("b1\n")
    return Room(tmp_path / "room")


def pushed(tmp_path: Path) -> PushedJob:
    found = job()
    settings = {"boot_id_file": str(tmp_path / "boot"), "machine_id": "m1"}
    return PushedJob(found.spec, HostIdentity("web1", settings))


def received(room: Room, place: AgentHome, tmp_path: Path) -> ChainHost:
    """Return the chains of a host that has one, which ends in a reboot."""
    folder = tmp_path / "files" / "actionchains"
    folder.mkdir(parents=True)
    (folder / f"actionchain_{CHAIN}_m1_1.sls").write_bytes(TEXT)
    action = ActionManifest(1, f"mgr_actionchain_{CHAIN}_action_1_chunk_1", ActionKind.reboot)
    sls = f"actionchains.actionchain_{CHAIN}_m1_1"
    sha256 = hashlib.sha256(TEXT).hexdigest()
    chunk = ChunkManifest(1, sls, sha256, len(TEXT), Boundary.none, (action,))
    files = RootsClient({"base": [str(tmp_path / "files")]})
    chains = ChainHost(BaseHost(place, files))
    chains.store.receive(ChainManifest(CHAIN, "m1", 1, (chunk,)), files)
    return chains


def ended(room: Room, what: PushedJob, after: After, tmp_path: Path) -> RunFolder:
    """Return a run whose result asks for *after*."""
    (tmp_path / "job").write_bytes(pack_job(what))
    run = create(room.runs, "run-00000001", tmp_path / "job")
    run.finish(RunResult(failed(run, what.spec, "x").ret, encode(after)))
    return run


@pytest.mark.parametrize(
    ("boot", "given_up", "reboots"),
    [("b1", False, True), ("", False, True), ("b0", False, False), ("b1", True, False)],
    ids=["the same boot", "no boot", "booted since", "cancelled since"],
)
def test_reboot_is_made_once_and_not_for_a_chain_that_was_given_up(
    room: Room,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    boot: str,
    given_up: bool,
    reboots: bool,
) -> None:
    made: list[list[str]] = []
    monkeypatch.setattr("os.execvp", lambda program, argv: made.append(argv))
    monkeypatch.setattr(runner, "COLLECT_SECONDS", 0.0)
    what = pushed(tmp_path)
    place = room.place(what.identity)
    chains = received(room, place, tmp_path)
    if given_up:
        clean(chains, RunRef(CHAIN), "cancelled")
    after = After(AfterKind.reboot, CHAIN, 0, ("reboot",), boot)
    run = ended(room, what, after, tmp_path)
    runner._afterwards(room, run, what)
    assert made == ([["reboot"]] if reboots else [])
    # The master may have it forgotten from now on.
    assert run.is_let_go()


def test_result_without_a_request_is_released_at_once(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.execvp", lambda program, argv: pytest.fail("rebooted"))
    what = pushed(tmp_path)
    (tmp_path / "job").write_bytes(pack_job(what))
    run = create(room.runs, "run-00000001", tmp_path / "job")
    run.finish(failed(run, what.spec, "x"))
    runner._afterwards(room, run, what)
    assert run.is_let_go()
