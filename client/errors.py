"""From a Failure on the wire to the exception of the same name, so that exit codes survive."""

from __future__ import annotations

from typing import Dict, Iterator, Type

from catena.core import errors
from catena.core.errors import CatenaError


def _classes(root: Type[CatenaError]) -> Iterator[Type[CatenaError]]:
    yield root
    for child in root.__subclasses__():
        yield from _classes(child)


def raised(code: str, message: str) -> CatenaError:
    """Return the error that *code* names; a name unknown here is a plain CatenaError."""
    known: Dict[str, Type[CatenaError]] = {
        kind.__name__: kind for kind in _classes(CatenaError) if kind.__module__ == errors.__name__
    }
    return known.get(code, CatenaError)(message)
