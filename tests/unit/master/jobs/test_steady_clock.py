"""The clock for the expiry of orders, across clock changes, restarts and boots."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from catena.master.jobs.steady_clock import SAVE_SECONDS, SteadyClock, SteadyReading, advance
from catena.master.process.clocks import ClockReading
from catena.master.store.database import Store

DAY = 86_400.0
START = ClockReading(1_000_000.0, 500.0, "one", "host")
#: A day after START and an hour after a boot; the clock of the host is right.
NEXT = ClockReading(START.wall + DAY, 3600.0, "two", "host")
#: The same moment on a host that has been up for a year.
ELSEWHERE = ClockReading(START.wall + DAY, 365 * DAY, "three", "other")


@dataclass
class Host:
    """A host whose clocks a test sets."""

    now: ClockReading = START

    def read(self) -> ClockReading:
        return self.now

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.now = replace(self.now, wall=self.now.wall + seconds, mono=self.now.mono + seconds)

    def set_clock(self, ahead: float) -> None:
        self.now = replace(self.now, wall=self.now.wall + ahead)


@pytest.mark.parametrize(
    ("now", "passed"),
    [
        pytest.param(replace(START, wall=START.wall + 60, mono=560.0), 60.0, id="rest"),
        pytest.param(replace(START, wall=START.wall + DAY, mono=560.0), 60.0, id="ahead"),
        pytest.param(replace(START, wall=START.wall - DAY, mono=560.0), 60.0, id="back"),
        pytest.param(NEXT, DAY, id="a boot, and the clock says how long it was off"),
        pytest.param(replace(NEXT, wall=0.0), 3600.0, id="a boot that forgot the time"),
        pytest.param(ELSEWHERE, DAY, id="another host"),
        pytest.param(replace(ELSEWHERE, wall=0.0), 0.0, id="another host without the time"),
        pytest.param(replace(ELSEWHERE, host=""), DAY, id="a host without an identity"),
        pytest.param(replace(START, wall=START.wall + 9, mono=3.0), 9.0, id="a copy of the host"),
    ],
)
def test_elapsed_time_is_measured_across_clock_changes(now: ClockReading, passed: float) -> None:
    last = SteadyReading(START.wall, START)
    assert advance(last, now).steady == last.steady + passed


def test_clock_change_before_a_boot_does_not_age_orders_after_it() -> None:
    ahead = advance(SteadyReading(START.wall, START), replace(START, wall=START.wall + DAY))
    booted = ClockReading(START.wall + DAY + 120, 60.0, "two", "host")
    assert advance(ahead, booted).steady == START.wall + 120


def test_clock_set_back_before_a_boot_is_treated_as_corrected_after_it() -> None:
    back = advance(SteadyReading(START.wall, START), replace(START, wall=START.wall - DAY))
    booted = ClockReading(START.wall + 120, 60.0, "two", "host")
    assert advance(back, booted).steady == START.wall + 120


async def _restarted(store: Store, host: Host) -> SteadyClock:
    steady = SteadyClock(store, host.read)
    await steady.open()
    return steady


async def test_steady_time_continues_across_restarts_of_the_master(tmp_path: Path) -> None:
    host = Host()
    store = Store(f"sqlite:///{tmp_path / 'master.db'}")
    await store.open()
    try:
        steady = await _restarted(store, host)
        assert steady.now() == START.wall
        host.set_clock(DAY)
        # The clock was set while no master ran; the saved reading is of the same boot.
        steady = await _restarted(store, host)
        assert steady.now() == START.wall
        assert steady.by_wall_clock(START.wall + 60) == host.now.wall + 60
        host.set_clock(-3 * DAY)
        await steady.save_if_due()
        host.now = ClockReading(host.now.wall + 600, 60.0, "two", "host")
        steady = await _restarted(store, host)
        assert steady.now() == START.wall + 600
    finally:
        await store.close()


async def test_reading_is_saved_after_a_clock_change_and_periodically(
    tmp_path: Path,
) -> None:
    host = Host()
    store = Store(f"sqlite:///{tmp_path / 'master.db'}")
    await store.open()
    try:
        steady = await _restarted(store, host)
        saved = []
        for seconds, ahead in ((60, 0), (60, 0.2), (60, 2), (SAVE_SECONDS + 1, 0)):
            before = steady.saved
            host.rest(seconds)
            host.set_clock(ahead)
            await steady.save_if_due()
            saved.append(steady.saved is not before)
        assert saved == [False, False, True, True]
    finally:
        await store.close()
