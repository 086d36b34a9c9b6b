"""Invariants of rough simulation runs, beside those of all runs.

- I2 is judged for each run by itself, whatever a restored store has forgotten of it.
- I13: the number of jobs is bounded, by runs and by starts of agents, however often a clean-up
  fails.
- I15: what a hostile minion says changes nothing of an honest one. This needs no judge of its own:
  I1 to I12 are judged by what honest hosts did, and the hostile minion says otherwise.
- I16: a host is given up when its time is over, and not before.
- I18: a start waits while its minion refuses to forget an ended chain (`clean_watch`).
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack

from catena.master.store import restored, tables
from tests.sim import store_views as views
from tests.sim.checker import Checker, Run
from tests.sim.clean_watch import CleanWatch
from tests.sim.host import Host
from tests.sim.hostile import NAME as EVIL
from tests.sim.master import BOUNDARY_SECONDS

_CHAIN, _RUN, _EXECUTION = views.CHAIN, views.RUN, views.EXECUTION
_JOB, _DELIVERY = tables.JOBS.name, tables.DELIVERIES.name
_CLEAN, _RESUME = "mgractionchains.clean", "mgractionchains.resume"
_STATE = re.compile(r"^mgr_actionchain_(\d+)_action_(\d+)_chunk_\d+:$", re.MULTILINE)
_NOTHING_WAITS = "no chain waits on this minion"
_EXPIRED = "not delivered in time"
#: Why an action ends in a restored store.
_FORGOTTEN = re.compile(
    f"No job return event was received|is not on the file server|is not there for|{_NOTHING_WAITS}"
)
#: What a minion says of a run that the lost store had ended, or replaced by a newer one there.
_ENDED_THERE = "(, run [0-9]+)? (has ended|is cancelled|is not known on this minion)"
#: A chain met the resume file of an earlier one on its minion.
_IN_THE_WAY = re.compile(r"can't start: chain ([0-9]+) waits on this minion \(\S+/([^/]+)/conf/")
#: Jobs of one kind that each of their causes may make: a clean that fails comes again, after
#: growing pauses, for as long as a world lasts.
_EACH = 12
#: Jobs of one kind that need no cause.
_FREE = 12
#: How long the simulated master waits for a boot, and how often that is looked at, seconds.
SHORTEST = BOUNDARY_SECONDS
WATCH_SECONDS = 3.0
_OVERDUE = "did not come back with a new boot"


class RoughChecker(Checker):
    """See the module."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        #: Since when each execution waits for its proof, virtual seconds, and those given up.
        self._picked_up: dict[int, float] = {}
        self._overdue: set[int] = set()
        self._cleans = CleanWatch(world, self.ask, self.wrong)

    def run_of(self, host: Host, key: str) -> Run:
        """As Checker, by the pinned chunks: a restored store may have forgotten the chain."""
        found = []
        for path in host.disk.root.glob("cache/chains/[0-9]*/*.sls"):
            before, named, _ = path.read_text().partition(f"key: {key}\n")
            if named:
                chain_id, action_id = map(int, _STATE.findall(before)[-1])
                found.append((path.stat().st_mtime_ns, chain_id, action_id))
        _, chain_id, action_id = max(found)
        return Run(chain_id, action_id, self.epoch_at(host, chain_id))

    def storm(self) -> bool:
        """Return whether there are more jobs than anything explains (I13)."""
        found = False
        runs = self.ask(f"SELECT minion, count(*) AS n FROM {_RUN} GROUP BY minion")
        causes = {row["minion"]: row["n"] for row in runs}
        starts = self._world.stage.counted("session")
        if self._world.hostile is not None:
            starts += self._world.hostile.starts
        query = (
            f"SELECT d.minion, j.fun, count(*) AS n FROM {_JOB} j JOIN {_DELIVERY} d"
            f" ON d.jid = j.jid WHERE j.fun IN ('{_CLEAN}', '{_RESUME}') GROUP BY 1, 2"
        )
        for row in self.ask(query):
            many = causes.get(row["minion"], 0) if row["fun"] == _CLEAN else starts
            if row["n"] > _FREE + _EACH * many and row["minion"] != EVIL:
                self.wrong("I13", f"{row['n']} jobs {row['fun']} for {row['minion']}")
                found = True
        return found

    def _open_business(self) -> Iterator[str]:
        bait = self.ask(f"SELECT id FROM {_CHAIN} WHERE label = 'bait'")
        not_judged = {f"chain {row['id']}" for row in bait}
        for what in super()._open_business():
            words = what.split()
            if EVIL not in words and " ".join(words[:2]) not in not_judged:
                yield what
        for name in sorted(self._world.to_cure):
            yield f"nobody has cleaned {name}"

    def at_the_end(self) -> None:
        """As Checker, and the invariants of rough worlds."""
        super().at_the_end()
        self._judge_runs()

    def judge_reboots(self) -> None:
        """As Checker, unless the store has forgotten runs."""
        if not self._world.master.forgotten:
            super().judge_reboots()

    async def watch(self) -> None:
        """I16: nobody gives a host up before its time, whichever host's clock counts it.

        And I18.
        """
        moved = SHORTEST * 0.5
        while True:
            now = self._world.stage.loop.now
            self._cleans.look()
            limit = (SHORTEST if self._world.master.hosts == 1 else moved) - 2 * WATCH_SECONDS
            query = f"SELECT id, state, reason FROM {_EXECUTION} WHERE picked_up IS NOT NULL"
            for row in self.ask(query):
                since = self._picked_up.setdefault(row["id"], now)
                if row["id"] in self._overdue or _OVERDUE not in row["reason"]:
                    continue
                self._overdue.add(row["id"])
                if now - since < limit:
                    text = f"execution {row['id']} was given up after {now - since:.0f} s"
                    self.wrong("I16", f"{text}: {row['reason']}")
            await asyncio.sleep(WATCH_SECONDS)

    def _judge_runs(self) -> None:
        """I2: an action that is to run once begins at most once in each run."""
        kinds = {wish.key: wish.kind for order in self._world.orders for wish in order.wishes}
        begun = Counter(
            (effect.key, effect.minion, effect.epoch)
            for effect in self._world.stage.effects
            if effect.what == "begins"
        )
        for (key, minion, epoch), count in begun.items():
            if count > (1 if kinds[key] == "once" else 3):
                self.wrong("I2", f"{key} on {minion} began {count} times in epoch {epoch}")

    def lost_deliveries(self) -> list[Any]:
        """As Checker, without the hostile minion's jobs and those that a restored store ends.

        A restored store takes for open what a minion has returned to the lost one, and learns of
        it from the minion's greeting.
        """
        query = f"SELECT count(*) AS n FROM {_DELIVERY} WHERE detail = ?"
        ended = self.ask(query, restored.REASON)[0]["n"]
        if self._world.master.forgotten:
            return []
        if ended:
            self.wrong("I1", f"{ended} jobs ended for a restore that did not happen")
        return [row for row in super().lost_deliveries() if row["minion"] != EVIL]

    def explains(self, order: Any, text: str) -> bool:
        """As Checker, with the reasons that restores, moves and clean-ups by people give."""
        world = self._world
        own_end = re.compile(f"chain {order.chain_id}{_ENDED_THERE}")
        places = {minion for wish in order.wishes for minion in wish.minions}
        return (
            super().explains(order, text)
            or (self.forgets(order) and _FORGOTTEN.search(text) is not None)
            or (self.forgets(order) and own_end.search(text) is not None)
            or self._could_not_clean(text)
            # By the wall clock, which may be wrong, it has waited for a day.
            or (self._has_unseen_clock() and _EXPIRED in text)
            or (bool(places & world.obstructed) and _NOTHING_WAITS in text)
        )

    def _has_unseen_clock(self) -> bool:
        """Return whether the master's wall clock may have jumped without a master to notice it."""
        master = self._world.master
        return bool(master.hosts > 1 or master.was_set_forward_unseen)

    def _could_not_clean(self, text: str) -> bool:
        """Return whether a chain met the resume file of one that the minion could not forget.

        The master had told the minion to forget that one, and the minion could not: its folders
        were read-only. Or the store was restored, and knows nothing of that one (`may_stay`). The
        later chain fails by an error that names the cure.
        """
        met = _IN_THE_WAY.search(text)
        if met is None:
            return False
        known = self.ask(f"SELECT 1 FROM {_RUN} WHERE chain_id = ? AND minion = ?", *met.groups())
        if self._world.master.forgotten and not known:
            return True
        query = (
            f"SELECT j.metadata FROM {_JOB} j JOIN {tables.RETURNS.name} r ON r.jid = j.jid"
            f" WHERE j.fun = '{_CLEAN}' AND r.minion = ? AND NOT r.success"
        )
        failed = [msgpack.unpackb(row["metadata"]) for row in self.ask(query, met[2])]
        return any(run.get("chain") == int(met[1]) for run in failed)

    def may_stay(self, path: Path) -> bool:
        """As Checker: the resume file of a run that a restored store does not know stays.

        The master can't tell its minion to forget a run of which it knows nothing; a person can.
        """
        if not self._world.master.forgotten or not path.is_file():
            return False
        named = dict(re.findall(r"^(actionchain_id|epoch): ([0-9]+)$", path.read_text(), re.M))
        query = f"SELECT minion FROM {_RUN} WHERE chain_id = ? AND epoch = ?"
        return len(named) == 2 and not self.ask(query, named["actionchain_id"], named["epoch"])

    def may_lose(self, minion: str) -> bool:
        """As Checker: a restored store takes ended runs for open; a clean-up by a person ends all.

        A folder took the place of the resume file, and somebody ran the cure that was named.
        """
        return bool(self._world.master.forgotten) or minion in self._world.obstructed

    def forgets(self, order: Any) -> bool:
        """Return whether a restored store may know nothing of a chain, or of runs of it."""
        return bool(self._world.master.forgotten)
