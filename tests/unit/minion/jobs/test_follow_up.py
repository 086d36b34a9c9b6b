from __future__ import annotations

import os
from pathlib import Path

import pytest

from catena.core.clock import SystemClock
from catena.minion.jobs.follow_up import Afterwards
from catena.minion.log import Log
from catena.minion.notify import Notifier
from tests.support.waiting import wait_until


@pytest.fixture
def host(tmp_path: Path) -> tuple[Afterwards, Path, list[str], Path]:
    log, witness = tmp_path / "log", tmp_path / "reboots"
    handle = os.open(log, os.O_CREAT | os.O_WRONLY)
    restarts: list[str] = []
    log_of = Log(handle, "debug", SystemClock())
    after = Afterwards("boot-1", "me", 60.0, lambda: restarts.append("x"), log_of)
    return after, witness, restarts, log


def reboot(witness: Path, **more: object) -> dict[str, object]:
    code = f"open({str(witness)!r}, 'a').write('x')"
    return {"kind": "reboot", "command": ["python3", "-c", code], "boot_id": "boot-1", **more}


def wait_for_reboots(witness: Path, times: int) -> None:
    wait_until(lambda: witness.exists() and len(witness.read_text()) >= times, "the reboot")
    assert witness.read_text() == "x" * times


Host = tuple[Afterwards, Path, list[str], Path]


def test_reboot_waits_for_the_stored_return(host: Host) -> None:
    after, witness, _, _ = host
    after.promise("j", reboot(witness), 0.0, 5.0)
    after.service(4.0)
    assert not witness.exists() and after.next_due() == 5.0
    after.stored("j", 4.0)
    after.service(4.0)
    wait_for_reboots(witness, 1)


def test_reboot_delay_counts_from_the_stored_return(host: Host) -> None:
    after, witness, _, _ = host
    after.promise("j", reboot(witness, delay_seconds=60), 0.0, 5.0)
    after.stored("j", 1.0)
    assert after.next_due() == 61.0


def test_agent_that_knows_no_boot_says_that_it_does_not_reboot(host: Host, tmp_path: Path) -> None:
    _, witness, _, log = host
    handle = os.open(log, os.O_WRONLY | os.O_APPEND)
    after = Afterwards("", "me", 60.0, lambda: None, Log(handle, "debug", SystemClock()))
    after.promise("j", reboot(witness), 0.0, 0.0)
    assert after.next_due() is None
    assert "job j: cannot reboot: the id of this boot is unknown" in log.read_text()


def test_follow_ups_of_a_chain_are_cancelled_with_it(host: Host) -> None:
    after, witness, restarts, _ = host
    after.promise("a", reboot(witness, chain_id=7), 0.0, 0.0)
    after.promise("b", {"kind": "restart_agent", "chain_id": 8}, 0.0, 0.0)
    after.promise("c", {"kind": "call_off", "chain_id": 7}, 0.0, 0.0)
    after.service(1.0)
    assert restarts == ["x"] and not witness.exists() and after.next_due() is None


def test_reboot_that_several_jobs_of_a_chain_return_is_commanded_once(host: Host) -> None:
    after, witness, _, _ = host
    after.promise("earlier", reboot(witness, chain_id=7), 0.0, 5.0)
    after.promise("start", reboot(witness, chain_id=7), 1.0, 5.0)
    assert after.next_due() == 5.0
    after.stored("start", 2.0)
    after.service(2.0)
    # A resume that came before the reboot returns the same request.
    after.promise("resume", reboot(witness, chain_id=7), 3.0, 5.0)
    after.stored("resume", 4.0)
    after.service(9.0)
    wait_for_reboots(witness, 1)
    assert after.next_due() == 62.0


def test_missing_reboot_is_requested_once_more_and_then_reported_as_an_error(host: Host) -> None:
    after, witness, _, log = host
    after.promise("j", reboot(witness), 0.0, 0.0)
    after.service(0.0)
    wait_for_reboots(witness, 1)
    after.service(59.0)
    after.service(60.0)
    wait_for_reboots(witness, 2)
    after.service(120.0)
    assert after.next_due() is None and "did not reboot" in log.read_text()
    assert len(witness.read_text()) == 2


def test_completed_follow_up_is_not_repeated(host: Host) -> None:
    after, witness, restarts, _ = host
    after.promise("j", reboot(witness, boot_id="boot-0"), 0.0, 0.0)
    after.promise("k", {"kind": "restart_agent", "session": "older"}, 0.0, 0.0)
    after.service(10.0)
    assert after.next_due() is None and restarts == [] and not witness.exists()


def test_restart_of_the_agent_is_done_once(host: Host) -> None:
    after, _, restarts, _ = host
    after.promise("k", {"kind": "restart_agent", "session": "me"}, 0.0, 5.0)
    after.stored("k", 1.0)
    after.service(1.0)
    after.service(9.0)
    assert restarts == ["x"]


def test_missing_reboot_command_is_logged(host: Host) -> None:
    after, _, _, log = host
    after.promise("j", {"kind": "reboot", "command": ["/no/such/thing"]}, 0.0, 0.0)
    after.service(0.0)
    assert "/no/such/thing" in log.read_text()


def test_text_of_a_peer_is_logged_as_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log.open(str(path), "info", SystemClock())
    log.info("a\nb\x1b[31m")
    log.debug("not at this level")
    assert path.read_text().endswith(r"info a\x0ab\x1b[31m" + "\n")
    assert len(path.read_text().splitlines()) == 1


def test_service_manager_is_notified_over_its_socket(tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "n"))
        notifier = Notifier(str(tmp_path / "n"), "30000000")
        notifier.send("READY=1")
        assert server.recv(100) == b"READY=1"
        assert notifier.interval == 15.0
    notifier.send("WATCHDOG=1")
    Notifier("").send("READY=1")
