"""A run over SSH is done once and reported truthfully, whichever of its processes is killed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import signal
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from catena.core.failpoint_rules import FAILPOINTS
from catena.core.records import encode
from catena.runtime.host import After, AfterKind
from catena.runtime.push import protocol as p
from catena.runtime.push import runner
from catena.runtime.push.host_folder import Room
from catena.runtime.push.outcome import boot_id
from catena.runtime.push.protocol import ProgramError, Trouble
from catena.runtime.push.runs import RunFolder
from catena.ssh.connect.errors import ChannelLostError
from catena.ssh.push.bundle import Bundle, bundle
from catena.ssh.push.program import Part, Program
from tests.support.pushed import RUN, Bench, begin, finished, job, low, steps_until
from tests.support.waiting import process_ends

#: Visits that a push may need when one process is killed once.
VISITS = 4
#: Place -> (does the run end well, is its outcome partly unknown, how many states were run).
EXPECTED = {
    "ssh.put.whole": (True, False, 3),
    "ssh.start.staged": (True, False, 3),
    "ssh.start.named": (True, False, 3),
    "ssh.run.claimed": (False, True, 0),
    "ssh.run.named": (False, True, 0),
    "ssh.result.before": (False, True, 3),
    "ssh.result.after": (True, False, 3),
    "ssh.ack.before": (True, False, 3),
}


def three(ran: Path) -> tuple[p.LowState, ...]:
    return tuple(low("cmd.run", f"echo {n} >> {ran}") for n in (1, 2, 3))


def push(bench: Bench, what: p.PushedJob) -> p.RunResult:
    """Push a job, as a master does that loses its connection again and again."""
    kept: list[p.RunResult] = []
    for _ in range(VISITS):
        with contextlib.suppress(ChannelLostError), bench.program() as program:
            program.open(what.identity)
            if not kept:
                if not any(run.run_id == RUN for run in program.hello().runs):
                    begin(program, what)
                kept.append(finished(program))
            program.ack(RUN)
            return kept[0]
    raise AssertionError("it never ended")


def test_every_ssh_failpoint_has_an_expectation() -> None:
    assert set(EXPECTED) == {name for name in FAILPOINTS if name.startswith("ssh.")}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_process_killed_at_a_failpoint_repeats_no_state(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    log, ran = tmp_path / "log", tmp_path / "ran"
    bench.env["CATENA_FAILPOINTS"] = f"{name}=kill"
    bench.env["CATENA_FAILPOINT_LOG"] = str(log)
    what = job("state.apply", low=three(ran), grains={"os": "x"}, settings={"testing": True})
    result = push(bench, what)
    assert log.read_text().startswith(name)
    success, interrupted, states = EXPECTED[name]
    assert (result.ret.success, result.interrupted) == (success, interrupted), result
    assert (ran.read_text().split() if ran.exists() else []) == ["1", "2", "3"][:states]
    if states:
        # Those that ended are told with their rows, whoever could not tell the rest.
        assert [row["result"] for row in result.ret.value.values()] == [True] * states
    assert bench.debris() == []


@pytest.mark.parametrize("name", ["ssh.put.whole", "ssh.start.staged", "ssh.start.named"])
def test_full_disk_is_reported_and_leaves_no_files(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    bench.env["CATENA_FAILPOINTS"] = f"{name}=error(ENOSPC)"
    bench.env["CATENA_FAILPOINT_LOG"] = str(tmp_path / "log")
    what = job(grains={"os": "x"}, settings={"testing": True})
    with bench.program() as program:
        program.open(what.identity)
        with pytest.raises(ProgramError, match="no space left") as caught:
            begin(program, what)
        assert caught.value.trouble is Trouble.full
        assert bench.debris() == []
        begin(program, what)
        assert finished(program).ret.value is True


def test_run_that_never_began_is_not_started_by_another_connection(
    bench: Bench, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    bench.env["CATENA_FAILPOINTS"] = "ssh.start.named=kill"
    what = job("cmd.run", f"touch {ran}", grains={"os": "x"}, settings={"testing": True})
    with bench.program() as program:
        program.open(what.identity)
        with pytest.raises(ChannelLostError):
            begin(program, what)
    del bench.env["CATENA_FAILPOINTS"]
    with bench.program() as program:
        assert [run.phase for run in program.hello().runs] == [p.RunPhase.running]
        assert program.clean(p.Clean(0.0)).runs == 0
        with pytest.raises(ProgramError, match="still goes on"):
            program.wipe()
        os.utime(bench.room / "runs" / RUN, (1, 1))
        assert program.clean(p.Clean(0.0)).runs == 1
    assert not ran.exists()
    assert bench.debris() == []


def waiting(program: Program, tmp_path: Path) -> tuple[int, Path]:
    """Start a run that stands in its second state; return the pid of its command, and its way on.

    The command goes on when something is written to the path.
    """
    pids, go = tmp_path / "pid", tmp_path / "go"
    os.mkfifo(pids)
    os.mkfifo(go)
    states = (
        low("test.nop", "first"),
        low("cmd.run", f"echo $$ > {pids}; exec cat {go}", "second"),
        low("test.nop", "third"),
    )
    begin(program, job("state.apply", low=states, grains={"os": "x"}))
    return int(pids.read_text()), go


def kill(bench: Bench, *names: str) -> None:
    for name in names:
        process = RunFolder(bench.room / "runs" / RUN).process(name)
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        assert process_ends(process.pid)


def reported(result: p.RunResult) -> list[tuple[str, bool, str]]:
    """Return id, result and the comment's first word of each state that a run reports."""
    rows = result.ret.value.values()
    return [(row["__id__"], row["result"], row["comment"].partition(" ")[0]) for row in rows]


