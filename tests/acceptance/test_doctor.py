"""`catena doctor` and `catena store` on a running master and minion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fleet import Fleet, wait_for

from tests.acceptance.conftest import make_fleet, running


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    yield from running(make_fleet({"web1": {}}))


def look(fleet: Fleet, *which: str) -> tuple[int, dict[str, Any]]:
    done = fleet.catena("doctor", *which, "--out", "json", check=False)
    found = json.loads(done.stdout)
    return done.returncode, {
        finding["part"]: finding for finding in reversed(next(iter(found.values())))
    }


def test_doctor_finds_no_problem_on_a_healthy_master(fleet: Fleet) -> None:
    code, found = look(fleet, "master")
    assert code == 0
    assert found["daemon"]["level"] == "ok"
    assert found["store"]["level"] == "ok"
    assert "fault" not in {finding["level"] for finding in found.values()}


def test_store_is_backed_up_while_jobs_run_and_restored_after_its_loss(fleet: Fleet) -> None:
    fleet.catena("run", "web1", "test.ping")
    copy = fleet.catena("store", "backup").stdout.strip()
    refused = fleet.catena("store", "restore", copy, check=False)
    assert refused.returncode != 0
    assert "a master runs with it" in refused.stderr
    fleet.stop_master()
    database = next(fleet.folder.rglob("master.db"))
    database.write_bytes(b"\xff" * 100_000)
    code, found = look(fleet, "master")
    assert (code, found["store"]["level"]) == (1, "fault")
    assert "store restore" in found["store"]["advice"]
    fleet.catena("store", "restore", copy)
    fleet.start_master()
    # The backup says that the minion is connected: ask it, rather than the list.
    ping = ("run", "web1", "test.ping")
    wait_for("an answer", lambda: fleet.catena(*ping, check=False).returncode == 0)
