"""Handlers of the verbs of chains."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from dataclasses import replace

from catena.client.replies.chains import (
    ChainAdded,
    ChainDeleted,
    ChainEdited,
    ChainEnd,
    ChainItem,
    ChainLine,
    ChainMade,
    ChainMoved,
    ChainPreview,
    ChainRemoved,
    ChainRendering,
    ChainView,
    ChainViewItem,
)
from catena.client.requests import chains as asks
from catena.client.requests.chains import (
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
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.service import ChainService
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import End, verb


class ChainHandlers:
    """One method per verb, which takes the caller and the request record."""

    def __init__(self, parts: ChainParts) -> None:
        self._parts = parts
        self._plain = ChainService(parts)

    def _service(self, caller: Caller) -> ChainService:
        """Return the service whose transactions store the key of the caller's request."""
        if not caller.once.key:
            return self._plain
        return ChainService(replace(self._parts, once=caller.once))

    @verb(asks.CREATE, Right.change_chains)
    async def create(self, caller: Caller, asked: ChainCreate) -> ChainMade:
        """Make an empty chain."""
        return await self._service(caller).create(asked, caller.name)

    @verb(asks.ADD, Right.change_chains)
    async def add(self, caller: Caller, asked: ChainAdd) -> ChainAdded:
        """Append an action for every minion of a target."""
        return await self._service(caller).add(asked, caller.name)

    @verb(asks.EDIT, Right.change_chains)
    async def edit(self, caller: Caller, asked: ChainEdit) -> ChainEdited:
        """Replace the action of all entries at a sort order."""
        return await self._service(caller).edit(asked, caller.name)

    @verb(asks.MOVE, Right.change_chains)
    async def move(self, caller: Caller, asked: ChainMove) -> ChainMoved:
        """Move the entries at one sort order to another."""
        return await self._service(caller).move(asked, caller.name)

    @verb(asks.REMOVE_ENTRY, Right.change_chains)
    async def remove_entry(self, caller: Caller, asked: ChainRemoveEntry) -> ChainRemoved:
        """Remove the entries at a sort order."""
        return await self._service(caller).remove_entry(asked, caller.name)

    @verb(asks.APPLY, Right.change_chains)
    async def apply(self, caller: Caller, asked: ChainDocument) -> ChainMade:
        """Make a whole chain at once."""
        return await self._service(caller).apply(asked, caller.name)

    @verb(asks.SCHEDULE, Right.change_chains)
    async def schedule(self, caller: Caller, asked: ChainSchedule) -> ChainLine:
        """Schedule a draft, or request its approval."""
        return await self._service(caller).schedule(asked, caller.name)

    @verb(asks.APPROVE, Right.change_chains)
    async def approve(self, caller: Caller, asked: ChainRef) -> ChainLine:
        """Approve a chain that waits for it."""
        return await self._service(caller).approve(asked, caller.name)

    @verb(asks.LIST, Right.read_chains)
    async def list(self, caller: Caller, asked: ChainList) -> builtins.list[ChainLine]:
        """List chains."""
        return await self._service(caller).list(asked, caller.name)

    @verb(asks.SHOW, Right.read_chains)
    async def show(self, caller: Caller, asked: ChainRef) -> ChainView:
        """Show one chain."""
        return await self._service(caller).show(asked, caller.name)

    @verb(asks.WATCH, Right.read_chains)
    async def watch(
        self, caller: Caller, asked: ChainRef
    ) -> AsyncIterator[ChainItem | End[ChainEnd]]:
        """Follow a chain until it has ended."""
        last: ChainViewItem | None = None
        async for item in self._plain.watch(asked, caller.name):
            if isinstance(item, ChainViewItem):
                last = item
            yield item
        if last is not None:
            yield End(ChainEnd(last.id, last.state, last.reason))

    @verb(asks.CANCEL, Right.change_chains)
    async def cancel(self, caller: Caller, asked: ChainRef) -> ChainLine:
        """Cancel a chain."""
        return await self._service(caller).cancel(asked, caller.name)

    @verb(asks.RETRY, Right.change_chains)
    async def retry(self, caller: Caller, asked: ChainRef) -> ChainLine:
        """Run a failed chain again from the action that failed."""
        return await self._service(caller).retry(asked, caller.name)

    @verb(asks.RESOLVE, Right.change_chains)
    async def resolve(self, caller: Caller, asked: ChainResolve) -> ChainLine:
        """Decide how to proceed with interrupted actions of a failed chain."""
        return await self._service(caller).resolve(asked, caller.name)

    @verb(asks.RELEASE, Right.change_chains)
    async def release(self, caller: Caller, asked: ChainRef) -> ChainLine:
        """Start a chain that waits because the clocks disagree."""
        return await self._service(caller).release(asked, caller.name)

    @verb(asks.PAUSE, Right.change_chains)
    async def pause(self, caller: Caller, asked: ChainPause) -> ChainLine:
        """Hold back the parts of a chain that were not sent yet."""
        return await self._service(caller).pause(asked, caller.name)

    @verb(asks.CONTINUE, Right.change_chains, repeats=True)
    async def continue_(self, caller: Caller, asked: ChainPause) -> ChainLine:
        """Continue a paused chain.

        A repetition submits the resumes that a crash of the master after the change prevented.
        """
        return await self._service(caller).continue_(asked, caller.name)

    @verb(asks.RENDER, Right.read_chains)
    async def render(self, caller: Caller, asked: ChainRef) -> ChainRendering:
        """Return the chunk files of a chain."""
        return await self._service(caller).render(asked, caller.name)

    @verb(asks.PREVIEW, Right.change_chains)
    async def preview(self, caller: Caller, asked: ChainRef) -> ChainPreview:
        """Run a chain in test mode, as a job."""
        return await self._service(caller).preview(asked, caller.name)

    @verb(asks.DELETE, Right.change_chains)
    async def delete(self, caller: Caller, asked: ChainRef) -> ChainDeleted:
        """Delete a chain with all its data."""
        return await self._service(caller).delete(asked, caller.name)
