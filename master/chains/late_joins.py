"""Lets hosts join a run of a chain after their first SSH visit.

The names of a host's chunks contain its machine id, which the first visit reads. The other minions
start without waiting for that; the host joins the same run later, with its own job.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial

import sqlalchemy as sa

from catena.core import failpoints
from catena.master.chains import claims, decide, dispatch, rows
from catena.master.chains.claims import Draft
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.dispatch import RenderedDraft
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.steps import each
from catena.master.executions import due
from catena.master.executions.ssh_hosts import KnownHost
from catena.master.jobs.model import Submitted

_NEVER = "it was never reached over SSH within {hours:.0f} h: {why}"


async def join(parts: ChainParts) -> None:
    """Start chains on hosts that have been visited by now; give up hosts that can't be used.

    A chain that fails is logged and does not stop the others.

    Raises:
        StoreUnavailableError: nothing was done; call it again.
    """
    for chain_id, minions in (await parts.store.read(_awaiting)).items():
        what = f"letting hosts join chain {chain_id}"
        await each(what, [minions], partial(_join, parts, chain_id))


def _awaiting(conn: sa.Connection) -> dict[int, list[str]]:
    """Return chain id -> hosts that join the chain after their first visit."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for row in rows.pending(conn):
        found[row.chain_id].append(row.minion)
    return dict(found)


async def _join(parts: ChainParts, chain_id: int, minions: list[str]) -> None:
    whole = await dispatch.current_draft(parts, chain_id)
    found = replace(whole, plans={name: whole.plans[name] for name in minions})
    rendering = await dispatch.render(parts, found)
    for minion, text in {**rendering.refused, **await _given_up(parts, found, rendering)}.items():
        await parts.change(partial(_fail, found, minion, text))
    for minion in rendering.chains:
        one = replace(rendering, chains={minion: rendering.chains[minion]})
        await _start(parts, found, one, minion)
    await parts.ssh.look_at(rendering.awaited)


async def _given_up(parts: ChainParts, found: Draft, rendering: RenderedDraft) -> dict[str, str]:
    """Return host -> reason, for hosts that can't be used or were not reached in time."""
    known = await parts.store.read(lambda conn: parts.ssh.known(conn, rendering.awaited))
    late = parts.rules.due.late_seconds
    row = found.row
    over = due.waited_since(row.due or 0.0, row.scheduled, parts.clocks.read()) > late
    given_up = {}
    for name in rendering.awaited:
        host = known.get(name, KnownHost())
        if host.unfit:
            given_up[name] = host.unfit
        elif over:
            why = host.detail or "it was not visited"
            given_up[name] = _NEVER.format(hours=late / 3600, why=why)
    return given_up


def _fail(found: Draft, minion: str, text: str, ledger: ChainLedger) -> None:
    some = rows.executions(ledger.conn, found.row.run, minion)
    ledger.apply(some, decide.fail_open([rows.fact(e) for e in some], text))
    ledger.settle(found.row.id, (minion,))


async def _start(parts: ChainParts, found: Draft, rendering: RenderedDraft, minion: str) -> None:
    failpoints.hit("visit.join")
    await dispatch.expose(parts, found, rendering)

    def within(conn: sa.Connection, submitted: Submitted) -> None:
        ledger = ChainLedger(conn, parts.clocks.read())
        claims.join(ledger, found, minion, rendering.chains[minion], submitted.jid)
        parts.record_all(conn, ledger.events)

    key = f"chain/{found.row.id}/{found.row.epoch}/{minion}"
    await parts.jobs.submit(dispatch.request(parts, found, rendering, key), within)
