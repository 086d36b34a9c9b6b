"""state.request and related functions: a run that waits for confirmation after a test run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ContextManager, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, NotFoundError
from catena.core.files import alone, read_limited, write_durable
from catena.core.plugins import function
from catena.core.suggest import unknown

_SIZE_LIMIT = 64 * 1024 * 1024


def _path(context: Context) -> Path:
    return context.host.cache_dir / "state_requests.json"


def _read(context: Context) -> Dict[str, Any]:
    path = _path(context)
    if not path.exists():
        return {}
    try:
        kept = json.loads(read_limited(path, _SIZE_LIMIT))
    except ValueError as problem:
        raise CommandExecutionError(f"{path} is damaged: {problem}") from problem
    return kept if isinstance(kept, dict) else {}


def _write(context: Context, kept: Mapping[str, Any]) -> None:
    write_durable(_path(context), json.dumps(kept, default=str).encode("utf-8"))


def _alone(context: Context) -> ContextManager[None]:
    """Lock the requests against other jobs while they are read, changed and written."""
    path = _path(context)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return alone(path.with_suffix(".lock"))


@function(queued=True, out="highstate", fails="states")
def request(context: Context, /, mods: Any = None, name: str = "default", **options: Any) -> Any:
    """Run states in test mode, and store the request for state.run_request.

    Args:
        context: of the job.
        mods: as for state.apply.
        name: of the request; it replaces an earlier one with that name.
        options: as for state.apply.
    """
    own = {key: value for key, value in options.items() if not key.startswith("__")}
    own["test"] = True
    answer = context.call("state.apply", mods, **own)
    wish = {"test_run": answer, "mods": mods, "kwargs": own}
    with _alone(context):
        _write(context, {**_read(context), name: wish})
    return answer


@function(reads=True)
def check_request(context: Context, name: Optional[str] = None) -> Dict[str, Any]:
    """Return the stored requests by name, with the results of their test runs; or one of them.

    Raises:
        NotFoundError: no request has that name.
    """
    kept = _read(context)
    if not name:
        return kept
    if name not in kept:
        raise NotFoundError(unknown("request", name, kept))
    return dict(kept[name])


@function()
def clear_request(context: Context, name: Optional[str] = None) -> bool:
    """Delete a request, or all of them; return True."""
    with _alone(context):
        kept = _read(context) if name else {}
        kept.pop(str(name), None)
        _write(context, kept)
    return True


@function(queued=True, out="highstate", fails="states")
def run_request(context: Context, /, name: str = "default", **options: Any) -> Any:
    """Run a stored request and delete it; return {} if there is none.

    Args:
        context: of the job.
        name: of the request.
        options: as for state.apply; they override those of the request.
    """
    with _alone(context):
        kept = _read(context)
        if name not in kept:
            return {}
        wish = kept.pop(name)
        # A request runs once, whatever the result.
        _write(context, kept)
    own = {key: value for key, value in options.items() if not key.startswith("__")}
    given = {key: value for key, value in wish["kwargs"].items() if key != "test"}
    return context.call("state.apply", wish["mods"], **{**given, **own})
