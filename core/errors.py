"""Every error of catena, with its exit code on the command line.

The first line of a class's docstring is its default message, for raises that need no text of
their own.
"""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Mapping, Optional, Tuple, Type


class CatenaError(Exception):
    """An error in catena."""

    #: Exit code of a command that ends with this error (design §4).
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(message or _sentence_of(type(self)))


def _sentence_of(kind: Type[Any]) -> str:
    # inspect.getdoc is avoided: importing inspect takes a tenth of an idle agent's memory.
    doc: str = next(each.__doc__ for each in kind.__mro__ if each.__doc__)
    return doc.strip().partition("\n")[0]


class UsageError(CatenaError):
    """The request is not valid."""

    exit_code = 2


class NotFoundError(UsageError):
    """No such name exists."""


class ConfigError(UsageError):
    """The configuration cannot be used.

    Args:
        message: what is wrong.
        key: name of the wrong setting, so that the caller can say where it was written.
    """

    def __init__(self, message: str = "", key: str = "") -> None:
        super().__init__(message)
        self.key = key


class RecordError(UsageError):
    """A record's fields or types are wrong."""


class NotAllowedError(CatenaError):
    """You may not do that."""

    exit_code = 2


class InvalidStateError(CatenaError):
    """That is not possible in the current state."""


class CommandExecutionError(CatenaError):
    """A function could not do what it was asked (Salt's name for it)."""


class RenderError(CatenaError):
    """A template or data file cannot be rendered."""


class PillarError(CatenaError):
    """The pillar has errors and must not be used.

    Args:
        errors: one text per error, naming file and line.
        pillar: what could be compiled, for callers that use it with `force`.
    """

    def __init__(
        self, errors: Tuple[str, ...] = (), pillar: Optional[Mapping[str, Any]] = None
    ) -> None:
        super().__init__("\n".join(("Pillar failed to render:", *errors)) if errors else "")
        self.errors = errors
        self.pillar: Dict[str, Any] = dict(pillar or {})


class LimitError(CatenaError):
    """A size, depth or length exceeds its limit."""


class PeerError(CatenaError):
    """The peer of a connection violated the protocol."""


class UnreachableError(CatenaError):
    """The peer could not be reached."""

    exit_code = 3


class TryLaterError(CatenaError):
    """Not now: the same request may work later."""

    exit_code = 75


class FileChangedError(TryLaterError):
    """A file has changed since the list of files was read; read the list again."""
