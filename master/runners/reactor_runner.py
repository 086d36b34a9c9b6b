"""Runners of the reactor: its rules, its progress, and its failed reactions."""

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
    """Return {position, lag, failures, last_failure, waiting}: the progress of the reactor.

    `lag` is the number of events after `position`, `waiting` the number of failed reactions that
    will be retried.
    """
    await parts.bus.notify_followers()
    return asdict(parts.reactor.status())


async def waiting(parts: RunnerParts) -> list[dict[str, Any]]:
    """Return the failed reactions that will be retried, oldest first."""
    return [_shown(failed) for failed in parts.reactor.retries.waiting()]


async def retry(parts: RunnerParts, id: int = 0) -> int:
    """Retry one failed reaction now, or all of them; return their number.

    Raises:
        NotFoundError: no failed reaction has that id.
    """
    return parts.reactor.retries.hurry(_number(id))


async def discard(parts: RunnerParts, id: int) -> dict[str, Any]:
    """Stop retrying a failed reaction; return its data.

    Raises:
        NotFoundError: no failed reaction has that id.
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
