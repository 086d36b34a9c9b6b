"""Chains of transactional systems: reboots without a state, actions in snapshots."""

from __future__ import annotations

import itertools
import os
import select
import shutil
from pathlib import Path
from typing import Any

import pytest

from catena.client.requests.chains import ChainAction
from catena.master.chains.actions import check
from catena.master.chains.render import ChainPlan, PlannedAction, render
from catena.runtime import transaction
from catena.runtime.host import AfterKind
from tests.integration.runtime.conftest import CHAIN, MACHINE
from tests.support.debian_roots import require

#: A program that treats the folder `running` as the root: a snapshot is a copy of it, and `next`
#: the one that the next boot would use.
STAND_IN = """\
#!/bin/sh
while [ "$1" != run ]; do options="$options $1"; shift; done
echo $options >> {base}/calls
shift
from={base}/running
[ -d {base}/next ] && from={base}/next
cp -a $from {base}/new || exit 2
if unshare --mount --propagation private sh -c \\
    'mount --bind "$0" "$1" && shift && exec "$@"' {base}/new {base}/running "$@"
then
    rm -rf {base}/next
    exec {keep} {base}/new {base}/next
fi
rm -rf {base}/new
exit 1
"""
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "reboot": ("reboot", {}),
    "late reboot": ("reboot", {"at_minutes": 5}),
}


def load(host: Any, *kinds: str, fails: int = 0) -> None:
    """Give *host* a chain as the master renders it; a kind that is none is a call of `mark`."""
    actions = []
    for number, kind in enumerate(kinds, 1):
        kwargs = {"fails": True} if number == fails else {}
        mark = ("call", {"fun": "witness.mark", "args": [number], "kwargs": kwargs})
        action = ChainAction(*KINDS.get(kind, mark))
        actions.append(PlannedAction(number, check(action)))
    rendered = render(ChainPlan(CHAIN, MACHINE, actions, transactional=True))
    for chunk in rendered.chunks:
        (host.folder / "roots/actionchains" / chunk.file).write_text(chunk.text)
    host.manifest = rendered.manifest


def key(action: int, chunk: int) -> str:
    ident = f"mgr_actionchain_{CHAIN}_action_{action}_chunk_{chunk}"
    return f"mgrcompat_|-{ident}_|-system.reboot_|-module_run"


def ended(host: Any) -> list[tuple[int, str]]:
    return [
        (data["action_id"], data["outcome"])
        for kind, data in host.steps
        if kind == "action" and data["event"] == "end"
    ]


def test_scheduling_the_next_chunk_arms_the_reboot(host: Any) -> None:
    load(host, "mark", "late reboot", "mark")
    outcome = host.start()
    assert outcome.ret.success, outcome.ret.value
    assert outcome.ret.value[key(2, 1)]["result"] is True
    assert outcome.after.kind is AfterKind.reboot
    assert outcome.after.delay_seconds == 300
    assert "not_resumed" in host.resume().ret.value
    host.reboot()
    assert host.resume().ret.success
    assert host.witnessed() == ["1 boot-1", "3 boot-2"]
    assert ended(host) == [(1, "done"), (2, "armed"), (2, "done"), (3, "done")]
    assert host.chain_state() == "done"


def test_final_clean_arms_the_reboot_and_its_boot_closes_the_chain(host: Any) -> None:
    load(host, "mark", "reboot", "mark", "reboot")
    host.do(host.start().after)
    outcome = host.resume()
    assert outcome.ret.success, outcome.ret.value
    assert outcome.after.kind is AfterKind.reboot
    assert host.chain_state() == "waiting"
    host.do(outcome.after)
    assert host.resume().ret.value == {}
    assert host.chain_state() == "done"
    assert host.boot == 3


def test_failed_action_prevents_the_reboot(host: Any) -> None:
    load(host, "mark", "reboot", "mark", fails=1)
    outcome = host.start()
    assert (outcome.ret.success, outcome.after) == (False, None)
    assert host.chain_state() == "failed"


def test_failed_scheduling_fails_the_reboot(host: Any) -> None:
    load(host, "mark", "reboot", "mark")
    (host.folder / "conf/minion.d").symlink_to(host.folder / "gone")
    outcome = host.start()
    assert outcome.after is None
    assert outcome.ret.value[key(2, 1)]["result"] is False
    assert ended(host)[-1] == (2, "failed")


#: Each test takes every fourth effect: all of them in one exceed its time on a loaded machine.
@pytest.mark.parametrize("first", range(1, 5))
@pytest.mark.parametrize("kinds", [("mark", "reboot", "mark"), ("mark", "reboot")])
def test_crash_at_every_effect_loses_and_repeats_nothing(
    new_host: Any, kinds: tuple[str, ...], first: int
) -> None:
    finished = False
    for point in itertools.count(first, 4):
        if finished:
            break
        host = new_host(f"host{point}")
        load(host, *kinds)
        finished, _, _ = host.in_child(host.start, point)
        # The power comes back: whatever had been promised, the host is in another boot now.
        for _ in range(2):
            host.reboot()
            host.do(host.start().after)
            host.do(host.resume().after)
        assert host.chain_state() in ("done", "interrupted"), point
        done = host.actions_witnessed()
        assert len(done) == len(set(done)), (point, done)
        if host.chain_state() == "done":
            assert done == [n for n, kind in enumerate(kinds, 1) if kind == "mark"], point


