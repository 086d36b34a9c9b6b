"""Runners about the presence of minions, answered from the connections without asking them."""

from __future__ import annotations

from typing import Any

from catena import __version__
from catena.client.replies.minions import MinionLine
from catena.master.runners.dependencies import RunnerParts


async def _rows(parts: RunnerParts) -> list[MinionLine]:
    return await parts.minions.list(list(parts.minions.keys.ids()))


async def status(parts: RunnerParts) -> dict[str, list[str]]:
    """Return the accepted minions that are up and those that are down."""
    rows = await _rows(parts)
    return {
        "up": [row.id for row in rows if row.up],
        "down": [row.id for row in rows if not row.up],
    }


async def up(parts: RunnerParts) -> list[str]:
    """Return the accepted minions that are up."""
    return (await status(parts))["up"]


async def down(parts: RunnerParts) -> list[str]:
    """Return the accepted minions that are down."""
    return (await status(parts))["down"]


async def present(parts: RunnerParts) -> list[str]:
    """Return the accepted minions that are connected now."""
    return [row.id for row in await _rows(parts) if row.connected]


async def not_present(parts: RunnerParts) -> list[str]:
    """Return the accepted minions that are not connected now."""
    return [row.id for row in await _rows(parts) if not row.connected]


async def versions(parts: RunnerParts) -> dict[str, Any]:
    """Return the minions' versions, grouped by whether they equal the master's."""
    found: dict[str, Any] = {"Master": __version__}
    for row in await _rows(parts):
        version = row.version or ""
        if not version:
            kind = "Minion offline" if not row.up else "Unknown"
        else:
            kind = "Up to date" if version == __version__ else "Minion requires update"
        found.setdefault(kind, {})[row.id] = version
    return found
