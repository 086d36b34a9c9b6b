"""Requests to the master: for each verb a contract with its request and reply records.

A verb's first word names the module of its contract. A module is imported at the first use of one
of its verbs, so that a short command imports no others.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Dict, Mapping

from catena.client.requests.contract import AnyAsk, Ask
from catena.core.errors import NotFoundError
from catena.core.suggest import unknown

#: First word of a verb -> the module with its contract.
MODULES: Mapping[str, str] = {
    "job": "jobs",
    "request": "kept_requests",
    "event": "events",
    "key": "keys",
    "minion": "minions",
    "runner": "runners",
    "blob": "blobs",
    "chain": "chains",
}


def contract(verb: str) -> AnyAsk:
    """Return the contract of a verb.

    Raises:
        NotFoundError: there is no such verb; the message names the nearest.
    """
    module = MODULES.get(verb.partition(".")[0])
    found = _in_module(module).get(verb) if module else None
    if found is None:
        raise NotFoundError(unknown("request", verb[:80], contracts()))
    return found


def contracts() -> Dict[str, AnyAsk]:
    """Return every contract by its verb; this imports all modules of the package."""
    return {name: ask for module in MODULES.values() for name, ask in _in_module(module).items()}


@cache
def _in_module(name: str) -> Dict[str, AnyAsk]:
    found = vars(import_module(f"{__name__}.{name}")).values()
    return {one.name: one for one in found if isinstance(one, Ask)}
