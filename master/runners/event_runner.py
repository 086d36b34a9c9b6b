"""Runners of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catena.master.runners.dependencies import RunnerParts


async def send(parts: RunnerParts, tag: str, data: Mapping[str, Any] | None = None) -> bool:
    """Fire an event with *data* at its top level, like Salt's runner."""
    return await parts.bus.fire_once(parts.once, tag, dict(data or {}), lambda _: True)
