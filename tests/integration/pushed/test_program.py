"""Each verb of the program on an SSH host, over a channel."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from catena.core.context import FileEntry
from catena.core.errors import PeerError
from catena.runtime.push import asking, values
from catena.runtime.push import protocol as p
from catena.runtime.push.protocol import ProgramError, Trouble
from catena.ssh.push.program import Part
from tests.support.pushed import RUN, Bench, begin, finished, job, low, steps_until
from tests.support.waiting import GROWING_SECONDS, process_ends

MODULE = b"""
def where():
    return __grains__["spot"], __pillar__.get("ports", {}).get(80)

def ask(name):
    return __salt__[name]()

def fail():
    raise KeyError("nothing there")

def leave():
    import os
    os._exit(3)
"""
STATE = b"""
def here(name):
    return {"name": name, "result": True, "changes": {"a": 1}, "comment": __grains__["spot"]}
"""
GRAIN = b"def spot():\n    return {'spot': 'rack 7'}\n"


def tree(**files: bytes) -> tuple[p.Tree, list[Part]]:
    """Return files by their names (__ is a slash) as a tree, and their parts."""
    parts = [Part.of(data) for data in files.values()]
    paths = [name.replace("__", "/").replace("_py", ".py") for name in files]
    entries = tuple(
        FileEntry(path, part.sha256, part.size, 0o644)
        for path, part in zip(paths, parts, strict=True)
    )
    return p.Tree("base", entries), parts


def custom() -> tuple[p.Tree, list[Part]]:
    return tree(_modules__spot_py=MODULE, _states__spot_py=STATE, _grains__spot_py=GRAIN)


def test_hello_describes_the_host(bench: Bench) -> None:
    with bench.program() as program:
        welcome = program.hello()
    assert welcome.python == ".".join(str(part) for part in sys.version_info[:3])
    assert (welcome.room, welcome.euid) == (str(bench.room), os.geteuid())
    assert welcome.boot_id and welcome.free > 0 and welcome.runs == ()
    assert bench.room.stat().st_mode & 0o777 == 0o700


def test_missing_custom_files_are_requested_sent_and_used(bench: Bench) -> None:
    listed, parts = custom()
    identity = p.HostIdentity("web1", {"grains": {"role": "web"}})
    with bench.program() as program:
        assert set(program.open(identity, [listed]).missing) == {part.sha256 for part in parts}
        program.put(parts)
        opened = program.open(identity, [listed])
        assert (opened.grains["spot"], opened.grains["role"]) == ("rack 7", "web")
        program.pillar({"ports": {80: "http"}})
        # A tuple stays one, and a key that is a number too.
        assert program.call(p.Call("spot.where")).value == ("rack 7", "http")
        assert program.call(p.Call("spot.ask", ("test.ping",))).value is True
        known = program.known(["spot.where", "spot.nothing", "test.ping"])
        assert known == {"spot.where", "test.ping"}
        assert program.known(["spot.here", "file.managed", "no.way"], "state") == {
            "spot.here",
            "file.managed",
        }


def test_variables_of_the_ssh_session_are_not_passed_to_commands(bench: Bench) -> None:
    """A bash that sees one reads .bashrc first, and prints what that prints."""
    home = bench.room.parent
    (home / ".bashrc").write_text("echo noise\n")
    bench.env |= {"HOME": str(home), "SSH_CLIENT": "::1 1 22", "SSH_CONNECTION": "x", "SHLVL": "0"}
    look = "bash -c 'env | grep ^SSH; echo done'"
    with bench.program() as program:
        program.open(p.HostIdentity("web1", {}))
        assert program.call(p.Call("cmd.run", (look,))).value == "done"
        begin(program, job("cmd.run", look, grains={"os": "x"}))
        assert finished(program).ret.value == "done"


def test_exception_of_a_function_is_reported_with_its_type_and_place(bench: Bench) -> None:
    listed, parts = custom()
    with bench.program() as program:
        program.put(parts)
        program.open(p.HostIdentity("web1"), [listed])
        fault = program.call(p.Call("spot.fail")).fault
        assert fault is not None
        assert (fault.kind, fault.unavailable) == ("KeyError", False)
        assert "salt://_modules/spot.py:9" in fault.told
        fault = program.call(p.Call("test.pin")).fault
        assert fault is not None and fault.unavailable and "test.ping" in fault.text


def test_function_that_exits_ends_only_its_call(bench: Bench) -> None:
    listed, parts = custom()
    with bench.program() as program:
        program.put(parts)
        program.open(p.HostIdentity("web1"), [listed])
        program.pillar({"ports": {80: "http"}})
        with pytest.raises(ProgramError) as caught:
            program.call(p.Call("spot.leave"))
        assert caught.value.trouble is Trouble.died
        # The next process knows what the last one was told.
        assert program.call(p.Call("spot.where")).value == ("rack 7", "http")


def test_call_beyond_its_deadline_is_killed_with_its_children(
    bench: Bench, tmp_path: Path
) -> None:
    pids = tmp_path / "pid"
    with bench.program() as program:
        program.open(p.HostIdentity("web1"))
        command = f"echo $$ >> {pids}; exec sleep 1000"
        for seconds in GROWING_SECONDS:
            with pytest.raises(ProgramError) as caught:
                program.call(p.Call("cmd.run", (command,), {"python_shell": True}, seconds))
            assert caught.value.trouble is Trouble.deadline
            if pids.exists() and pids.read_text():
                break
        assert process_ends(int(pids.read_text().split()[0]))
        assert program.call(p.Call("test.ping")).value is True


def test_call_ends_with_its_channel(bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pid"
    os.mkfifo(pids)
    program, pipes = bench.channel()
    program.open(p.HostIdentity("web1"))
    command = f"echo $$ > {pids}; exec sleep 1000"
    message = p.ask(p.Call("cmd.run", (command,), {"python_shell": True}))
    framer = program._channel._framer  # type: ignore[attr-defined]  # asks without waiting
    pipes.send(framer.encode(message), 0.0)
    pid = int(pids.read_text())
    pipes.close()
    assert process_ends(pid)


def test_parts_are_stored_completely_or_not_at_all(bench: Bench) -> None:
    part = Part.of(b"x" * 100)
    other = hashlib.sha256(b"other").hexdigest()
    with bench.program() as program:
        assert program.missing([part.sha256, other]) == {part.sha256, other}
        with pytest.raises(ProgramError) as caught:
            program.put([Part(other, 3, b"not")])
        assert caught.value.trouble is Trouble.content
        half = p.Put((p.Slice(part.sha256, 100, 0, 50),))
        program._ask(half, b"x" * 50)
        assert program.missing([part.sha256]) == {part.sha256}
        with pytest.raises(ProgramError, match="out of order"):
            program._ask(p.Put((p.Slice(part.sha256, 100, 60, 40),)), b"x" * 40)
        program.put([part, Part.of(b"")])
        assert program.missing([part.sha256, Part.of(b"").sha256, other]) == {other}
    assert bench.debris() == []


@pytest.mark.parametrize(
    ("slices", "blob", "said"),
    [
        ((p.Slice("a" * 64, 3, 0, 3),), b"1234", "not those of the slices"),
        ((p.Slice("../../x", 3, 0, 3),), b"123", "not a SHA-256"),
        ((p.Slice("a" * 64, 2, 0, 3),), b"123", "longer than its part"),
        ((p.Slice("a" * 64, -1, 0, 0),), b"", "bytes, limit"),
        ((p.Slice("a" * 64, 1 << 50, 0, 0),), b"", "bytes, limit"),
        ((p.Slice("a" * 64, 1 << 30, 0, 1 << 30),), b"", "in one put"),
    ],
)
def test_invalid_slices_of_a_part_are_refused(
    bench: Bench, slices: tuple[p.Slice, ...], blob: bytes, said: str
) -> None:
    with bench.program() as program:
        with pytest.raises(ProgramError, match=said) as caught:
            program._ask(p.Put(slices), blob)
        assert caught.value.trouble is Trouble.refused
        assert program.hello()
    assert bench.debris() == []


def test_large_part_is_sent_in_slices(bench: Bench, tmp_path: Path) -> None:
    data = os.urandom(5 * 1024 * 1024)
    file = tmp_path / "large"
    file.write_bytes(data)
    part = Part(hashlib.sha256(data).hexdigest(), len(data), file)
    with bench.program() as program:
        assert program.put([part]) > len(data) * 0.9
        assert program.missing([part.sha256]) == frozenset()


def test_part_damaged_on_disk_counts_as_missing(bench: Bench) -> None:
    part = Part.of(b"precious")
    with bench.program() as program:
        program.put([part])
    held = bench.room / "parts" / "objects" / part.sha256[:2] / part.sha256
    held.chmod(0o600)
    held.write_bytes(b"tampered")
    with bench.program() as program:
        assert program.missing([part.sha256]) == {part.sha256}


def test_run_reports_the_result_of_each_state(bench: Bench, tmp_path: Path) -> None:
    listed, parts = custom()
    states = (
        low("file.managed", str(tmp_path / "motd"), contents="hello\n"),
        low("spot.here", "x"),
        low("test.fail_without_changes", "no"),
    )
    files, more = tree(_modules__spot_py=MODULE, _states__spot_py=STATE, _grains__spot_py=GRAIN)
    with bench.program() as program:
        program.put([*parts, *more])
        grains = program.open(p.HostIdentity("web1"), [listed]).grains
        begin(program, job("state.apply", low=states, files=(files,), grains=grains))
        steps = steps_until(program, "")
        result = program.collect(RUN, 1 << 20)
        program.ack(RUN)
    assert [step.kind for step in steps] == ["begin", "state"] * 3
    assert (tmp_path / "motd").read_text() == "hello\n"
    assert (tmp_path / "motd").stat().st_mode & 0o777 == 0o644
    rows = list(result.ret.value.values())
    assert [row["result"] for row in rows] == [True, True, False]
    assert rows[1]["comment"] == "rack 7"
    assert (result.ret.success, result.ret.retcode, result.ret.out) == (False, 2, "highstate")
    assert (result.raised, result.interrupted) == (False, False)
    assert bench.debris() == []


def test_test_mode_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    states = (low("file.managed", str(tmp_path / "motd"), contents="hello\n"),)
    with bench.program() as program:
        begin(program, job("state.apply", low=states, test=True, grains={"os": "x"}))
        result = finished(program)
    assert [row["result"] for row in result.ret.value.values()] == [None]
    assert not (tmp_path / "motd").exists()


def test_run_uses_the_files_that_were_sent_with_it(bench: Bench, tmp_path: Path) -> None:
    listed, parts = tree(web__conf=b"listen 80\n")
    target = tmp_path / "conf"
    states = (low("file.managed", str(target), source="salt://web/conf"),)
    what = job("state.apply", low=states, files=(listed,), grains={"os": "x"})
    with bench.program() as program:
        with pytest.raises(ProgramError) as caught:
            begin(program, what)
        assert caught.value.trouble is Trouble.parts
        assert caught.value.detail == (parts[0].sha256,)
        program.put(parts)
        assert begin(program, what).phase in set(p.RunPhase)
        assert finished(program).ret.success
    assert target.read_text() == "listen 80\n"


def test_run_with_a_request_waits_for_its_master_and_continues(
    bench: Bench, tmp_path: Path
) -> None:
    target = tmp_path / "conf"
    state = low("file.managed", str(target), source="salt://unforeseen")
    data = Part.of(b"late\n")
    with bench.program() as program:
        begin(program, job("state.apply", low=(state,), grains={"os": "x"}))
        asked = steps_until(program, "ask")[-1]
    question = asking.unpacked(asked.data["kind"], asked.data["data"])
    assert isinstance(question, asking.AskFile)
    entry = FileEntry("unforeseen", data.sha256, data.size, 0o644)
    with bench.program() as program:
        assert program.poll(RUN).phase is p.RunPhase.running
        program.put([data])
        answered = 0
        while program.poll(RUN).phase is p.RunPhase.running:
            steps = program.poll(RUN).steps
            for step in [step for step in steps if step.kind == "ask"][answered:]:
                reply = asking.pack_reply(asking.MasterReply(entry))
                program.supply(RUN, int(step.data["number"]), reply)
                program.supply(RUN, int(step.data["number"]), b"a second one counts for nothing")
                answered += 1
        assert finished(program).ret.success
    assert target.read_text() == "late\n"


def test_parallel_states_write_one_journal(bench: Bench, tmp_path: Path) -> None:
    states = tuple(
        replace(
            low("file.managed", str(tmp_path / f"f{n}"), source=f"salt://unforeseen{n}"),
            keywords={"parallel": True},
        )
        for n in range(4)
    )
    data = Part.of(b"late\n")
    with bench.program() as program:
        begin(program, job("state.apply", low=states, grains={"os": "x"}))
        seen: list[p.RunStep] = []
        phase = p.RunPhase.running
        while phase is p.RunPhase.running:
            polled = program.poll(RUN, len(seen), 5.0)
            phase = polled.phase
            seen.extend(polled.steps)
            program.put([data])
            for step in polled.steps:
                if step.kind == "ask":
                    question = asking.unpacked(step.data["kind"], step.data["data"])
                    entry = FileEntry(question.path, data.sha256, data.size, 0o644)
                    reply = asking.pack_reply(asking.MasterReply(entry))
                    program.supply(RUN, step.data["number"], reply)
        assert finished(program).ret.success
    assert [step.seq for step in seen] == list(range(1, len(seen) + 1))
    assert sum(step.kind == "state" for step in seen) == 4
    assert [(tmp_path / f"f{n}").read_text() for n in range(4)] == ["late\n"] * 4


def test_event_of_a_run_is_kept_in_its_journal(bench: Bench) -> None:
    with bench.program() as program:
        begin(program, job("event.send", "my/tag", {"a": 1}, grains={"os": "x"}))
        steps = steps_until(program, "event")
        assert finished(program).ret.value is True
    assert (steps[-1].data["tag"], steps[-1].data["data"]["data"]) == ("my/tag", {"a": 1})


def test_job_that_is_not_started_is_removed(bench: Bench) -> None:
    part = Part.of(p.pack_job(job(pillar={"password": "secret"})))
    with bench.program() as program:
        program.put([part])
        assert program.missing([part.sha256]) == frozenset()
    with bench.program() as program:
        assert program.missing([part.sha256]) == {part.sha256}


def test_repeated_start_starts_a_run_once(bench: Bench, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    what = job("cmd.run", f"echo once >> {ran}", grains={"os": "x"})
    part = Part.of(p.pack_job(what))
    with bench.program() as program, bench.program() as other:
        program.put([part])
        program.begin(RUN, part.sha256)
        other.begin(RUN, part.sha256)
        finished(other)
        assert program.begin(RUN, part.sha256).phase is p.RunPhase.done
        program.ack(RUN)
        program.ack(RUN)
    assert ran.read_text() == "once\n"


def test_cancelled_run_ends_with_its_children(bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pid"
    os.mkfifo(pids)
    states = (
        low("test.nop", "first"),
        low("cmd.run", f"echo $$ > {pids}; exec sleep 1000"),
    )
    with bench.program() as program:
        begin(program, job("state.apply", low=states, grains={"os": "x"}))
        pid = int(pids.read_text())
        with pytest.raises(ProgramError) as caught:
            program.ack(RUN)
        assert caught.value.trouble is Trouble.busy
        with pytest.raises(ProgramError):
            program.wipe()
        assert program.cancel(RUN, "changed my mind").phase is p.RunPhase.done
        result = finished(program)
    assert process_ends(pid)
    rows = list(result.ret.value.values())
    assert [row["result"] for row in rows] == [True, False]
    assert "cancelled: changed my mind" in rows[1]["comment"]


def test_run_beyond_its_deadline_is_killed(bench: Bench) -> None:
    with bench.program() as program:
        begin(program, job("cmd.run", "sleep 1000", grains={"os": "x"}, deadline_seconds=1))
        result = finished(program)
    assert (result.ret.success, result.ret.value) == (False, "killed: not done after 1 seconds")
    assert not result.interrupted


def test_run_with_endless_output_is_killed(bench: Bench) -> None:
    text = b"import os\ndef on():\n    while True:\n        os.write(1, b'x' * 65536)\n"
    listed, parts = tree(_modules__flood_py=text)
    with bench.program() as program:
        program.put(parts)
        begin(program, job("flood.on", grains={"os": "x"}, files=(listed,), output_limit=1000))
        result = finished(program)
        program.ack(RUN)
    assert not result.ret.success
    assert "killed: it printed more than 1000 bytes" in str(result.ret.value)
    assert bench.debris() == []


def test_expired_run_does_not_start(bench: Bench, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with bench.program() as program:
        begin(program, job("cmd.run", f"touch {ran}", grains={"os": "x"}, not_after=1.0))
        result = finished(program)
    assert (result.ret.success, result.interrupted) == (False, False)
    assert "too late" in result.ret.value
    assert not ran.exists()


def test_state_runs_on_one_host_are_queued(bench: Bench, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    first = (low("cmd.run", f"cat {fifo}"),)
    with bench.program() as program:
        begin(program, job("state.apply", low=first, grains={"os": "x"}))
        steps_until(program, "begin")
        # One host may be known by several names, as to several users with sudo.
        second = job("state.apply", low=(low("test.nop", "x"),), grains={"os": "x"})
        second = replace(second, identity=p.HostIdentity("web1-again", {}))
        begin(program, second, "run-00000002")
        assert steps_until(program, "note", "run-00000002")[-1].data["text"].startswith("waits")
        fifo.write_text("go")
        assert finished(program).ret.success
        assert finished(program, "run-00000002").ret.success


def test_clean_removes_only_old_runs_and_bundles(bench: Bench) -> None:
    part = Part.of(b"old")
    with bench.program() as program:
        program.put([part])
        begin(program, job(grains={"os": "x"}))
        finished(program)
        assert program.clean() == p.Cleaned(0, 0, 0)
        (bench.room / "bundles" / ("0" * 64 + ".zip")).write_bytes(b"")
        os.utime(bench.room / "bundles" / ("0" * 64 + ".zip"), (1, 1))
        assert program.clean(p.Clean(0.0, 60.0)) == p.Cleaned(1, 0, 1)
        with pytest.raises(ProgramError) as caught:
            program.poll(RUN)
        assert caught.value.trouble is Trouble.unknown_run
        program.wipe()
    assert not bench.room.exists()


def test_return_above_its_limit_is_refused_by_the_master(bench: Bench) -> None:
    with bench.program() as program:
        begin(program, job("test.arg", "x" * 10_000, grains={"os": "x"}))
        steps_until(program, "")
        with pytest.raises(PeerError, match="limit 1000"):
            program.collect(RUN, 1000)


def test_invalid_job_is_refused_before_anything_is_stored(bench: Bench) -> None:
    bad = [
        values.dumps({"no": "job"}),
        b"{",
        p.pack_job(job(settings={"fail_hard": "maybe"})),
    ]
    with bench.program() as program:
        for data in bad:
            part = Part.of(data)
            program.put([part])
            with pytest.raises(ProgramError) as caught:
                program.begin(RUN, part.sha256)
            assert caught.value.trouble is Trouble.refused
        with pytest.raises(ProgramError):
            program.begin("../../etc", part.sha256)
    assert bench.debris() == []
