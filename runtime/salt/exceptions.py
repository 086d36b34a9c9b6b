"""Stand-ins for `salt.exceptions`."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping

from catena.core.errors import CommandExecutionError


class SaltException(Exception):  # noqa: N818 - Salt's name
    """Base of Salt's exceptions, with the attributes that custom modules use."""

    def __init__(self, message: Any = "") -> None:
        super().__init__(message)
        self.message = self.strerror = message


class SaltInvocationError(SaltException, TypeError):
    """A function was called with wrong arguments."""


class MinionError(SaltException):
    """The minion failed."""


class SaltRenderError(SaltException):
    """A template can't be rendered."""


class CommandNotFoundError(SaltException):
    """A program is not installed."""


class TimedProcTimeoutError(SaltException):
    """A program took too long."""


class LoaderError(SaltException):
    """A module can't be loaded."""


class AuthenticationError(SaltException):
    """The master refused."""


#: Other names under which custom files catch or raise the base.
_SAME = (
    "SaltSystemExit",
    "SaltConfigurationError",
    "FileserverConfigError",
    "SaltCacheError",
    "SaltDeserializationError",
    "SaltClientError",
    "SaltReqTimeoutError",
    "SaltRunnerError",
    "SaltWheelError",
    "EauthAuthenticationError",
    "PillarRenderTimeoutException",
    "PkgParseError",
    "TemplateError",
    "GitLockError",
    "InvalidConfigError",
)


def _names() -> Dict[str, Any]:
    ours = (
        SaltException,
        SaltInvocationError,
        MinionError,
        SaltRenderError,
        CommandNotFoundError,
        TimedProcTimeoutError,
        LoaderError,
        AuthenticationError,
    )
    found: Dict[str, Any] = {kind.__name__: kind for kind in ours}
    found.update(dict.fromkeys(_SAME, SaltException))
    return {**found, "CommandExecutionError": CommandExecutionError}


#: Names of the module, by its full name.
NAMES: Mapping[str, Callable[[], Dict[str, Any]]] = {"salt.exceptions": _names}
