"""Runners of the reactor: what it reacts to, and how far it is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from catena.master.runners.parts import RunnerParts


async def list_(parts: RunnerParts) -> list[dict[str, list[str]]]:
    """Return the rules in their order, each as {tag glob: [files]}."""
    return [{rule.tag: list(rule.files)} for rule in parts.reactor.rules]


async def status(parts: RunnerParts) -> dict[str, Any]:
    """Return {position, lag, failures, last_failure}: events done with, and events behind."""
    await parts.bus.tell_followers()
    return asdict(parts.reactor.status())
