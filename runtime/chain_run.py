"""How a chain advances on this host: start, continue after a crash, resume after a boundary.

For the agent beside the functions of `mgractionchains`:

- `open_chain(place)` says whether a chain stands between two chunks; jobs of another chain wait.
- `pending_resume(place)` is what a Hello carries.
- `pending_after(place)` is asked when the agent starts: a reboot that was armed and promised, but
  that has not happened because the agent or the host stopped just before it.
- A job of a chain whose process died without a return is run again with the same JobSpec: it
  continues from the journal and returns what the chunk came to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.runtime.host import After, Place


@dataclass(frozen=True)
class OpenChain:
    """A chain that has begun on this host and not ended."""

    chain_id: int
    epoch: int
    #: Name of the chain's state: "received", "running", "waiting".
    state: str
    #: Chunk that runs, or that will run after the boundary.
    chunk: int


def open_chain(place: Place) -> Optional[OpenChain]:
    """Return the chain that has begun on this host and not ended, or None."""
    raise NotImplementedError


def pending_resume(place: Place) -> Dict[str, Any]:
    """Return what the resume file says and the current boot time; {} without one."""
    raise NotImplementedError


def pending_after(place: Place) -> Optional[After]:
    """Return a promised reboot or agent restart that has not happened, to be done now."""
    raise NotImplementedError


def start(context: Context, chain_id: int) -> Dict[str, Any]:
    """Run (or continue) the first chunk of a chain; return its state results."""
    raise NotImplementedError


def resume(context: Context) -> Dict[str, Any]:
    """Run what may run now of the chain that waits; return its state results, {} if none does."""
    raise NotImplementedError
