"""A chain that waits on this host although its resume file is missing.

No resume can continue such a chain: its master ends it when it learns that nothing waits here. The
report says on the host and at the master that the file was lost, and by which chain.
"""

from __future__ import annotations

import os
from typing import Optional

from catena.core.clock import SystemClock
from catena.core.errors import CatenaError, TryLaterError
from catena.core.logs import logger
from catena.runtime import damage
from catena.runtime.chain_record import HostChainState
from catena.runtime.chain_store import ChainStore
from catena.runtime.damage import Damage
from catena.runtime.host import AgentHome
from catena.runtime.resume_file import ResumeFile

log = logger(__name__)


def lost_file(store: ChainStore, file: ResumeFile) -> Optional[Damage]:
    """Return the damage if a chain waits for its next chunk and no resume file names it.

    A chain whose last action is a reboot waits too, but no chunk follows and no file is needed.
    """
    # A link to nothing exists for `lstat` only.
    if file.path.exists() or file.running.exists():
        return None
    for chain in store.chains():
        number, view = chain.manifest.chain_id, chain.view
        if view.state is HostChainState.waiting and view.chunk < len(chain.manifest.chunks):
            state = "a link to nothing" if os.path.lexists(file.path) else "missing"
            what = f"it is {state}, but chain {number} waits for chunk {view.chunk + 1}"
            return Damage(str(file.path), what, "", f"the continuation of chain {number}")
    return None


def report_lost_file(place: AgentHome) -> None:
    """Report a lost resume file once per chunk. Nothing is raised: the agent must start."""
    store = ChainStore(place.cache_dir, "", "", SystemClock())
    file = ResumeFile(place.conf_dir, place.pki_dir, place.id, place.cache_dir)
    try:
        # A chunk that ends or begins replaces its file under this lock.
        with store.lock(wait=False):
            found = lost_file(store, file)
    except TryLaterError:
        return  # a process that outlived the agent runs the chain
    except (CatenaError, OSError) as error:
        log.error("cannot check the resume file: %s", error)
        return
    # `report` recognises repeated damage by the file, and this one is missing.
    known = damage.known(place.cache_dir) if found else ()
    if found and not any(seen.what == found.what for seen in known):
        damage.report(place.cache_dir, found)
