"""The verbs of chains (`chain.*` of client.requests): each takes its record and the user.

The service changes what people decide: drafts, times, approvals, cancellations. The scheduler and
the observer of results do the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import sqlalchemy as sa

from catena.client.requests.chains import (
    ChainAction,
    ChainAdd,
    ChainCreate,
    ChainDocument,
    ChainEdit,
    ChainList,
    ChainMove,
    ChainRef,
    ChainRemoveEntry,
    ChainResolve,
    ChainSchedule,
)
from catena.core import ids
from catena.core.errors import InvalidStateError, NotFoundError, TryLaterError, UsageError
from catena.core.job import FunctionCall
from catena.core.records import decode, encode
from catena.master.chains import (
    actions,
    cleanup,
    dispatch,
    drafts,
    fence_rows,
    retry,
    rows,
    view_rows,
    views,
)
from catena.master.chains.actions import ActionPlan
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.files import uploads
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import (
    ENDED_CHAINS,
    ChainEvent,
    ChainState,
)
from catena.master.chains.model import ChainRecord
from catena.master.chains.preview import preview
from catena.master.chains.render import PlannedAction
from catena.master.executions import approvals
from catena.master.executions.lifecycle import ExecutionEvent
from catena.master.jobs.model import JobRequest
from catena.master.store.chain_tables import ACTIONS

#: A time that lies further back than this was meant otherwise.
PAST_SECONDS = 60
FUTURE_SECONDS = 10 * 366 * 24 * 3600
#: How often, and with what pause, a watcher looks for returns that follow the last progress.
RETURN_LOOKS = 20
RETURN_PAUSE_SECONDS = 0.1
#: The same for a deletion that follows a cancellation.
FENCE_LOOKS = 20
FENCE_PAUSE_SECONDS = 0.1
#: Why a host is not rendered for.
_NOT_SEEN = "it was not looked at yet; its machine id is part of its chunks' names"


class ChainService:
    """What a client may ask of chains; every answer is plain data."""

    def __init__(self, parts: ChainParts) -> None:
        self._parts = parts

    # -- drafts --------------------------------------------------------------------------------

    async def create(self, request: ChainCreate, user: str) -> dict[str, Any]:
        """Make an empty chain.

        Raises:
            UsageError: a chain of that label has not ended.
        """
        label = ids.label(request.label)

        def run(ledger: ChainLedger) -> dict[str, Any]:
            return {"id": drafts.create(ledger, label, request.again), "label": label}

        return await self._parts.change(run, user)

    async def add(self, request: ChainAdd, user: str) -> dict[str, Any]:
        """Append an action for every minion of a target; all get the same sort order."""
        step = await self._step(request.action, request.tgt, request.tgt_type)

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = drafts.editable(ledger.conn, request.label)
            return drafts.append(ledger, row, [step])[0]

        return await self._parts.change(run, user)

    async def edit(self, request: ChainEdit, user: str) -> dict[str, Any]:
        """Replace the action of all entries at a sort order; their action ids stay."""
        plan = actions.check(request.action)
        await self._keep_uploads(plan)

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = drafts.editable(ledger.conn, request.label)
            found = drafts.entries_at(ledger.conn, row, request.sort_order)
            values = {"kind": plan.type.value, "data": plan.stored(), "repeat": plan.repeat.value}
            rule = ACTIONS.c.id.in_([entry.action_id for entry in found])
            ledger.conn.execute(sa.update(ACTIONS).where(rule).values(values))
            ledger.note_chain(row, "edited", f"{request.sort_order}: {actions.title(plan)}")
            return {"sort_order": request.sort_order, "actions": len(found)}

        return await self._parts.change(run, user)

    async def move(self, request: ChainMove, user: str) -> dict[str, Any]:
        """Move the entries at one sort order to another; the others close up."""

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = drafts.editable(ledger.conn, request.label)
            drafts.entries_at(ledger.conn, row, request.sort_order)
            orders = drafts.orders(ledger.conn, row)
            if not 0 <= request.to < len(orders):
                raise UsageError(f"the chain's sort orders go from 0 to {len(orders) - 1}")
            orders.remove(request.sort_order)
            orders.insert(request.to, request.sort_order)
            drafts.reorder(ledger.conn, row, orders)
            ledger.note_chain(row, "moved", f"{request.sort_order} to {request.to}")
            return {"sort_order": request.to}

        return await self._parts.change(run, user)

    async def remove_entry(self, request: ChainRemoveEntry, user: str) -> dict[str, Any]:
        """Remove the entries at a sort order, for all minions or some; the others close up."""

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = drafts.editable(ledger.conn, request.label)
            found = drafts.entries_at(ledger.conn, row, request.sort_order)
            gone = [e for e in found if not request.minions or e.minion in request.minions]
            if not gone:
                raise NotFoundError(f"none of these minions has an action {request.sort_order}")
            rule = ACTIONS.c.id.in_([entry.action_id for entry in gone])
            ledger.conn.execute(sa.delete(ACTIONS).where(rule))
            drafts.reorder(ledger.conn, row, drafts.orders(ledger.conn, row))
            ledger.note_chain(row, "removed", f"{request.sort_order}, {len(gone)} minions")
            return {"removed": len(gone)}

        return await self._parts.change(run, user)

    async def apply(self, request: ChainDocument, user: str) -> dict[str, Any]:
        """Make a whole chain at once, or replace the entries of the draft of that label.

        Raises:
            UsageError: no entries, or a chain of that label has not ended.
        """
        label = ids.label(request.label)
        if not request.entries:
            raise UsageError(f"chain {label!r} has no actions")
        steps = []
        for index, entry in enumerate(request.entries):
            given = decode(drafts.DocumentEntry, entry, f"entries[{index}]")
            steps.append(await self._step(given.action, given.tgt, given.tgt_type))

        def run(ledger: ChainLedger) -> dict[str, Any]:
            found = drafts.draft(ledger.conn, label)
            chain_id = drafts.create(ledger, label, request.again) if found is None else found.id
            row = rows.chain(ledger.conn, chain_id)
            ledger.conn.execute(sa.delete(ACTIONS).where(ACTIONS.c.chain_id == chain_id))
            drafts.append(ledger, row, steps)
            return {"id": chain_id, "label": label}

        return await self._parts.change(run, user)

    async def delete(self, request: ChainRef, user: str) -> dict[str, Any]:
        """Delete a chain with all that is known of it; not while it is to run or runs.

        Raises:
            InvalidStateError: cancel it first.
            TryLaterError: it was cancelled and its minions are not told yet.
        """

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = rows.find_chain(ledger.conn, request.chain)
            state = ChainState(row.state)
            if state is not ChainState.draft and state not in ENDED_CHAINS:
                raise InvalidStateError(f"{row.title} is {row.state}; cancel it first")
            if fence_rows.unsent(row.id, ledger.conn):
                raise TryLaterError(_being_stopped(ledger.conn, row))
            ledger.note_chain(row, "deleted")
            cleanup.forget(ledger.conn, [row.id])
            return {"deleted": row.id, "id": row.id, "label": row.label}

        # A moment for the scheduler: with the rows it would forget to stop what runs.
        found = await self._find(request.chain)
        for _ in range(FENCE_LOOKS):
            if not await self._parts.store.read(partial(fence_rows.unsent, found.id)):
                break
            await asyncio.sleep(FENCE_PAUSE_SECONDS)
        deleted = await self._parts.change(run, user)
        await asyncio.to_thread(self._parts.files.drop_chain, deleted["id"])
        return deleted

    async def _step(self, action: ChainAction, tgt: str, tgt_type: str) -> drafts.Step:
        plan = actions.check(action)
        minions = await self._parts.targets.resolve(tgt, tgt_type)
        if not minions:
            raise NotFoundError(f"no minion matches {tgt!r} ({tgt_type})")
        await self._keep_uploads(plan)
        await self._parts.ssh.look_at(minions)
        return drafts.Step(plan, minions)

    async def _keep_uploads(self, plan: ActionPlan) -> None:
        for upload in uploads(PlannedAction(0, plan)):
            source = self._parts.uploads.path(upload.sha256)
            await asyncio.to_thread(self._parts.files.keep, upload, source)

    # -- running -------------------------------------------------------------------------------

    async def schedule(self, request: ChainSchedule, user: str) -> dict[str, Any]:
        """Give a draft its time, or ask for its approval.

        Raises:
            UsageError: no actions, or a time that has passed or is too far away.
        """
        now = self._parts.clocks.read().wall
        if request.at and not now - PAST_SECONDS <= request.at <= now + FUTURE_SECONDS:
            raise UsageError("that time has passed, or is more than ten years away")

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = rows.find_chain(ledger.conn, request.label)
            return _line(ledger, drafts.schedule(ledger, row, request))

        return await self._parts.change(run, user)

    async def approve(self, request: ChainRef, user: str) -> dict[str, Any]:
        """Approve a chain that waits for it."""

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = rows.find_chain(ledger.conn, request.chain)
            ledger.move_chain(row, ChainEvent.approve)
            if row.approval and row.run:
                approvals.grant(ledger, row.approval, row.run)
            drafts.move_open(ledger, row, ExecutionEvent.approve)
            return _line(ledger, row.id)

        return await self._parts.change(run, user)

    async def release(self, request: ChainRef, user: str) -> dict[str, Any]:
        """Start a chain that waits because the clocks disagree."""

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = rows.find_chain(ledger.conn, request.chain)
            ledger.move_chain(row, ChainEvent.release, **drafts.due_now(ledger))
            return _line(ledger, row.id)

        return await self._parts.change(run, user)

    async def cancel(self, request: ChainRef, user: str) -> dict[str, Any]:
        """Cancel a chain: what has not begun never will, what runs is stopped."""

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = rows.find_chain(ledger.conn, request.chain)
            text = f"cancelled by {user}"
            ledger.move_chain(row, ChainEvent.cancel, text)
            drafts.move_open(ledger, row, ExecutionEvent.cancel, text)
            if row.approval and row.run:
                approvals.withdraw(ledger, row.approval, row.run)
            runs = rows.runs(ledger.conn, row.id, row.epoch)
            for run in runs:
                # The scheduler stops the jobs and tells the minions, however often it takes.
                if run.open:
                    ledger.fence(run)
            ledger.settle(row.id, [run.minion for run in runs])
            return _line(ledger, row.id)

        return await self._parts.change(run, user)

    async def retry(self, request: ChainRef, user: str) -> dict[str, Any]:
        """Run a failed chain again, on each minion from the action that failed on."""

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = rows.find_chain(ledger.conn, request.chain)
            if row.state != ChainState.failed.value:
                raise InvalidStateError(f"{row.title} is {row.state}; it has not failed")
            retry.retry(ledger, row)
            return _line(ledger, row.id)

        return await self._parts.change(run, user)

    async def resolve(self, request: ChainResolve, user: str) -> dict[str, Any]:
        """Say what the interrupted actions of a failed chain came to."""
        if request.verdict == retry.CANCEL:
            if request.minions:
                raise UsageError("a chain is given up as a whole; retry or mark_done take minions")
            return await self.cancel(ChainRef(request.chain), user)

        def run(ledger: ChainLedger) -> dict[str, Any]:
            row = rows.find_chain(ledger.conn, request.chain)
            if row.state != ChainState.failed.value:
                why = "what is interrupted can be resolved when it has ended on every minion"
                if ChainState(row.state) in ENDED_CHAINS:
                    why = "nothing of it is interrupted"
                raise InvalidStateError(f"{row.title} is {row.state}; {why}")
            retry.resolve(ledger, row, request)
            return _line(ledger, row.id)

        return await self._parts.change(run, user)

    # -- looking -------------------------------------------------------------------------------

    async def list(self, request: ChainList, user: str) -> list[dict[str, Any]]:
        """Return chains, newest first."""
        limit = max(1, min(request.limit, 10_000))
        found = await self._parts.store.read(
            lambda conn: views.lines(conn, rows.listed(conn, limit, archived=request.all))
        )
        plain: list[dict[str, Any]] = encode(found)
        return plain

    async def show(self, request: ChainRef, user: str) -> dict[str, Any]:
        """Return everything about a chain (`views.ChainView`)."""
        row = await self._find(request.chain)
        return await self._show(row.id)

    async def watch(self, request: ChainRef, user: str) -> AsyncIterator[dict[str, Any]]:
        """Yield a chain, then its events, then, when it has ended, the chain once more.

        Items: {"type": "chain", **ChainView}; {"type": "event", "tag", "data", "stamp"}.
        """
        # The position comes first: what happens between it and the look is told twice, not never.
        position = self._parts.bus.last
        row = await self._find(request.chain)
        view = await self._show(row.id)
        yield {"type": "chain", **view}
        if ChainState(view["state"]) in ENDED_CHAINS:
            return
        ends = {f"catena/chain/{row.id}/{state.value}" for state in ENDED_CHAINS}
        async for event in self._parts.bus.subscribe(f"catena/chain/{row.id}/*", position):
            data = dict(event.data)
            yield {"type": "event", "tag": event.tag, "data": data, "stamp": event.stamp}
            if event.tag in ends or event.tag.endswith("/deleted"):
                break
        if not event.tag.endswith("/deleted"):
            await self._await_returns(row.id)
            yield {"type": "chain", **await self._show(row.id)}

    async def _await_returns(self, chain_id: int) -> None:
        """Give the last returns a moment: progress ends a chain, only they tell what changed."""
        for _ in range(RETURN_LOOKS):
            if not await self._parts.store.read(partial(view_rows.owes_changes, chain_id)):
                return
            await asyncio.sleep(RETURN_PAUSE_SECONDS)

    async def render(self, request: ChainRef, user: str) -> dict[str, Any]:
        """Render a chain and return its chunk files; nothing is run.

        The files of a chain that was not dispatched are written too; those of one that was are
        under way, and stay as they are.
        """
        row = await self._find(request.chain)
        found = await dispatch.current_draft(self._parts, row.id)
        packages = self._parts.rules.agent_packages
        rendering = await asyncio.to_thread(dispatch.render_all, found, packages)
        if row.state in drafts.UNDISPATCHED:
            await asyncio.to_thread(self._parts.files.write_chunks, rendering.texts())
        files = [
            {
                "minion": minion,
                "file": f"actionchains/{chunk.file}",
                "sha256": chunk.manifest.sha256,
                "boundary": chunk.manifest.boundary.value,
                "text": chunk.text,
            }
            for minion, chain in sorted(rendering.chains.items())
            for chunk in chain.chunks
        ]
        refused = {**rendering.refused, **dict.fromkeys(rendering.awaited, _NOT_SEEN)}
        return {"chain": row.id, "label": row.label, "files": files, "refused": refused}

    async def preview(self, request: ChainRef, user: str) -> dict[str, Any]:
        """Run every chunk of a chain in test mode, as a job; reboot nothing.

        Returns:
            {"jid", "minions"}: the job's results are those of any state run.
        """
        row = await self._find(request.chain)
        found = await self._parts.store.read(lambda conn: rows.entries(conn, row.id))
        plans = rows.planned(found)
        if not plans:
            raise UsageError(f"{row.title} has no actions")
        positions = {entry.action_id: entry.sort_order for entry in found}
        name = ""
        for minion, some in plans.items():
            text = preview(some, positions)
            name = await asyncio.to_thread(
                self._parts.files.write_preview, minion, row.id, text, some
            )
        metadata = {"chain": row.id, "preview": True}
        submitted = await self._parts.jobs.submit(
            JobRequest(
                user=user,
                call=FunctionCall("state.sls", (name,), metadata=metadata),
                minions=tuple(sorted(plans)),
                idempotency_key=self._parts.once.key,
            )
        )
        return {"jid": submitted.jid, "minions": list(submitted.minions)}

    async def _find(self, ref: str) -> ChainRecord:
        return await self._parts.store.read(lambda conn: rows.find_chain(conn, ref))

    async def _show(self, chain_id: int) -> dict[str, Any]:
        view = await self._parts.store.read(
            lambda conn: views.show(conn, rows.chain(conn, chain_id), self._parts)
        )
        plain: dict[str, Any] = encode(view)
        return plain


def _being_stopped(conn: sa.Connection, row: ChainRecord) -> str:
    """Return why a chain that was given up can't be deleted yet."""
    failed = fence_rows.failed(conn, row.id)
    if not failed:
        return f"{row.title} is being stopped; ask again"
    return (
        f"{row.title} can't be deleted: {failed[0].minion} could not forget it: "
        f"{failed[0].fence_why}; after that: catena run {failed[0].minion} mgractionchains.clean"
    )


def _line(ledger: ChainLedger, chain_id: int) -> dict[str, Any]:
    """Return a chain as a line of the list: all of it may be a hundred thousand actions."""
    (line,) = views.lines(ledger.conn, [rows.chain(ledger.conn, chain_id)])
    plain: dict[str, Any] = encode(line)
    return plain
