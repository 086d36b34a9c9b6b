"""Ids that are reached over SSH: hosts of the roster without a minion, and hosts with a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import ConfigError
from catena.master.push.hosts import OLD_SECONDS, RosterHosts


class Roster:
    """A roster that is read as a test says."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.found: dict[str, dict[str, Any]] = {"web1": {"role": "web"}, "db1": {}}
        self.broken = False
        self.reads = 0
        self.minions: set[str] = set()
        self.now = 0.0
        file.write_text("1")
        self.hosts = RosterHosts(file, self.read, lambda: self.minions, lambda: self.now)

    async def read(self) -> dict[str, dict[str, Any]]:
        self.reads += 1
        if self.broken:
            raise ConfigError("roster:1: no")
        return self.found

    async def refresh(self) -> None:
        await self.hosts.refresh()


@pytest.fixture
async def roster(tmp_path: Path) -> Roster:
    found = Roster(tmp_path / "roster")
    await found.refresh()
    return found


async def test_roster_is_read_again_when_it_has_changed_or_is_old(roster: Roster) -> None:
    await roster.refresh()
    assert roster.reads == 1
    roster.file.write_text("other")
    roster.found = {"web2": {}}
    await roster.refresh()
    assert roster.reads == 2
    assert roster.hosts.ids() == {"web2"}
    # What a template makes of the same text may be another thing later.
    roster.now = OLD_SECONDS
    await roster.refresh()
    assert roster.reads == 3


def test_minion_takes_precedence_over_a_host_of_the_same_name(roster: Roster) -> None:
    assert "web1" in roster.hosts
    roster.minions = {"web1"}
    assert "web1" not in roster.hosts
    assert roster.hosts.ids() == {"db1"}


def test_job_started_over_ssh_ends_over_ssh_even_if_a_minion_takes_the_name(
    roster: Roster,
) -> None:
    assert roster.hosts.keep(["web1"]) == frozenset()
    roster.minions = {"web1"}
    assert "web1" in roster.hosts
    assert roster.hosts.keep([]) == {"web1"}
    assert "web1" not in roster.hosts


async def test_broken_roster_does_not_affect_known_hosts(roster: Roster) -> None:
    roster.file.write_text("{")
    roster.broken = True
    with pytest.raises(ConfigError, match="roster:1"):
        await roster.refresh()
    assert roster.hosts.fault == "roster:1: no"
    assert roster.hosts.ids() == {"web1", "db1"}
    roster.broken = False
    await roster.refresh()
    assert roster.hosts.fault == ""


async def test_host_removed_from_the_roster_is_not_targeted_but_keeps_its_name(
    roster: Roster,
) -> None:
    roster.hosts.know(["web1"])
    roster.file.unlink()
    await roster.refresh()
    assert roster.hosts.ids() == frozenset()
    assert "web1" in roster.hosts
    assert "db1" not in roster.hosts


async def test_folder_is_no_roster(tmp_path: Path) -> None:
    roster = Roster(tmp_path / "roster")
    roster.hosts = RosterHosts(tmp_path, roster.read, lambda: (), lambda: 0.0)
    await roster.refresh()
    assert roster.reads == 0
