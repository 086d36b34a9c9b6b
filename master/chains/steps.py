"""Runs a step for each of many items; a failure of one does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from catena.core.errors import CatenaError
from catena.master.store.database import StoreUnavailableError

LOG = logging.getLogger(__name__)

T = TypeVar("T")


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
