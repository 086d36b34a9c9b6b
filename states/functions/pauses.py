"""state.pause and related functions: pause or end a running state run before a state."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import NotFoundError
from catena.core.files import alone
from catena.core.plugins import function
from catena.states.compiler.pauses import EVERY, Pause, forget_others, keep, read


def _running(context: Context) -> List[str]:
    jobs = context.host.running()
    return [str(job["jid"]) for job in jobs if str(job.get("fun", "")).startswith("state.")]


def _known(context: Context, jid: Any) -> str:
    """Return the job id of a running state run.

    Raises:
        NotFoundError: no run has that id.
    """
    if str(jid) not in _running(context):
        raise NotFoundError(f"no state run with the id {jid} is going on here")
    return str(jid)


def _set(context: Context, jid: Any, state_id: Optional[str], pause: Optional[Pause]) -> None:
    known, cache, key = _known(context, jid), context.host.cache_dir, state_id or EVERY
    with alone(cache / "pauses.lock"):
        forget_others(cache, _running(context))
        pauses = read(cache, known)
        if pause is None:
            pauses.pop(key, None)
        else:
            pauses[key] = pause
        keep(cache, known, pauses if pause is not None or state_id else {})


@function()
def pause(
    context: Context, jid: Any, state_id: Optional[str] = None, duration: Any = None
) -> None:
    """Pause a running state run before a state.

    Args:
        context: the call's context.
        jid: the run's job id.
        state_id: pause before this id; default: before the next state.
        duration: seconds after which the run continues; default: until state.resume.

    Raises:
        NotFoundError: no such run is active here.
    """
    until = time.time() + float(duration) if duration else None
    _set(context, jid, state_id, Pause(until))


@function()
def resume(context: Context, jid: Any, state_id: Optional[str] = None) -> None:
    """Resume a paused run, everywhere or before one id."""
    _set(context, jid, state_id, None)


@function()
def soft_kill(context: Context, jid: Any, state_id: Optional[str] = None) -> None:
    """End a state run before its next state, or before an id; the current state finishes."""
    _set(context, jid, state_id, Pause(kill=True))


@function(reads=True)
def get_pauses(context: Context, jid: Any = None) -> Dict[str, Any]:
    """Return the pauses of active runs: {jid: {id: {duration, kill}}}."""
    jids = [str(jid)] if jid else _running(context)
    found: Dict[str, Any] = {}
    for one in jids:
        pauses = read(context.host.cache_dir, one)
        if pauses:
            found[one] = {key: _shown(each) for key, each in pauses.items()}
    return found


def _shown(pause: Pause) -> Dict[str, Any]:
    if pause.kill:
        return {"kill": True}
    return {} if pause.until is None else {"duration": max(0.0, pause.until - time.time())}
