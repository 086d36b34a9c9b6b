"""How a chain is given up on this host (`mgractionchains.clean`)."""

from __future__ import annotations

from typing import List, Optional, Tuple

from catena.core.frozen import dataclass
from catena.core.run_ref import RunRef
from catena.runtime.chain_record import ChainState
from catena.runtime.chain_run import ChainHost
from catena.runtime.host import After, AfterKind


@dataclass(frozen=True)
class Cleaned:
    """What was given up."""

    #: Whether anything was: a chain, a resume file, or what stood in its place.
    removed: bool
    #: Runs that had not ended and now have.
    runs: Tuple[RunRef, ...] = ()


def clean(chains: ChainHost, run: Optional[RunRef], reason: str) -> Cleaned:
    """Give up the chains of this host that have not ended, and remove the resume file.

    Whatever stands in the file's place goes, too: a folder, a pipe, a link.

    Args:
        chains: of this host.
        run: only this run, and older ones of its chain; None: whatever is here. A newer run of
            the chain is left alone: it has replaced the one that is meant.
        reason: for people.

    Raises:
        TryLaterError: another job runs a chain right now.
        CannotRemoveError: what stands in the file's place can't be removed; the message says why,
            and what makes it possible.
    """
    if chains.host.chunk_open:
        # A state of the running chunk: the chunk's own end records what became of the chain.
        return Cleaned(chains.file.clear())
    with chains.store.lock(wait=False):
        chains.sweep()
        closed = _close(chains, run, reason)
        aside = chains.store.set_aside_damaged(run)
        removed = chains.file.clear() if run is None else chains.file.clear_run(run)
    return Cleaned(bool(closed) or aside or removed, tuple(closed))


def _close(chains: ChainHost, run: Optional[RunRef], reason: str) -> List[RunRef]:
    """Record that chains are given up; return their runs. The lock must be held."""
    closed = []
    for seen in chains.store.chains():
        manifest = seen.manifest
        if seen.ended or not (run is None or run.covers(manifest.chain_id, manifest.epoch)):
            continue
        if seen.view.state is ChainState.waiting:
            chains.host.after = After(AfterKind.call_off, manifest.chain_id)
        with chains.store.open(manifest.chain_id) as chain:
            if chain:
                chain.record("closed", outcome="cancelled", reason=reason)
                closed.append(RunRef(manifest.chain_id, manifest.epoch))
    return closed
