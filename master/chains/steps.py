"""Doing something for each of many, so that what fails for one does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from catena.core.errors import CatenaError
from catena.master.store.database import StoreUnavailableError

LOG = logging.getLogger(__name__)

T = TypeVar("T")


async def each(what: str, items: Iterable[T], act: Callable[[T], Awaitable[Any]]) -> None:
    """Do *act* for each item; an error of one is logged, and the next tick asks again.

    Raises:
        StoreUnavailableError: nothing can be done for any of them now.
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
