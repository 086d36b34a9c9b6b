"""Errors as Failure messages, and back on the other side of a socket."""

from __future__ import annotations

from catena.core import errors
from catena.core.errors import CatenaError
from catena.transport.messages import Failure

#: Longest text of a Failure in bytes; it must fit the enrol socket's frame.
TEXT_LIMIT = 2000


def failure_of(error: CatenaError) -> Failure:
    """Return *error* as a message.

    The code is its nearest class of `core.errors`, which every receiver knows, so that the exit
    code arrives even where the class itself is not installed.
    """
    text = str(error).encode("utf-8", "backslashreplace")[:TEXT_LIMIT].decode("utf-8", "ignore")
    for kind in type(error).__mro__:
        if kind.__module__ == errors.__name__:
            return Failure(kind.__name__, text)
    return Failure(CatenaError.__name__, text)


def error_of(failure: Failure) -> CatenaError:
    """Return the error that *failure* carries; a code that is not known becomes CatenaError."""
    kind = getattr(errors, failure.code, CatenaError)
    if not (isinstance(kind, type) and issubclass(kind, CatenaError)):
        kind = CatenaError
    return kind(failure.message)