def test_reboot_is_derived_from_chunk_files_without_a_manifest(host: Any) -> None:
    load(host, "mark", "reboot", "mark", "reboot")
    host.manifest = None
    host.do(host.start().after)
    host.do(host.resume().after)
    host.resume()
    assert host.chain_state() == "done"
    assert host.witnessed() == ["1 boot-1", "3 boot-2"]


@pytest.fixture
def snapshots(host: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let *host* be a transactional system; return the folder of its snapshots."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        require("needs root and unshare to make a mount namespace")
    base = tmp_path / "snapshots"
    (base / "running").mkdir(parents=True)
    write_program(base)
    monkeypatch.setattr(transaction, "_PATH", str(base / "bin"))
    host.grains.update(transactional=True, witness=str(base / "running/witness"))
    return base


def write_program(base: Path, keep: str = "mv") -> None:
    program = base / "bin" / transaction.PROGRAM
    program.parent.mkdir(exist_ok=True)
    program.write_text(STAND_IN.format(base=base, keep=keep))
    program.chmod(0o755)


def make_gate(host: Any, base: Path) -> Path:
    """Let actions wait after their effect; return the pipe that they read from."""
    gate = base / "gate"
    os.mkfifo(gate)
    # A snapshot has a copy of the link, not of the pipe.
    Path(f"{host.grains['witness']}.gate").symlink_to(gate)
    return gate


def marks(folder: Path) -> list[str]:
    path = folder / "witness"
    return path.read_text().split()[::2] if path.exists() else []


def test_actions_change_snapshots_that_build_on_each_other(host: Any, snapshots: Path) -> None:
    load(host, "mark", "mark", "reboot", "mark")
    outcome = host.start()
    assert outcome.ret.success, outcome.ret.value
    assert marks(snapshots / "running") == []
    assert marks(snapshots / "next") == ["1", "2"]
    assert outcome.after.kind is AfterKind.reboot
    (calls,) = set((snapshots / "calls").read_text().splitlines())
    assert calls == "--non-interactive --drop-if-no-change --no-selfupdate --continue"
    shutil.rmtree(snapshots / "running")
    (snapshots / "next").rename(snapshots / "running")
    host.reboot()
    assert host.resume().ret.success
    assert marks(snapshots / "running") == ["1", "2"]
    assert marks(snapshots / "next") == ["1", "2", "4"]
    assert host.chain_state() == "done"


def test_snapshot_of_a_failed_action_is_dropped(host: Any, snapshots: Path) -> None:
    load(host, "mark", "mark", "reboot", "mark", fails=2)
    outcome = host.start()
    assert not outcome.ret.success
    assert outcome.after is None
    assert marks(snapshots / "next") == ["1"]
    assert not (snapshots / "new").exists()


def test_snapshot_that_cannot_be_kept_fails_the_action(host: Any, snapshots: Path) -> None:
    write_program(snapshots, keep="/bin/false")
    load(host, "mark")
    (row,) = host.start().ret.value.values()
    assert row["result"] is False
    assert "could not keep the snapshot (exit code 1)" in row["comment"]


def test_program_that_makes_no_snapshot_fails_the_action(host: Any, snapshots: Path) -> None:
    program = snapshots / "bin" / transaction.PROGRAM
    program.write_text("#!/bin/sh\necho 'Error: no space left' >&2\nexit 3\n")
    load(host, "mark")
    (row,) = host.start().ret.value.values()
    assert row["comment"].startswith(
        "Not done: transactional-update made no snapshot (exit code 3)"
    )
    assert row["comment"].endswith("Error: no space left")


def test_missing_transactional_update_program_is_reported(host: Any, snapshots: Path) -> None:
    (snapshots / "bin" / transaction.PROGRAM).unlink()
    load(host, "mark")
    (row,) = host.start().ret.value.values()
    assert "transactional-update is not on this host" in row["comment"]


def test_cancelled_job_drops_the_snapshot(host: Any, snapshots: Path) -> None:
    load(host, "mark")
    make_gate(host, snapshots)
    asked: list[bool] = []

    def cancelled() -> bool:
        # Before the action, and then while it waits at the gate.
        asked.append((snapshots / "new/witness").exists())
        return asked[-1]

    host.cancelled = cancelled
    outcome = host.start()
    assert not outcome.ret.success
    assert not (snapshots / "next").exists()
    assert not (snapshots / "new").exists()
    assert outcome.after is None


def test_killed_job_leaves_no_snapshot_and_no_process(host: Any, snapshots: Path) -> None:
    load(host, "mark")
    gate = make_gate(host, snapshots)
    pid = os.fork()
    if pid == 0:
        try:
            host.start()
        finally:
            os._exit(1)
    # Opening it returns once the action waits at the gate in its snapshot.
    handle = os.open(gate, os.O_WRONLY)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    poll = select.poll()
    poll.register(handle, 0)
    assert poll.poll(60_000) == [(handle, select.POLLERR)], "the action goes on"
    os.close(handle)
    gate.unlink()
    (snapshots / "bin" / transaction.PROGRAM).unlink()
    assert marks(snapshots / "running") == []
    assert not (snapshots / "next").exists()
