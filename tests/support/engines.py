"""The engines of a master under test."""

from __future__ import annotations

from catena.master.chains.engine import Chains
from catena.master.daemon import Master


def chains_of(master: Master) -> Chains:
    """Return the chains of a master."""
    found = master.engines["chains"]
    assert isinstance(found, Chains)
    return found