#: What is `reported` of a run that was killed in its second state of three.
KILLED_IN_SECOND = [("first", True, "Success!"), ("second", False, "Interrupted:")]


def test_run_continues_when_the_serving_process_is_killed(bench: Bench, tmp_path: Path) -> None:
    program, pipes = bench.channel()
    _, go = waiting(program, tmp_path)
    pipes.process.kill()
    with pytest.raises(ChannelLostError):
        program.poll(RUN)
    with bench.program() as again:
        assert [run.phase for run in again.hello().runs] == [p.RunPhase.running]
        go.write_text("go")
        assert finished(again).ret.success


def test_newer_program_continues_a_run_of_an_older_one(bench: Bench, tmp_path: Path) -> None:
    """As after an upgrade of the master, or its return to an older version."""
    changed = io.BytesIO(bundle().data)
    with zipfile.ZipFile(changed, "a") as archive:
        archive.writestr("catena/of_another_version.py", "")
    data = changed.getvalue()
    other = Bundle(data, hashlib.sha256(data).hexdigest())
    program, _ = bench.channel(other)
    _, go = waiting(program, tmp_path)
    program.close()
    with bench.program() as again:
        assert [run.phase for run in again.hello().runs] == [p.RunPhase.running]
        go.write_text("go")
        assert finished(again).ret.success
        again.ack(RUN)
    assert bench.debris() == []


def test_run_continues_when_its_runner_is_killed(bench: Bench, tmp_path: Path) -> None:
    with bench.program() as program:
        _, go = waiting(program, tmp_path)
        kill(bench, "runner")
        assert program.poll(RUN).phase is p.RunPhase.running
        go.write_text("go")
        assert finished(program).ret.success


def test_run_without_its_runner_can_be_cancelled(bench: Bench, tmp_path: Path) -> None:
    with bench.program() as program:
        pid, _ = waiting(program, tmp_path)
        kill(bench, "runner")
        assert program.cancel(RUN, "enough").phase is p.RunPhase.done
        assert process_ends(pid)
        assert "cancelled: enough" in str(finished(program).ret.value)


