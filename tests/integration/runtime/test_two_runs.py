"""Two runs on one host, and foreign entries in the place of the resume file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from catena.core import failpoints, frozen
from catena.core.job import Boundary
from catena.runtime import chain_manifest
from catena.runtime.chain_store import ChainStore
from tests.integration.runtime import conftest
from tests.integration.runtime.two_runs import REBOOT, bring_to_reboot, resume_file
from tests.unit.runtime.manifests import CHUNK, MANIFEST

CHAIN = conftest.CHAIN


def test_resume_of_a_named_run_reports_that_run(host: Any) -> None:
    bring_to_reboot(host)
    outcome = host.call("mgractionchains.resume", actionchain_id=CHAIN, epoch=1)
    assert outcome.ret.success
    assert outcome.ret.epochs == {str(CHAIN): 1}
    assert host.actions_witnessed() == [1, 3]


@pytest.mark.parametrize(("chain", "epoch"), [(CHAIN + 1, 1), (CHAIN, 2)])
def test_resume_of_another_run_keeps_the_waiting_one(host: Any, chain: int, epoch: int) -> None:
    bring_to_reboot(host)
    said = host.call("mgractionchains.resume", actionchain_id=chain, epoch=epoch).ret.value
    assert (said["state"], said["actionchain_id"], said["epoch"]) == ("unknown", chain, epoch)
    assert "not known on this minion" in said["not_resumed"]
    assert host.chain_state() == "waiting"
    assert host.resume().ret.success
    assert host.actions_witnessed() == [1, 3]


def test_resume_of_an_ended_run_reports_its_result(host: Any) -> None:
    bring_to_reboot(host)
    host.call("mgractionchains.clean")
    said = host.call("mgractionchains.resume", actionchain_id=CHAIN, epoch=1).ret
    assert said.value["state"] == "cancelled"
    assert said.epochs == {str(CHAIN): 1}


def test_resume_that_has_to_wait_names_the_waiting_run(host: Any) -> None:
    a = host.action
    host.render([a(1), a(2, REBOOT)], [a(3)])
    host.start()
    ret = host.resume().ret
    assert (ret.value["actionchain_id"], ret.value["epoch"]) == (CHAIN, 1)
    assert ret.value["state"] == "waiting"
    assert ret.epochs == {str(CHAIN): 1}


@pytest.mark.parametrize("epoch", ["x", -1, True])
def test_run_that_is_not_a_number_is_refused(host: Any, epoch: Any) -> None:
    ret = host.call("mgractionchains.resume", actionchain_id=CHAIN, epoch=epoch).ret
    assert not ret.success
    assert "epoch must be a number" in ret.value
    ret = host.call("mgractionchains.clean", epoch=1).ret
    assert "name the chain" in ret.value


def test_clean_of_an_older_run_keeps_the_newer_one(host: Any) -> None:
    bring_to_reboot(host, epoch=2)
    said = host.call("mgractionchains.clean", actionchain_id=CHAIN, epoch=1).ret.value
    assert (said["removed"], said["runs"]) == (False, [])
    assert host.resume().ret.success
    assert host.actions_witnessed() == [1, 3]


def test_clean_ends_and_reports_the_run_that_it_names(host: Any) -> None:
    bring_to_reboot(host, epoch=2)
    said = host.call("mgractionchains.clean", actionchain_id=CHAIN, epoch=2).ret.value
    assert said["runs"] == [{"actionchain_id": CHAIN, "epoch": 2}]
    assert not resume_file(host).exists()
    assert host.chain_state() == "cancelled"


def test_clean_of_an_older_run_keeps_a_newer_one_with_a_damaged_journal(host: Any) -> None:
    bring_to_reboot(host, epoch=2)
    journal = host.folder / "cache" / "chains" / str(CHAIN) / "journal"
    journal.write_bytes(b"x" * 20 + b"\n" + journal.read_bytes())
    resume_file(host).unlink()
    older = host.call("mgractionchains.clean", actionchain_id=CHAIN, epoch=1).ret.value
    assert older["removed"] is False
    mine = host.call("mgractionchains.clean", actionchain_id=CHAIN, epoch=2).ret.value
    assert mine["removed"] is True


@pytest.mark.parametrize("suffix", ["", ".running"])
def test_resume_file_of_an_older_run_does_not_resume_a_newer_one(host: Any, suffix: str) -> None:
    bring_to_reboot(host)
    if suffix:
        resume_file(host).rename(f"{resume_file(host)}{suffix}")
    a = host.action
    host.render([a(1), a(2, REBOOT)], [a(3)], epoch=2)
    after = host.start().after
    # Still in the boot in which the newer run asks for its reboot.
    assert host.resume().ret.value["state"] == "waiting"
    assert host.actions_witnessed() == [1, 1]
    host.do(after)
    assert host.resume().ret.success
    assert host.actions_witnessed() == [1, 1, 3]


def test_crash_before_an_older_resume_file_is_removed_resumes_nothing_of_it(host: Any) -> None:
    bring_to_reboot(host)
    older = resume_file(host).read_bytes()
    a = host.action
    host.render([a(1)], epoch=2)
    assert host.start().ret.success
    resume_file(host).write_bytes(older)
    said = host.call("mgractionchains.resume", actionchain_id=CHAIN, epoch=1).ret.value
    assert said["state"] == "unknown"
    assert host.actions_witnessed() == [1, 1]
    assert not resume_file(host).exists()


def test_resume_file_of_an_ended_chain_does_not_block_another(host: Any) -> None:
    bring_to_reboot(host)
    left = resume_file(host).read_bytes()
    host.call("mgractionchains.clean")
    # Killed between the end of the chain, which is recorded, and the end of its file.
    resume_file(host).write_bytes(left)
    other = host.folder / "cache" / "chains"
    assert ChainStore(other.parent, "", "", host_clock()).look(CHAIN).ended  # type: ignore[union-attr]
    outcome = host.call("mgractionchains.start", CHAIN + 1)
    assert "waits on this minion" not in str(outcome.ret.value)
    assert not resume_file(host).exists()


def host_clock() -> Any:
    from catena.core.clock import SystemClock

    return SystemClock()


@pytest.mark.parametrize("suffix", ["", ".running"])
@pytest.mark.parametrize("what", ["folder", "full folder", "pipe", "link", "dangling link"])
@pytest.mark.parametrize("run", [{}, {"actionchain_id": CHAIN, "epoch": 1}])
def test_clean_removes_anything_in_the_place_of_the_resume_file(
    host: Any, what: str, run: dict[str, int], suffix: str, tmp_path: Path
) -> None:
    bring_to_reboot(host)
    resume_file(host).unlink()
    place = Path(f"{resume_file(host)}{suffix}")
    target = tmp_path / "target"
    target.write_text("not ours")
    if what == "pipe":
        os.mkfifo(place)
    elif "link" in what:
        place.symlink_to(target if what == "link" else tmp_path / "nowhere")
    else:
        place.mkdir()
        (place / "inside").symlink_to(target)
        if what == "folder":
            (place / "inside").unlink()
    said = host.call("mgractionchains.clean", **run)
    assert said.ret.success, said.ret.value
    assert not os.path.lexists(place)
    assert target.read_text() == "not ours"
    assert host.chain_state() == "cancelled"


@pytest.mark.parametrize("obstructed", [True, False], ids=["folder", "earlier clean was killed"])
def test_clean_of_another_chain_writes_the_file_of_the_waiting_one_again(
    host: Any, obstructed: bool
) -> None:
    bring_to_reboot(host)
    written = resume_file(host).read_bytes()
    resume_file(host).unlink()
    if obstructed:
        resume_file(host).mkdir()
    said = host.call("mgractionchains.clean", actionchain_id=CHAIN + 1, epoch=1).ret
    assert said.value["removed"] is obstructed, said.value
    assert resume_file(host).read_bytes() == written
    assert "waits on this minion" in str(host.call("mgractionchains.start", CHAIN + 2).ret.value)
    assert host.resume().ret.success
    assert host.actions_witnessed() == [1, 3]


class Killed(BaseException):
    """Ends a job where a kill of its process would."""


def test_clean_of_another_chain_writes_the_file_of_an_interrupted_chunk_again(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(name: str) -> None:
        if name == "chain.begin.before":
            raise Killed

    bring_to_reboot(host)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(failpoints, "hit", kill)
        host.resume()
    taken = Path(f"{resume_file(host)}.running")
    assert taken.exists() and host.chain_state() == "running"
    taken.unlink()
    taken.mkdir()
    host.call("mgractionchains.clean", actionchain_id=CHAIN + 1, epoch=1)
    assert "waits on this minion" in str(host.call("mgractionchains.start", CHAIN + 2).ret.value)
    assert host.resume().ret.success
    assert host.actions_witnessed() == [1, 3]


def test_clean_gives_the_resume_file_to_the_newest_of_two_waiting_chains(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_to_reboot(host)
    resume_file(host).unlink()
    store = ChainStore(host.folder / "cache", "", "", host_clock())
    chunks = (frozen.replace(CHUNK, boundary=Boundary.agent_upgrade), CHUNK)
    with monkeypatch.context() as patch:
        patch.setattr(chain_manifest, "fetch_chunk", lambda *_: b"")
        newer = frozen.replace(MANIFEST, chain_id=CHAIN + 3, chunks=chunks)
        store.receive(newer, None)  # type: ignore[arg-type]
    with store.open(CHAIN + 3) as chain:
        assert chain is not None
        chain.record("chunk", chunk=1)
        chain.record("chunk_end", chunk=1, outcome="waiting")
    os.utime(store.folder / str(CHAIN), (1, 1))
    host.call("mgractionchains.clean", actionchain_id=CHAIN + 1, epoch=1)
    assert f"actionchain_id: {CHAIN + 3}" in resume_file(host).read_text()


UNDER_A_MOUNT = """
import errno, os, subprocess, sys
from pathlib import Path
from catena.core.removal import CannotRemoveError, remove_entry

