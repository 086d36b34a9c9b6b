"""Check the invariants I1 to I12, I14 and I15 that catena promises.

Some are judged at each effect that a witness sees (what must be durable before it may happen), the
others when the healed world has come to rest. The measure is what people wanted, what witnesses
saw, the master's database, and what lies on the disks.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from catena.core.errors import CatenaError
from catena.master.chains.lifecycle import CHAIN, ChainState
from catena.master.executions.lifecycle import EXECUTION, ExecutionState
from catena.master.store import chain_tables as ct
from catena.master.store import tables
from catena.runtime.chain_record import ActionState, JournaledChain, fold
from catena.runtime.journal import decode_all
from tests.sim import prints as prints_of_jobs
from tests.sim import store_views as views
from tests.sim.disk import File, Folder
from tests.sim.host import Host

#: Why an action may end otherwise than well.
REASONS = re.compile(
    "was told to fail|Prerequisite failed|cancelled by|[Ii]nterrupted"
    "|Given up|it was queued too long|it (came|arrived) too late|No space left"
    "|did not come back with a new boot|set (forward|back) by|the store was restored from a backup"
    "|malformed resume file|Read-only file system|Is a directory"
    "|given up on the minion by mgractionchains.clean"
)
_CHAIN, _RUN, _HISTORY, _EXECUTION = views.CHAIN, views.RUN, views.HISTORY, views.EXECUTION
_ENTRY, _ACTION = ct.ENTRIES.name, ct.ACTIONS.name
_DELIVERY, _JOB = tables.DELIVERIES.name, tables.JOBS.name
_RETURN, _OUTPUT = tables.RETURNS.name, tables.OUTPUT.name
ENDED = {"done", "failed", "cancelled"}
#: States in which a chain is held for a person.
HELD = ("pending_approval", "waiting")
#: States in which a chain may rest: ended, or waiting for a person in sight of everybody.
RESTING = {*ENDED, "draft", *HELD}
FINAL = {state.value for state in ExecutionState if EXECUTION.is_final(state)}


class Run(NamedTuple):
    """One action of one run of a chain."""

    chain_id: int
    action_id: int
    epoch: int


class Checker:
    """Collects what is wrong.

    Args:
        world: to judge.
    """

    def __init__(self, world: Any) -> None:
        self._world = world
        self.violations: list[str] = []
        self._base: sqlite3.Connection | None = None
        #: Number of the file that the connection has open.
        self._base_file = 0
        world.stage.on_effect = self.at_effect
        for host in world.hosts.values():
            host.epoch_of = partial(self._epoch, host)

    def wrong(self, invariant: str, text: str) -> None:
        """Note a violation."""
        self._world.stage.tell("WRONG", f"{invariant}: {text}")
        self.violations.append(f"{invariant}: {text}")

    # -- at each effect ------------------------------------------------------------------------

    def at_effect(self, host: Host, key: str, what: str) -> None:
        """Judge an effect by what is durable on its host at this moment."""
        if what != "begins":
            return
        wish = self._wish(key)
        if host.name not in wish.minions:
            self.wrong("I8", f"{key} runs on {host.name}, which is no target of it")
        run = self.run_of(host, key)
        self._judge_end(host, run, key)
        view, ids = self._durable_chain(host, run.chain_id, key)
        if view is None:
            self.wrong("I3", f"{key} begins on {host.name} and its chain is not durable there")
            return
        mine = run.action_id
        state = view.action(mine).state
        if state is not ActionState.begun:
            self.wrong("I2", f"{key} begins on {host.name}; durable is only: {state.value}")
        for before in ids[: ids.index(mine)] if mine in ids else []:
            if view.action(before).state is not ActionState.done:
                found = view.action(before).state.value
                self.wrong("I3", f"{key} begins on {host.name} before action {before} ({found})")
        if view.action(mine).attempt > (1 if wish.kind == "once" else 3):
            self.wrong("I2", f"{key} begins on {host.name}, attempt {view.action(mine).attempt}")

    def _judge_end(self, host: Host, mine: Run, key: str) -> None:
        """I7: nothing of a run begins once its minion has said that it knows of its end."""
        query = (
            f"SELECT j.metadata FROM {_JOB} j JOIN {_RETURN} r ON r.jid = j.jid"
            " WHERE j.fun = 'mgractionchains.clean' AND r.minion = ? AND r.success"
        )
        for row in self.ask(query, host.name):
            run = msgpack.unpackb(row["metadata"])
            if run.get("chain") == mine.chain_id and run["epoch"] >= mine.epoch:
                self.wrong("I7", f"{key} begins on {host.name} after its run was ended there")

    def run_of(self, host: Host, key: str) -> Run:
        """Return of which run an action is that runs on a host at this moment."""
        order, wish = next((o, w) for o in self._world.orders for w in o.wishes if w.key == key)
        # A chain may run before the person who scheduled it has the answer, with its id.
        chain_id = order.chain_id or self._chain_of(order.label)
        action = self._action(chain_id, host.name, wish.order)
        return Run(chain_id, action, self.epoch_at(host, chain_id))

    def epoch_at(self, host: Host, chain_id: int) -> int:
        """Return the epoch of a chain that a host has."""
        path = host.disk.root / "cache" / "chains" / str(chain_id) / "manifest.json"
        return int(json.loads(path.read_bytes())["epoch"])

    def _epoch(self, host: Host, key: str) -> int:
        return self.run_of(host, key).epoch

    def _chain_of(self, label: str) -> int:
        return int(self.ask(f"SELECT id FROM {_CHAIN} WHERE label=?", label)[0]["id"])

    def _wish(self, key: str) -> Any:
        return next(w for o in self._world.orders for w in o.wishes if w.key == key)

    def _action(self, chain_id: int, minion: str, order: int) -> int:
        query = "SELECT action_id FROM {entry} WHERE chain_id=? AND minion=? AND sort_order=?"
        rows = self.ask(query.format(entry=_ENTRY), chain_id, minion, order)
        return int(rows[0]["action_id"]) if rows else 0

    def _durable_chain(
        self, host: Host, chain_id: int, key: str
    ) -> tuple[JournaledChain | None, list[int]]:
        """Return what a power cut at its worst would leave of a chain's journal, and its order."""
        folder = host.disk.tree
        for name in ("cache", "chains", str(chain_id)):
            node = folder.durable.get(name)
            if not isinstance(node, Folder):
                return None, []
            folder = node
        journal, manifest = folder.durable.get("journal"), folder.durable.get("manifest.json")
        if not isinstance(journal, File) or not isinstance(manifest, File):
            return None, []
        try:
            records = decode_all(journal.durable)[0]
            view = fold(records)
        except CatenaError as error:
            self.wrong("I3", f"the durable journal on {host.name} is no journal: {error}")
            return None, []
        actions = [a for c in json.loads(manifest.durable)["chunks"] for a in c["actions"]]
        for action in actions:
            boots = [r["boot_id"] for r in records if r.get("action") == action["action_id"]]
            ended = view.action(action["action_id"]).state is ActionState.done
            if action["kind"] == "reboot" and ended and boots[0] == boots[-1]:
                self.wrong("I3", f"{key} begins on {host.name} without the reboot before it")
        return view, [action["action_id"] for action in actions]

    # -- the database --------------------------------------------------------------------------

    def ask(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Return rows of the master's database as it is committed."""
        path = self._world.master.database
        found = path.stat().st_ino
        if self._base is None or found != self._base_file:
            # The first question, or the first one to a restored store.
            self.close()
            # Witnesses ask in the threads of their jobs, of which one runs at a time.
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._base_file = found
            self._base.row_factory = sqlite3.Row
        return self._base.execute(query, values).fetchall()

    def close(self) -> None:
        """Let go of the database."""
        if self._base is not None:
            self._base.close()
        self._base = None

    # -- is it over? ---------------------------------------------------------------------------

    def open_business(self) -> list[str]:
        """Return what is not at rest, in words."""
        return list(self._open_business())

    def _open_business(self) -> Iterator[str]:
        world = self._world
        if not world.master.ready:
            yield "the master is away"
            return
        for row in self.ask(f"SELECT id, state FROM {_CHAIN}"):
            if row["state"] not in RESTING:
                yield f"chain {row['id']} is {row['state']}"
        for row in self.ask(
            f"SELECT chain_id, minion FROM {_RUN} WHERE state NOT IN ('ended', 'lost')"
        ):
            yield f"chain {row['chain_id']} is open on {row['minion']}"
        final = "('done','rejected','expired','cancelled','lost')"
        query = f"SELECT jid, minion, state FROM {_DELIVERY} WHERE state NOT IN {final}"
        for row in self.ask(query):
            yield f"job {row['jid']} is {row['state']} on {row['minion']}"
        for host in world.hosts.values():
            yield from _open_on(host)

    def storm(self) -> bool:
        """Return whether waiting any longer makes no sense: see `rough.RoughChecker`."""
        return False

    # -- at the end ----------------------------------------------------------------------------

    def at_the_end(self) -> None:
        """Judge the world at rest."""
        for what in self.open_business():
            self.wrong("I1", f"it does not come to rest: {what}")
        chains = {row["id"]: row for row in self.ask(f"SELECT * FROM {_CHAIN}")}
        for order in self._world.orders:
            if order.accepted and order.chain_id not in chains and not self.forgets(order):
                self.wrong("I4", f"{order.label} was accepted and is not in the database")
        for row in self.lost_deliveries():
            self.wrong("I1", f"job {row['jid']} is lost on {row['minion']}")
        self._judge_history()
        for order in self._world.orders:
            if order.chain_id in chains:
                self._judge_chain(order, chains[order.chain_id]["state"])
        self._judge_interleaving()
        self._judge_held()
        self._judge_output()
        self.judge_reboots()
        for host in self._world.hosts.values():
            self._judge_disk(host)

    def lost_deliveries(self) -> list[sqlite3.Row]:
        """Return jobs that a minion had and lost."""
        return self.ask(f"SELECT jid, minion FROM {_DELIVERY} WHERE state = 'lost'")

    def forgets(self, order: Any) -> bool:
        """Return whether the master may have forgotten a chain, or runs of it."""
        return False

    def all_went_well(self) -> None:
        """Judge a world that nothing befell: what nobody stopped and nothing failed is done."""
        for order in self._world.orders:
            state = self.ask(f"SELECT state FROM {_CHAIN} WHERE id=?", order.chain_id)[0]["state"]
            fails = any(wish.fails for wish in order.wishes)
            if state != "done" and not fails and order.cancel_at is None:
                self.wrong("I1", f"{order.label} is {state}, though nothing befell it")
        prints = self._world.stage.prints
        for minion, jid in prints.jobs() if prints is not None else ():
            if not self.ask(f"SELECT 1 FROM {_OUTPUT} WHERE minion=? AND jid=?", minion, jid):
                self.wrong("I15", f"nothing is stored of what job {jid} printed on {minion}")

    def _judge_history(self) -> None:
        """I6 and I9: what ended stays as it ended; ends come in the order of actions."""
        ended: dict[tuple[str, int, str, int], str] = {}
        for row in self.ask(f"SELECT * FROM {_HISTORY} WHERE subject='execution' ORDER BY id"):
            one = (row["chain_id"], row["number"], row["minion"], row["epoch"])
            if one in ended:
                self.wrong("I6", f"action {one} was {ended[one]} and moved to {row['target']}")
            if row["target"] in FINAL:
                ended[one] = row["target"]
        for row in self.ask(f"SELECT * FROM {_HISTORY} WHERE subject='run' ORDER BY id"):
            try:
                source = ChainState(row["source"])
            except ValueError:
                continue
            if CHAIN.is_final(source):
                self.wrong("I6", f"chain {row['chain_id']} was {row['source']} and moved")

    def _judge_chain(self, order: Any, state: str) -> None:
        query = f"SELECT * FROM {_EXECUTION} WHERE chain_id=? ORDER BY epoch, minion, sort_order"
        rows = self.ask(query, order.chain_id)
        newest: dict[tuple[str, int], sqlite3.Row] = {}
        row: sqlite3.Row | None
        for row in rows:
            newest[row["minion"], row["sort_order"]] = row
            if row["state"] not in FINAL and state in ENDED:
                self.wrong("I1", f"{order.label} is {state}, an action is {row['state']}")
            text = f"{row['reason']} {row['comment']}"
            if row["state"] in FINAL - {"DONE"} and not self.explains(order, text):
                self.wrong("I11", f"{order.label}.{row['sort_order']} failed for {text[:300]!r}")
        for wish in order.wishes:
            for minion in wish.minions:
                row = newest.get((minion, wish.order))
                if row is None:
                    if not self.forgets(order):
                        self.wrong("I4", f"{wish.key} on {minion} is gone")
                else:
                    runs = [r for r in rows if _same(r, row)]
                    self._judge_action(wish, row, len(runs), self.forgets(order))
        if state == "done" and any(row["state"] != "DONE" for row in newest.values()):
            self.wrong("I1", f"{order.label} is done, not all of its actions are")
        self._judge_order(order, newest)

    def may_lose(self, minion: str) -> bool:
        """Return whether a run may be lost on a minion though nothing is lost there."""
        return False

    def explains(self, order: Any, text: str) -> bool:
        """Return whether *text* is a reason why an action may end otherwise than well."""
        return REASONS.search(text) is not None

    def _judge_order(self, order: Any, newest: dict[tuple[str, int], sqlite3.Row]) -> None:
        """I3: nothing is skipped."""
        for (minion, at), row in newest.items():
            for (other, before), earlier in newest.items():
                if other == minion and before < at and row["state"] == "DONE":
                    if earlier["state"] != "DONE":
                        self.wrong("I3", f"{order.label}.{at} on {minion} is done, {before} not")

    def _judge_action(self, wish: Any, row: sqlite3.Row, runs: int, forgets: bool) -> None:
        if wish.kind == "reboot":
            return
        seen = [e for e in self._world.stage.effects if (e.key, e.minion) == _of(wish, row)]
        begins = [e for e in seen if e.what == "begins"]
        ends = [e for e in seen if e.what == "ends"]
        most = runs * (1 if wish.kind == "once" else 3)
        if len(begins) > most and not forgets:
            self.wrong("I2", f"{wish.key} on {row['minion']} began {len(begins)} times")
        if row["state"] == "LOST" and not self.may_lose(row["minion"]):
            self.wrong("I1", f"{wish.key} on {row['minion']} is lost: {row['reason']}")
        if row["state"] == "DONE" and not ends:
            self.wrong("I5", f"{wish.key} on {row['minion']} is DONE and never happened")
        if row["state"] == "DONE" and wish.fails:
            self.wrong("I5", f"{wish.key} on {row['minion']} failed and is shown as DONE")
        if row["state"] == "FAILED" and ends and not wish.fails and runs == 1:
            if not _explained(row):
                text = f"{row['reason']} {row['comment']}"[:300]
                self.wrong("I5", f"{wish.key} on {row['minion']} ended and is FAILED: {text}")

    def _judge_interleaving(self) -> None:
        """I12: chains follow each other on a minion."""
        for host in self._world.hosts.values():
            left: set[str] = set()
            last = ""
            for effect in self._world.stage.effects:
                if effect.minion != host.name:
                    continue
                now = f"{effect.key.partition('.')[0]} of epoch {effect.epoch}"
                if now != last and now in left:
                    self.wrong("I12", f"{now} goes on on {host.name} in the midst of {last}")
                if now != last and last:
                    left.add(last)
                last = now

    def _judge_held(self) -> None:
        """I14: a chain that is held says why."""
        for row in self.ask(f"SELECT id, state, reason FROM {_CHAIN}"):
            if row["state"] in HELD and not row["reason"]:
                self.wrong("I14", f"chain {row['id']} is {row['state']} and does not say why")

    def _judge_output(self) -> None:
        """I15: stored output was printed, no part is there twice, each gap has its size."""
        prints = self._world.stage.prints
        if prints is None:
            return
        for what in prints.wrong(self.ask(prints_of_jobs.QUERY)):
            self.wrong("I15", what)

    def judge_reboots(self) -> None:
        """I2: a host boots anew once for each run of an action that reboots."""
        for host in self._world.hosts.values():
            asked = f"SELECT count(*) AS n FROM {_HISTORY} h JOIN {_ACTION} a ON a.id=h.number"
            asked += " WHERE h.subject='execution' AND h.minion=? AND a.kind='reboot'"
            asked += " AND h.source='PENDING_SCHEDULE' AND h.event='dispatch'"
            most = self.ask(asked, host.name)[0]["n"]
            if host.halts > most:
                self.wrong("I2", f"{host.name} rebooted {host.halts} times for {most} actions")

    def _judge_disk(self, host: Host) -> None:
        """I10: nothing is left behind."""
        root = host.disk.root
        for pattern in ("cache/jobs/*", "cache/outbox/*", "cache/chains/.new-*"):
            for path in root.glob(pattern):
                self.wrong("I10", f"{path.relative_to(root)} is left on {host.name}")
        for path in root.glob("conf/minion.d/*"):
            if not self.may_stay(path):
                self.wrong("I10", f"{path.relative_to(root)} is left on {host.name}")

    def may_stay(self, path: Path) -> bool:
        """Return whether nobody may remove what lies in a host's `minion.d`."""
        return False


def _open_on(host: Host) -> Iterator[str]:
    agent = host.agent
    if agent is None:
        yield f"{host.name} has no agent"
        return
    if not agent.link.connected:
        yield f"{host.name} is not connected"
    if host.jobs:
        yield f"{host.name} runs {len(host.jobs)} jobs"
    if len(agent._outbox):
        yield f"{host.name} has {len(agent._outbox)} things to tell"
    if agent._events.next_due() is not None:
        yield f"{host.name} has still to note that its events are stored"
    due = agent._after.next_due()
    if due is not None:
        yield f"{host.name} reboots or restarts its agent at {due:.0f}"
    waiting = agent.runner.queue.waiting()
    if waiting:
        yield f"{host.name} has {len(waiting)} jobs in line"


def _same(one: sqlite3.Row, other: sqlite3.Row) -> bool:
    return bool(one["action_id"] == other["action_id"])


def _of(wish: Any, row: sqlite3.Row) -> tuple[str, str]:
    return wish.key, row["minion"]


def _explained(row: sqlite3.Row) -> bool:
    """Return whether an action that had its effect may be shown as failed, and says why."""
    text = f"{row['reason']} {row['comment']}"
    known = (
        "nterrupted", "Given up", "cancelled", "disk", "space", "Prerequisite", "Read-only",
        "nobody knows whether this ran", "malformed resume file",
    )  # fmt: skip
    return any(word in text for word in known)