def test_run_without_its_runner_keeps_its_deadline(bench: Bench, tmp_path: Path) -> None:
    with bench.program() as program:
        pid, _ = waiting(program, tmp_path)
        kill(bench, "runner")
        os.utime(bench.room / "runs" / RUN / "runner", (1, 1))
        assert "not done after" in str(finished(program).ret.value)
        assert process_ends(pid)


def test_reboot_requested_by_a_run_waits_until_its_return_is_collected(
    bench: Bench, tmp_path: Path
) -> None:
    proof = tmp_path / "rebooted"
    after = After(AfterKind.reboot, 1, 0, ("touch", str(proof)), boot_id())
    with bench.program() as program:
        begin(program, job(grains={"os": "x"}))
        finished(program)
    run = RunFolder(bench.room / "runs" / RUN)
    done = p.unpack_result(run.result.read_bytes())
    run.result.unlink()
    run.finish(replace(done, after=encode(after)))
    child = os.fork()
    if child == 0:
        try:
            runner._afterwards(Room(bench.room), run, run.read_job())
        finally:
            os._exit(1)
    with bench.program() as program:
        assert program.collect(RUN, 1 << 20).after == encode(after)
        assert not proof.exists()
        program.ack(RUN)
    assert os.waitpid(child, 0)[1] == 0
    assert proof.exists()


def test_killed_worker_ends_its_commands(bench: Bench, tmp_path: Path) -> None:
    with bench.program() as program:
        pid, _ = waiting(program, tmp_path)
        kill(bench, "worker")
        result = finished(program)
    assert (result.ret.success, result.interrupted) == (False, True)
    assert reported(result) == KILLED_IN_SECOND
    assert process_ends(pid)


def test_killed_run_is_reported_from_its_journal(bench: Bench, tmp_path: Path) -> None:
    with bench.program() as program:
        pid, _ = waiting(program, tmp_path)
        kill(bench, "runner", "worker")
        result = finished(program)
        os.kill(pid, signal.SIGKILL)
    assert (result.ret.success, result.interrupted) == (False, True)
    assert reported(result) == KILLED_IN_SECOND


def rebooted(bench: Bench) -> None:
    """Make the processes of a run those of an earlier boot."""
    for name in ("runner", "worker"):
        path = bench.room / "runs" / RUN / name
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot_id": "earlier"}))


def torn(bench: Bench) -> None:
    """Tear the journal as a power cut may."""
    path = bench.room / "runs" / RUN / "steps"
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("after", [rebooted, torn])
def test_run_on_a_host_that_stopped_reports_its_finished_states(
    bench: Bench, tmp_path: Path, after: Callable[[Bench], None]
) -> None:
    with bench.program() as program:
        pid, _ = waiting(program, tmp_path)
        steps_until(program, "state")
        kill(bench, "runner", "worker")
        os.kill(pid, signal.SIGKILL)
    rebooted(bench)
    after(bench)
    with bench.program() as program:
        result = finished(program)
    rows = list(result.ret.value.values())
    assert rows[0]["result"] is True
    assert (result.ret.success, result.interrupted) == (False, True)


def test_damaged_job_is_reported(bench: Bench) -> None:
    part = Part.of(p.pack_job(job(grains={"os": "x"})))
    bench.env["CATENA_FAILPOINTS"] = "ssh.start.named=kill"
    with bench.program() as program:
        program.open(p.HostIdentity("web1", {"testing": True}))
        program.put([part])
        with pytest.raises(ChannelLostError):
            program.begin(RUN, part.sha256)
    del bench.env["CATENA_FAILPOINTS"]
    held = bench.room / "runs" / RUN / "job"
    held.chmod(0o600)
    held.write_bytes(b'{"spec": ')
    with bench.program() as program:
        result = finished(program)
        program.ack(RUN)
    assert (result.ret.success, result.raised) == (False, True)
    assert "the job can't be read" in result.ret.value
    assert bench.debris() == []
