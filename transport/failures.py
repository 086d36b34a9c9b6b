"""Conversion of errors to Failure messages and back."""

from __future__ import annotations

from catena.core import errors
from catena.core.errors import CatenaError
from catena.transport.messages import Failure

#: Maximum length of a Failure's text in bytes, so that it fits the enrol socket's frame.
TEXT_LIMIT = 2000


def failure_of(error: CatenaError) -> Failure:
    """Return *error* as a message.

    The code is the nearest base class in `core.errors`, which every receiver knows. The exit code
    is therefore right even where the class itself is not installed.
    """
    text = str(error).encode("utf-8", "backslashreplace")[:TEXT_LIMIT].decode("utf-8", "ignore")
    for kind in type(error).__mro__:
        if kind.__module__ == errors.__name__:
            return Failure(kind.__name__, text)
    return Failure(CatenaError.__name__, text)


def error_of(failure: Failure) -> CatenaError:
    """Return the error that *failure* carries; an unknown code becomes CatenaError."""
    kind = getattr(errors, failure.code, CatenaError)
    if not (isinstance(kind, type) and issubclass(kind, CatenaError)):
        kind = CatenaError
    return kind(failure.message)
