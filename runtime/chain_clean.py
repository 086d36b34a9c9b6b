"""Giving up chains on this host (`mgractionchains.clean`)."""

from __future__ import annotations

import logging
from typing import List, Optional, Tuple

from catena.core.errors import CatenaError, TryLaterError
from catena.core.frozen import dataclass
from catena.core.run_ref import RunRef
from catena.runtime.chain_record import HostChainState, JournaledChain
from catena.runtime.chain_run import ChainHost
from catena.runtime.host import After, AfterKind

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClearedChain:
    """The result of `clean`."""

    #: Whether anything was removed: a chain, a resume file, or another file in its place.
    removed: bool
    #: Runs that were ended by this.
    runs: Tuple[RunRef, ...] = ()


def clean(chains: ChainHost, run: Optional[RunRef], reason: str) -> ClearedChain:
    """Give up the unfinished chains of this host, and remove the resume file.

    Whatever has the file's name is removed, even a folder, a pipe or a link. If a chain that is
    kept waits here without a resume file, the file is written again.

    Args:
        chains: of this host.
        run: only this run and older ones of its chain; None: any. A newer run of the chain is
            ignored: it has replaced the given one.
        reason: for people.

    Raises:
        TryLaterError: another job is running a chain, and this host may have to give up *run*.
        CannotRemoveError: the file cannot be removed; the message gives reason and remedy.
    """
    if chains.host.chunk_open:
        # Called from a state of the running chunk, whose end records the outcome of the chain.
        return ClearedChain(chains.file.clear())
    try:
        with chains.store.lock(wait=False):
            chains.sweep()
            closed = _close(chains, run, reason)
            aside = chains.store.set_aside_damaged(run)
            removed = chains.file.clear() if run is None else chains.file.clear_run(run)
            if run is not None:
                _write_again(chains)
    except TryLaterError:
        if run is None or not _is_absent(chains, run):
            raise
        return ClearedChain(removed=False)
    return ClearedChain(bool(closed) or aside or removed, tuple(closed))


def _write_again(chains: ChainHost) -> None:
    """Write the resume file of a chain that still waits here and has none; the lock must be held.

    What was removed in its place, by this clean-up or by one that was killed, named no run.
    Without the file the chain would never continue, and the start of a third one would not see
    that it waits. If several chains wait, the newest one gets the file. A chain whose chunk after
    a boundary was interrupted needs the file too: a resume takes it and continues that chunk.
    """
    if chains.file.exists():
        return
    for seen in chains.store.chains():
        manifest, number = seen.manifest, _needed_chunk(seen.view)
        if 2 <= number <= len(manifest.chunks):
            actions = seen.chunk(number).actions
            first = actions[0].action_id if actions else None
            chains.next(manifest.chain_id, number, first, "")
            log.warning("chain %d waits here: its resume file is written again", manifest.chain_id)
            return


def _needed_chunk(view: JournaledChain) -> int:
    """Return the chunk that a resume file has to name; 0 if the chain needs no file."""
    if view.state is HostChainState.waiting:
        return view.chunk + 1
    return view.chunk if view.state is HostChainState.running else 0


def _is_absent(chains: ChainHost, run: RunRef) -> bool:
    """Return whether the lock is held for another chain, and this host has nothing of *run*.

    The lock is not held: a file that can't be read now counts as if it were of *run*.
    """
    try:
        seen = chains.store.look(run.chain_id)
        open_here = seen is not None and not seen.ended
        if open_here or chains.file.is_of(run):
            return False
        return chains.store.holder() not in (0, run.chain_id)
    except (CatenaError, OSError, ValueError):
        return False


def _close(chains: ChainHost, run: Optional[RunRef], reason: str) -> List[RunRef]:
    """Record that chains are given up; return their runs. The lock must be held."""
    closed = []
    for seen in chains.store.chains():
        manifest = seen.manifest
        if seen.ended or not (run is None or run.covers(manifest.chain_id, manifest.epoch)):
            continue
        if seen.view.state is HostChainState.waiting:
            chains.host.after = After(AfterKind.call_off, manifest.chain_id)
        with chains.store.open(manifest.chain_id) as chain:
            if chain:
                chain.record("closed", outcome="cancelled", reason=reason)
                closed.append(RunRef(manifest.chain_id, manifest.epoch))
    return closed
