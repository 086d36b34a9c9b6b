"""The folder on an SSH host is private; errors in it are one line and leave no files."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest

from catena.runtime.push import protocol as p
from catena.runtime.push.protocol import ProgramError, Trouble
from catena.ssh.connect.errors import PushPhase, SshError
from catena.ssh.push.bundle import bundle
from catena.ssh.push.program import Part
from tests.support.debian_roots import overlay, require
from tests.support.pushed import RUN, Bench, begin, finished, job, low, steps_until

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@contextlib.contextmanager
def mounted(path: Path, options: str) -> Iterator[Path]:
    """Yield a small file system of its own."""
    path.mkdir(parents=True, exist_ok=True)
    argv = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    if subprocess.run(argv, capture_output=True, check=False, timeout=100).returncode:
        require("needs the right to mount")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True, timeout=100)


def refused(bench: Bench) -> str:
    """Return the line with which a host refuses to serve."""
    with pytest.raises(SshError) as caught:
        bench.channel()
    line = str(caught.value)
    assert "\n" not in line and "Traceback" not in line
    assert caught.value.phase is PushPhase.install and not caught.value.waits
    assert caught.value.advice
    return line


def as_link(room: Path) -> None:
    room.rmdir()
    (room.parent / "elsewhere").mkdir(mode=0o700)
    room.symlink_to(room.parent / "elsewhere")


def as_file(room: Path) -> None:
    room.rmdir()
    room.write_text("")


def as_others(room: Path) -> None:
    os.chown(room, NOBODY, NOBODY)


def as_open(room: Path) -> None:
    room.chmod(0o777)


def as_below_open(room: Path) -> None:
    room.parent.chmod(0o777)


def as_below_others(room: Path) -> None:
    os.chown(room.parent, NOBODY, NOBODY)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (as_link, "not a folder"),
        (as_file, "not a folder"),
        pytest.param(as_others, "belongs to another user (uid 65534)", marks=as_root),
        (as_open, "others may write to it (mode 777)"),
        (as_below_open, "others may write to it (mode 777)"),
        pytest.param(as_below_others, "belongs to another user (uid 65534)", marks=as_root),
    ],
)
def test_folder_accessible_to_others_is_refused(
    bench: Bench, tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    bench.room = tmp_path / "own" / "room"
    bench.room.mkdir(parents=True, mode=0o700)
    spoil(bench.room)
    assert said in refused(bench)
    found = [path for path in (tmp_path / "own").rglob("*") if path.is_file()]
    assert [path.name for path in found] in ([], ["room"])


def test_altered_bundle_is_resent(bench: Bench, tmp_path: Path) -> None:
    bench.room = tmp_path / "fresh"
    path = bench.room / "bundles" / f"{bundle().sha256}.zip"
    with bench.program() as program:
        assert program.hello()
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with bench.program() as program:
        assert program.hello()
    assert path.read_bytes() == bundle().data
    with bench.program() as program:
        assert program.hello()
    # The second visit to a whole bundle compiled it.
    (ready,) = bench.room.glob("bundles/*.*.*.zip")
    ready.write_bytes(ready.read_bytes()[:-1] + b"x")
    with bench.program() as program:
        assert program.hello()


def test_bundle_altered_in_transit_is_not_stored(bench: Bench, tmp_path: Path) -> None:
    from dataclasses import replace

    bench.room = tmp_path / "fresh"
    wrong = replace(bundle(), data=bundle().data[:-1] + b"x")
    with pytest.raises(SshError, match="not the one that was announced"):
        bench.channel(wrong)
    assert list((bench.room / "bundles").iterdir()) == []


@as_root
def test_disk_too_small_for_the_bundle_is_reported_in_one_line(
    bench: Bench, tmp_path: Path
) -> None:
    with mounted(tmp_path / "small", "size=1M,mode=700") as small:
        bench.room = small / "room"
        assert "No space left on device" in refused(bench)
        assert not bench.room.exists()


@as_root
def test_read_only_home_is_reported_in_one_line(bench: Bench, tmp_path: Path) -> None:
    with mounted(tmp_path / "home", "size=1M,mode=700,ro") as home:
        bench.room = home / ".cache" / "catena"
        assert "Read-only file system" in refused(bench)


@as_root
def test_parts_beyond_the_free_space_are_refused_and_leave_no_files(
    bench: Bench, tmp_path: Path
) -> None:
    with mounted(tmp_path / "small", "size=6M,mode=700") as small:
        bench.room = small / "room"
        with bench.program() as program:
            with pytest.raises(ProgramError, match="no space left") as caught:
                program.put([Part.of(os.urandom(8 * 1024 * 1024))])
            assert caught.value.trouble is Trouble.full
            assert bench.debris() == []
            begin(program, job(grains={"os": "x"}))
            assert finished(program).ret.value is True


@as_root
def test_run_that_fills_the_disk_still_reports_its_result(bench: Bench, tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "size=8M,mode=700") as small:
        bench.room = small / "room"
        filler = small / "filler"
        states = (
            low("cmd.run", f"head -c 100M /dev/zero > {filler}", "fill"),
            low("test.nop", "after"),
        )
        with bench.program() as program:
            begin(program, job("state.apply", low=states, grains={"os": "x"}))
            steps_until(program, "")
            result = program.collect(RUN, 1 << 20)
            assert [r["result"] for r in result.ret.value.values()] == [False, True]
            filler.unlink()
            program.ack(RUN)
        assert bench.debris() == []


@as_root
def test_run_without_disk_space_is_postponed_with_the_reason(bench: Bench, tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "size=8M,nr_inodes=60,mode=700") as small:
        bench.room = small / "room"
        part = Part.of(p.pack_job(job(grains={"os": "x"})))
        fillers = []
        with bench.program() as program:
            program.put([part])
            with contextlib.suppress(OSError):
                for number in range(100):
                    (small / f"filler{number}").touch()
                    fillers.append(small / f"filler{number}")
            with pytest.raises(ProgramError, match=r"(?i)no space left") as caught:
                program.begin(RUN, part.sha256)
            assert caught.value.trouble is Trouble.full
            for filler in fillers:
                filler.unlink()
            program.begin(RUN, part.sha256)
            assert finished(program).ret.value is True


@as_root
def test_noexec_folder_is_usable(bench: Bench, tmp_path: Path) -> None:
    with mounted(tmp_path / "plain", "size=16M,mode=700,noexec,nosuid,nodev") as plain:
        bench.room = plain / "room"
        with bench.program() as program:
            states = (low("cmd.run", "echo hello"),)
            begin(program, job("state.apply", low=states, grains={"os": "x"}))
            assert finished(program).ret.success


def open_parents(home: Path) -> None:
    """Let other users enter the folders above *home* that pytest has made."""
    for folder in home.parents:
        if folder.stat().st_mode & 0o005 != 0o005 and folder.is_relative_to(gettempdir()):
            folder.chmod(0o755)


@as_root
def test_unprivileged_user_runs_states_from_its_own_home(bench: Bench, tmp_path: Path) -> None:
    with mounted(tmp_path / "home", f"size=16M,mode=700,uid={NOBODY},gid={NOBODY}") as home:
        open_parents(home)
        bench.room = home / ".cache" / "catena"
        setpriv = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        bench.before = setpriv
        bench.python = "/usr/bin/python3"
        with bench.program() as program:
            assert (program.hello().euid, program.hello().room) == (NOBODY, str(bench.room))
            begin(program, job("cmd.run", "id -u", grains={"os": "x"}))
            assert finished(program).ret.value == str(NOBODY)


@as_root
def test_fork_bomb_is_killed_completely(bench: Bench, tmp_path: Path) -> None:
    """As a user of nobody else's, who may have few processes: that bounds it, whatever fails."""
    user = 60_000 + os.getpid() % 5_000
    with mounted(tmp_path / "home", f"size=16M,mode=700,uid={user},gid={user}") as home:
        open_parents(home)
        bench.room = home / ".cache" / "catena"
        setpriv = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        bench.before = ("prlimit", "--nproc=60", *setpriv)
        bench.python = "/usr/bin/python3"
        bomb = "f() { setsid sh -c 'sleep 600' & f | f & }; f; sleep 600"
        with bench.program() as program:
            begin(program, job("cmd.run", bomb, grains={"os": "x"}, deadline_seconds=1))
            assert "not done after 1 seconds" in str(finished(program).ret.value)
            program.ack(RUN)
        bench.close()
        # A killed process may need a moment to be gone.
        ends = time.monotonic() + 60
        while left_of(user) and time.monotonic() < ends:
            os.sched_yield()
        assert left_of(user) == []
        assert bench.debris() == []


