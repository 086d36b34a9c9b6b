"""Runs a step for each of many items, one after the other or several at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from catena.core.errors import CatenaError
from catena.master.store.database import StoreUnavailableError

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Number of steps of `several` that run at the same time. Their writes share transactions.
AT_A_TIME = 64


async def each(what: str, items: Iterable[T], act: Callable[[T], Awaitable[Any]]) -> None:
    """Call *act* for each item; log its errors, so that the next tick can retry.

    Args:
        what: what is done, for the log.
        items: the items, in order.
        act: the step.

    Raises:
        StoreUnavailableError: the store is down, so no step can succeed now.
    """
    for item in items:
        try:
            await act(item)
        except StoreUnavailableError:
            raise
        except (CatenaError, OSError) as error:
            LOG.warning("%s: %s", what, error)
        except Exception:
            LOG.exception("%s", what)


async def several(items: Sequence[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Call *act* for the items, AT_A_TIME of them at the same time.

    Args:
        items: the items; the steps of two of them must not depend on each other.
        act: the step.

    Raises:
        Exception: whatever a step raised. The steps that ran beside it have ended, and further
            ones were not begun.
    """
    for first in range(0, len(items), AT_A_TIME):
        running = [act(item) for item in items[first : first + AT_A_TIME]]
        for outcome in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
