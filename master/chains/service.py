"""Carries out the verbs of chains (`chain.*` of client.requests).

Each method takes the request record and the user. The service applies what people decide: drafts,
times, approvals, cancellations. The scheduler and the observer of results do the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import sqlalchemy as sa

from catena.client.replies.chains import (
    ChainAdded,
    ChainChunk,
    ChainDeleted,
    ChainEdited,
    ChainEventItem,
    ChainItem,
    ChainLine,
    ChainMade,
    ChainMoved,
    ChainOutputItem,
    ChainPreview,
    ChainRemoved,
    ChainRendering,
    ChainView,
    ChainViewItem,
)
from catena.client.replies.jobs import JobOutputItem
from catena.client.requests.chains import (
    ChainAction,
    ChainAdd,
    ChainCreate,
    ChainDocument,
    ChainEdit,
    ChainList,
    ChainMove,
    ChainPause,
    ChainRef,
    ChainRemoveEntry,
    ChainResolve,
    ChainSchedule,
)
from catena.core import events, ids
from catena.core.chain_calls import CLEAN, by_hand
from catena.core.errors import InvalidStateError, NotFoundError, TryLaterError, UsageError
from catena.core.events import Event
from catena.core.frozen import fields
from catena.core.job import FunctionCall
from catena.core.records import decode
from catena.master.chains import (
    actions,
    cleanup_rows,
    dispatch,
    draft_rows,
    drafts,
    fence_rows,
    pauses,
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
from catena.master.executions.watch import WatchedRun, watch
from catena.master.jobs.model import JobRequest

#: A due time may lie at most this far in the past and in the future.
PAST_SECONDS = 60
FUTURE_SECONDS = 10 * 366 * 24 * 3600
#: A watcher polls this often, at this interval, for the returns that follow the last progress.
RETURN_LOOKS = 20
RETURN_PAUSE_SECONDS = 0.1
#: A deletion polls this often, at this interval, for the fences of the cancellation before it.
FENCE_LOOKS = 20
FENCE_PAUSE_SECONDS = 0.1
#: Why no chunks are rendered for a host.
_NOT_SEEN = "no SSH visit has read its machine id yet, which is part of the chunks' names"


class ChainService:
    """The requests that clients make about chains; every reply is a record."""

    def __init__(self, parts: ChainParts) -> None:
        self._parts = parts

    # -- drafts --------------------------------------------------------------------------------

    async def create(self, request: ChainCreate, user: str) -> ChainMade:
        """Make an empty chain.

        Raises:
            UsageError: a chain with that label has not ended.
        """
        label = ids.label(request.label)

        def run(ledger: ChainLedger) -> ChainMade:
            return ChainMade(drafts.create(ledger, label, request.again), label)

        return await self._parts.change(run, user)

    async def add(self, request: ChainAdd, user: str) -> ChainAdded:
        """Append an action for every minion of a target, all with the same sort order."""
        step = await self._step(request.action, request.tgt, request.tgt_type)

        def run(ledger: ChainLedger) -> ChainAdded:
            row = drafts.editable(ledger.conn, request.label)
            return drafts.append(ledger, row, [step])[0]

        return await self._parts.change(run, user)

    async def edit(self, request: ChainEdit, user: str) -> ChainEdited:
        """Replace the action of all entries at a sort order; their action ids stay."""
        plan = actions.check(request.action)
        await self._keep_uploads(plan)

        def run(ledger: ChainLedger) -> ChainEdited:
            row = drafts.editable(ledger.conn, request.label)
            found = draft_rows.entries_at(ledger.conn, row, request.sort_order)
            values = {"kind": plan.type.value, "data": plan.stored(), "repeat": plan.repeat.value}
            draft_rows.replace_actions(ledger.conn, found, values)
            ledger.note_chain(row, "edited", f"{request.sort_order}: {actions.title(plan)}")
            return ChainEdited(request.sort_order, len(found))

        return await self._parts.change(run, user)

    async def move(self, request: ChainMove, user: str) -> ChainMoved:
        """Move the entries at one sort order to another, and renumber the others."""

        def run(ledger: ChainLedger) -> ChainMoved:
            row = drafts.editable(ledger.conn, request.label)
            draft_rows.entries_at(ledger.conn, row, request.sort_order)
            orders = draft_rows.orders(ledger.conn, row)
            if not 0 <= request.to < len(orders):
                raise UsageError(
                    f"{row.title} has no sort order {request.to}, only 0 to {len(orders) - 1}"
                )
            orders.remove(request.sort_order)
            orders.insert(request.to, request.sort_order)
            draft_rows.reorder(ledger.conn, row, orders)
            ledger.note_chain(row, "moved", f"{request.sort_order} to {request.to}")
            return ChainMoved(request.to)

        return await self._parts.change(run, user)

    async def remove_entry(self, request: ChainRemoveEntry, user: str) -> ChainRemoved:
        """Remove the entries at a sort order, on all or some minions, and renumber the others."""

        def run(ledger: ChainLedger) -> ChainRemoved:
            row = drafts.editable(ledger.conn, request.label)
            found = draft_rows.entries_at(ledger.conn, row, request.sort_order)
            gone = [e for e in found if not request.minions or e.minion in request.minions]
            if not gone:
                names = ", ".join(request.minions)
                raise NotFoundError(f"{row.title} has no action {request.sort_order} on {names}")
            draft_rows.remove(ledger.conn, gone)
            draft_rows.reorder(ledger.conn, row, draft_rows.orders(ledger.conn, row))
            ledger.note_chain(row, "removed", f"{request.sort_order}, {len(gone)} minions")
            return ChainRemoved(len(gone))

        return await self._parts.change(run, user)

    async def apply(self, request: ChainDocument, user: str) -> ChainMade:
        """Make a whole chain at once, or replace the entries of the draft with that label.

        Raises:
            UsageError: there are no entries, or a chain with that label has not ended.
        """
        label = ids.label(request.label)
        if not request.entries:
            raise UsageError(f"chain {label!r} has no actions")
        steps = []
        for index, entry in enumerate(request.entries):
            given = decode(drafts.DocumentEntry, entry, f"entries[{index}]")
            steps.append(await self._step(given.action, given.tgt, given.tgt_type))

        def run(ledger: ChainLedger) -> ChainMade:
            found = draft_rows.draft(ledger.conn, label)
            chain_id = drafts.create(ledger, label, request.again) if found is None else found.id
            row = rows.chain(ledger.conn, chain_id)
            draft_rows.remove_all(ledger.conn, chain_id)
            drafts.append(ledger, row, steps)
            return ChainMade(chain_id, label)

        return await self._parts.change(run, user)

    async def delete(self, request: ChainRef, user: str) -> ChainDeleted:
        """Delete a draft or an ended chain with all its data.

        Raises:
            InvalidStateError: the chain is scheduled or runs; it must be cancelled first.
            NotFoundError: there is no such chain. A number is an id here and never a label, so
                that a repeated command deletes no other chain.
            TryLaterError: the chain was cancelled, but not all its jobs are stopped yet.
        """

        def run(ledger: ChainLedger) -> ChainDeleted:
            row = rows.find_chain(ledger.conn, request.chain)
            if ids.is_chain_id(request.chain) and row.id != int(request.chain):
                raise NotFoundError(
                    f"there is no chain {request.chain}; {row.title} only has that label: to "
                    f"delete it: catena chain delete {row.id}"
                )
            state = ChainState(row.state)
            if state is not ChainState.draft and state not in ENDED_CHAINS:
                raise InvalidStateError(
                    f"can't delete {row.title}: it is {row.state}; cancel it first"
                )
            if fence_rows.unsent(row.id, ledger.conn):
                raise TryLaterError(_being_stopped(ledger.conn, row))
            ledger.note_chain(row, "deleted")
            cleanup_rows.forget(ledger.conn, [row.id])
            return ChainDeleted(row.id, row.id, row.label)

        # Give the scheduler time to send the fences: without the rows it would not stop the jobs.
        found = await self._find(request.chain)
        for _ in range(FENCE_LOOKS):
            if not await self._parts.store.read(partial(fence_rows.unsent, found.id)):
                break
            await asyncio.sleep(FENCE_PAUSE_SECONDS)
        deleted = await self._parts.change(run, user)
        await asyncio.to_thread(self._parts.files.drop_chain, deleted.id)
        return deleted

    async def _step(self, action: ChainAction, tgt: str, tgt_type: str) -> drafts.DraftStep:
        plan = actions.check(action)
        minions = await self._parts.targets.resolve(tgt, tgt_type)
        if not minions:
            raise NotFoundError(f"no minion matches {tgt!r} ({tgt_type})")
        await self._keep_uploads(plan)
        await self._parts.ssh.look_at(minions)
        return drafts.DraftStep(plan, minions)

    async def _keep_uploads(self, plan: ActionPlan) -> None:
        for upload in uploads(PlannedAction(0, plan)):
            source = self._parts.uploads.path(upload.sha256)
            await asyncio.to_thread(self._parts.files.keep, upload, source)

    # -- running -------------------------------------------------------------------------------

    async def schedule(self, request: ChainSchedule, user: str) -> ChainLine:
        """Set the due time of a draft, or request its approval.

        Raises:
            UsageError: the chain has no actions, or the time has passed or is too far away.
        """
        now = self._parts.clocks.read().wall
        if request.at and not now - PAST_SECONDS <= request.at <= now + FUTURE_SECONDS:
            raise UsageError(
                f"can't schedule chain {request.label!r}: the time has passed, or is more than "
                "ten years away"
            )

        def run(ledger: ChainLedger) -> ChainLine:
            row = rows.find_chain(ledger.conn, request.label)
            return _line(ledger, drafts.schedule(ledger, row, request), self._parts)

        return await self._parts.change(run, user)

    async def approve(self, request: ChainRef, user: str) -> ChainLine:
        """Approve a chain that waits for approval."""

        def run(ledger: ChainLedger) -> ChainLine:
            row = rows.find_chain(ledger.conn, request.chain)
            drafts.approve(ledger, row)
            return _line(ledger, row.id, self._parts)

        return await self._parts.change(run, user)

    async def release(self, request: ChainRef, user: str) -> ChainLine:
        """Start a chain that waits because the clocks disagree."""

        def run(ledger: ChainLedger) -> ChainLine:
            row = rows.find_chain(ledger.conn, request.chain)
            ledger.move_chain(row, ChainEvent.release, **drafts.due_now(ledger))
            return _line(ledger, row.id, self._parts)

        return await self._parts.change(run, user)

    async def cancel(self, request: ChainRef, user: str) -> ChainLine:
        """Cancel a chain: stop its running jobs, and never start its other actions."""

        def run(ledger: ChainLedger) -> ChainLine:
            row = rows.find_chain(ledger.conn, request.chain)
            text = f"cancelled by {user}"
            ledger.move_chain(row, ChainEvent.cancel, text)
            drafts.move_open(ledger, row, ExecutionEvent.cancel, text)
            if row.approval:
                approvals.withdraw(ledger, row.approval)
            runs = rows.runs(ledger.conn, row.id, row.epoch)
            for run in runs:
                # The scheduler stops the jobs, and retries until the minions have removed the run.
                if run.open:
                    ledger.fence(run)
            ledger.settle(row.id, [run.minion for run in runs])
            return _line(ledger, row.id, self._parts)

        return await self._parts.change(run, user)

    async def pause(self, request: ChainPause, user: str) -> ChainLine:
        """Hold back the jobs of a chain that were not sent yet, on all or some minions."""

        def run(ledger: ChainLedger) -> ChainLine:
            row = rows.find_chain(ledger.conn, request.chain)
            pauses.pause(ledger, self._parts.jobs, row, request.minions)
            return _line(ledger, row.id, self._parts)

        return await self._parts.change(run, user)

    async def continue_(self, request: ChainPause, user: str) -> ChainLine:
        """Continue a paused chain, on all or some minions."""

        def run(ledger: ChainLedger) -> ChainLine:
            row = rows.find_chain(ledger.conn, request.chain)
            pauses.continue_(ledger, self._parts, row, request.minions)
            return _line(ledger, row.id, self._parts)

        line = await self._parts.change(run, user)
        row = await self._find(str(line.id))
        await pauses.resume_stranded(self._parts, row.run, request.minions)
        return line

    async def retry(self, request: ChainRef, user: str) -> ChainLine:
        """Run a failed chain again, on each minion from its failed action on."""

        def run(ledger: ChainLedger) -> ChainLine:
            row = rows.find_chain(ledger.conn, request.chain)
            if row.state != ChainState.failed.value:
                raise InvalidStateError(
                    f"can't retry {row.title}: it is {row.state}, and has not failed"
                )
            retry.retry(ledger, row)
            return _line(ledger, row.id, self._parts)

        return await self._parts.change(run, user)

    async def resolve(self, request: ChainResolve, user: str) -> ChainLine:
        """Apply a verdict on the interrupted actions of a failed chain."""
        if request.verdict == retry.CANCEL:
            if request.minions:
                raise UsageError(
                    "the verdict cancel applies to the whole chain; only retry and mark_done take "
                    "minions"
                )
            return await self.cancel(ChainRef(request.chain), user)

        def run(ledger: ChainLedger) -> ChainLine:
            row = rows.find_chain(ledger.conn, request.chain)
            if row.state != ChainState.failed.value:
                why = "interrupted actions can be resolved after it has ended on every minion"
                if ChainState(row.state) in ENDED_CHAINS:
                    why = "none of its actions is interrupted"
                raise InvalidStateError(f"{row.title} is {row.state}; {why}")
            retry.resolve(ledger, row, request)
            return _line(ledger, row.id, self._parts)

        return await self._parts.change(run, user)

    # -- looking -------------------------------------------------------------------------------

    async def list(self, request: ChainList, user: str) -> list[ChainLine]:
        """Return chains, newest first."""
        limit = max(1, min(request.limit, 10_000))
        return await self._parts.store.read(
            lambda conn: views.lines(
                conn, rows.listed(conn, limit, archived=request.all), self._parts
            )
        )

    async def show(self, request: ChainRef, user: str) -> ChainView:
        """Return a chain with its actions, minions, pauses and history."""
        row = await self._find(request.chain)
        return await self._show(row.id)

    async def watch(self, request: ChainRef, user: str) -> AsyncIterator[ChainItem]:
        """Yield a chain, its events and output until it ends, and then the chain once more."""

        async def find() -> WatchedRun[ChainViewItem]:
            return self._watched((await self._find(request.chain)).id)

        async for item in watch(self._parts.bus, find, self._parts.watchers):
            if isinstance(item, JobOutputItem):
                yield ChainOutputItem(item.minion, item.stream, item.text, item.missed)
            elif isinstance(item, Event):
                yield ChainEventItem(item.tag, dict(item.data), item.stamp)
            else:
                yield item

    def _watched(self, chain_id: int) -> WatchedRun[ChainViewItem]:
        return WatchedRun(
            tag=events.chain(chain_id, "*"),
            ends={events.chain(chain_id, state.value) for state in ENDED_CHAINS},
            gone={events.chain(chain_id, "deleted")},
            show=partial(self._show_item, chain_id),
            ended=lambda view: ChainState(view.state) in ENDED_CHAINS,
            settled=partial(self._await_returns, chain_id),
        )

    async def _await_returns(self, chain_id: int) -> None:
        """Wait briefly for the last returns, which bring the changes; progress ends the chain."""
        for _ in range(RETURN_LOOKS):
            if not await self._parts.store.read(partial(view_rows.lacks_changes, chain_id)):
                return
            await asyncio.sleep(RETURN_PAUSE_SECONDS)

    async def render(self, request: ChainRef, user: str) -> ChainRendering:
        """Render a chain and return its chunk files, without running anything.

        The files are also written, unless the chain was dispatched: then its minions use them.
        """
        row = await self._find(request.chain)
        found = await dispatch.current_draft(self._parts, row.id)
        writable = row.state in drafts.UNDISPATCHED
        rendering = await dispatch.render(self._parts, found, write=writable)
        files = tuple(
            ChainChunk(
                minion=minion,
                file=f"actionchains/{chunk.file}",
                sha256=chunk.sha256,
                boundary=chunk.boundary,
                text=chunk.text,
            )
            for minion, chain in sorted(rendering.chains.items())
            for chunk in chain.chunks
        )
        refused = {**rendering.refused, **dict.fromkeys(rendering.awaited, _NOT_SEEN)}
        return ChainRendering(row.id, row.label, files, refused)

    async def preview(self, request: ChainRef, user: str) -> ChainPreview:
        """Start a job that runs the actions of a chain in test mode, without reboots.

        The job returns results of states, as any state run does.

        Raises:
            UsageError: the chain has no actions.
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
        return ChainPreview(submitted.jid, tuple(submitted.minions))

    async def _find(self, ref: str) -> ChainRecord:
        return await self._parts.store.read(lambda conn: rows.find_chain(conn, ref))

    async def _show(self, chain_id: int) -> ChainView:
        return await self._parts.store.read(
            lambda conn: views.show(conn, rows.chain(conn, chain_id), self._parts)
        )

    async def _show_item(self, chain_id: int) -> ChainViewItem:
        view = await self._show(chain_id)
        return ChainViewItem(**{field.name: getattr(view, field.name) for field in fields(view)})


def _being_stopped(conn: sa.Connection, row: ChainRecord) -> str:
    """Return why a cancelled chain can't be deleted yet, and what to do."""
    failed = fence_rows.failed(conn, row.id)
    if not failed:
        return f"can't delete {row.title}: its jobs are still being stopped; try again"
    return (
        f"can't delete {row.title}: {failed[0].minion} could not remove it: "
        f"{failed[0].fence_why}; remove the cause, then run {by_hand(CLEAN, failed[0].minion)}"
    )


def _line(ledger: ChainLedger, chain_id: int, parts: ChainParts) -> ChainLine:
    """Return a chain as a line of the list; the whole view could have 100 000 actions."""
    (line,) = views.lines(ledger.conn, [rows.chain(ledger.conn, chain_id)], parts)
    return line
