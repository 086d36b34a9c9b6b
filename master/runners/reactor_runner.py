"""Runners of the reactor: what it reacts to, how far it is, and what it tries again."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from catena.core.errors import UsageError
from catena.master.runners.dependencies import RunnerParts
from catena.reactors.retries import Failed


async def list_(parts: RunnerParts) -> list[dict[str, list[str]]]:
    """Return the rules in their order, each as {tag glob: [files]}."""
    return [{rule.tag: list(rule.files)} for rule in parts.reactor.rules]


async def status(parts: RunnerParts) -> dict[str, Any]:
    """Return {position, lag, failures, last_failure, waiting}: how far the reactor is.

    `lag` counts the events behind `position`, `waiting` the failed reactions that are tried again.
    """
    await parts.bus.tell_followers()
    return asdict(parts.reactor.status())


async def waiting(parts: RunnerParts) -> list[dict[str, Any]]:
    """Return the failed reactions that are tried again, the oldest first."""
    return [_shown(failed) for failed in parts.reactor.retries.waiting()]


async def retry(parts: RunnerParts, id: int = 0) -> int:
    """Try a failed reaction again now, or all of them; return how many.

    Raises:
        NotFoundError: none of that id waits.
    """
    return parts.reactor.retries.hurry(_number(id))


async def discard(parts: RunnerParts, id: int) -> dict[str, Any]:
    """Try a failed reaction no more; return what it was.

    Raises:
        NotFoundError: none of that id waits.
    """
    return _shown(await parts.reactor.retries.discard(_number(id)))


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise UsageError(f"{value!r} is no id of a reaction; see: catena runner reactor.waiting")
    return value


def _shown(failed: Failed) -> dict[str, Any]:
    return {
        "id": failed.id,
        "event": failed.event.seq,
        "tag": failed.event.tag,
        "file": failed.file,
        "entry": failed.reaction.id if failed.reaction else "",
        "attempts": failed.attempts,
        "since": _time(failed.since),
        "next": _time(failed.due),
        "error": failed.error,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