def left_of(user: int) -> list[str]:
    """Return the commands of the processes that a user has."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == user and (path / "cmdline").read_bytes():
                found.append((path / "cmdline").read_bytes().decode("utf-8", "replace"))
    return found


@as_root
@pytest.mark.container
@pytest.mark.roots("bullseye")
def test_host_with_python_3_9_runs_states(bench: Bench, tmp_path: Path) -> None:
    with overlay(tmp_path / "host", "bullseye") as host:
        bench.room = host.path / "root" / "room"
        argv = bundle().argv("/usr/bin/python3", "/root/room")
        bench.before, bench.python = ("chroot", str(host.path)), "/usr/bin/python3"
        bench.argv = argv
        for _ in range(3):
            with bench.program() as program:
                welcome = program.hello()
                assert welcome.python.startswith("3.9.")
                grains = program.open(p.HostIdentity("web1")).grains
                assert grains["osrelease"] == "11"
                states = (
                    low("file.managed", "/etc/motd", contents="hello\n"),
                    low("file.serialize", "/etc/x.yaml", dataset={"a": [1, 2]}),
                    low("grains.present", "role", value="web"),
                    low("user.present", "karl"),
                )
                begin(program, job("state.apply", low=states, grains=grains))
                result = finished(program)
                assert result.ret.success, result.ret.value
                program.ack(RUN)
        assert (host.path / "etc/x.yaml").read_text() == "a:\n- 1\n- 2\n"
        assert host.run("id", "karl").code == 0
