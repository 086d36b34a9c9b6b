"""sdb.*: values by address, sdb://PROFILE/KEY; a profile is an option of the configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, List, Mapping

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.nested import traverse
from catena.core.plugins import function

_DRIVERS = ("env", "yaml")


@function(name="get", reads=True)
def get(context: Context, uri: str, strict: bool = False) -> Any:
    """Return the value at *uri*; what is no address of a known profile is returned as it is.

    Args:
        context: the call's context.
        uri: sdb://PROFILE/KEY. The profile says `driver: env`, or `driver: yaml` and `files`.
        strict: an unknown profile is an error.

    Raises:
        UsageError: no such profile (*strict*), or a driver that is not here.
    """
    profile_name, slash, key = str(uri)[len("sdb://") :].partition("/")
    profile = context.opts.get(profile_name) if str(uri).startswith("sdb://") and slash else None
    if not isinstance(profile, Mapping):
        if strict:
            raise UsageError(f"{uri!r} is of no sdb profile in the configuration")
        return uri
    driver = str(profile.get("driver", ""))
    if driver not in _DRIVERS:
        raise UsageError(f"the sdb driver {driver!r} is not here, only {', '.join(_DRIVERS)}")
    return os.environ.get(key) if driver == "env" else _from_files(profile, key)


def _from_files(profile: Mapping[str, Any], key: str) -> Any:
    from catena.modules.shared.serializers import LOAD

    files: List[str] = list(profile.get("files") or ())
    found: Any = None
    for name in files:
        try:
            data = LOAD["yaml"](Path(name).read_text(encoding="utf-8"), {})
        except (OSError, ValueError) as problem:
            raise CommandExecutionError(f"{name}: {problem}") from problem
        found = traverse(data or {}, key, found)
    return found