place, how = Path(sys.argv[1]), sys.argv[2]
place.mkdir(parents=True)
kept = place.parent / "kept"
kept.mkdir()
(kept / "precious").write_text("1")
if how == "mounted":
    (place / "below").mkdir()
    subprocess.run(["mount", "--bind", kept, place / "below"], check=True)
else:
    subprocess.run(["mount", "--bind", place.parent, place.parent], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", place.parent], check=True)
try:
    remove_entry(place)
except CannotRemoveError as error:
    text = str(error)
    print(text)
print("precious:", (kept / "precious").exists())
subprocess.run(text.partition("first: ")[2], shell=True, check=True)
remove_entry(place)
print("removed:", not place.exists(), "precious:", (kept / "precious").exists())
"""


@pytest.mark.parametrize(
    ("how", "why", "cure"),
    [
        ("mounted", "a file system is mounted at", "first: umount '"),
        ("read only", "Read-only file system", "first: mount -o remount,rw '"),
    ],
)
def test_failed_removal_is_reported_with_a_working_remedy(
    tmp_path: Path, how: str, why: str, cure: str
) -> None:
    place = tmp_path / "minion d" / "place"
    command = ["unshare", "-m", sys.executable, "-c", UNDER_A_MOUNT, str(place), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said, kept, removed = done.stdout.splitlines()
    assert str(place) in said
    assert why in said
    assert cure in said
    assert kept == "precious: True"
    assert removed == "removed: True precious: True"
