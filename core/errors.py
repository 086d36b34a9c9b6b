"""Every error of catena, with the exit code that a command line gives it.

The first line of a class's docstring is its default message, so that a raise site needs no text
of its own where the class says it all.
"""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Mapping, Optional, Tuple, Type


class CatenaError(Exception):
    """Something went wrong in catena."""

    #: What a command exits with when this reaches its top (design §4).
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(message or _sentence_of(type(self)))


def _sentence_of(kind: Type[Any]) -> str:
    # Not by inspect.getdoc: what that module loads is a tenth of an idle agent.
    doc: str = next(each.__doc__ for each in kind.__mro__ if each.__doc__)
    return doc.strip().partition("\n")[0]


class UsageError(CatenaError):
    """The request makes no sense as it stands."""

    exit_code = 2


class NotFoundError(UsageError):
    """There is nothing of that name."""


class ConfigError(UsageError):
    """The configuration can't be used.

    Args:
        message: what is wrong.
        key: the setting that is wrong, for who knows where it was written.
    """

    def __init__(self, message: str = "", key: str = "") -> None:
        super().__init__(message)
        self.key = key


class RecordError(UsageError):
    """A record does not have the fields or types that it must have."""


class NotAllowedError(CatenaError):
    """You may not do that."""

    exit_code = 2


class InvalidStateError(CatenaError):
    """That can't be done in the state in which the thing stands."""


class CommandExecutionError(CatenaError):
    """A function could not do what it was asked (Salt's name for it)."""


class RenderError(CatenaError):
    """A template or data file can't be rendered."""


class PillarError(CatenaError):
    """The pillar has errors and must not be used.

    Args:
        errors: one text per fault, naming file and line.
        pillar: what could be compiled all the same, for who asks for it by `force`.
    """

    def __init__(
        self, errors: Tuple[str, ...] = (), pillar: Optional[Mapping[str, Any]] = None
    ) -> None:
        super().__init__("\n".join(("Pillar failed to render:", *errors)) if errors else "")
        self.errors = errors
        self.pillar: Dict[str, Any] = dict(pillar or {})


class LimitError(CatenaError):
    """Something is larger, deeper or longer than its limit allows."""


class PeerError(CatenaError):
    """The other side of a connection broke the protocol."""


class UnreachableError(CatenaError):
    """The other side could not be reached."""

    exit_code = 3


class TryLaterError(CatenaError):
    """Not now: the same request may work later."""

    exit_code = 75


class FileChangedError(TryLaterError):
    """A file is no longer the one that was asked for: read the list of files anew."""
