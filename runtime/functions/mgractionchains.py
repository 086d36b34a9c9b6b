"""Action chains on this host, under the names and arguments of Uyuni's module."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.core import chain_calls
from catena.core.context import Context, RebootRequest
from catena.core.errors import UsageError
from catena.core.frozen import asdict
from catena.core.plugins import function
from catena.core.run_ref import RunRef
from catena.runtime.boot import boot_time
from catena.runtime.chain_record import ACTION
from catena.runtime.chain_run import ChainHost, read_pending
from catena.runtime.host import BaseHost


def _chains(context: Context) -> ChainHost:
    if not isinstance(context.host, BaseHost):
        raise UsageError("action chains run on minions only")
    return ChainHost(context.host)


def _number(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if isinstance(value, bool) or not 0 <= number < 10**18:
        raise UsageError(f"{name} must be a number, not {str(value)[:80]!r}")
    return number


def _arm(context: Context, chain_id: Any, action_id: Any, at_time: Any) -> bool:
    """Arm the reboot of an action unless it has happened; return whether a chunk runs at all."""
    host = _chains(context)
    if not host.host.chunk_open:
        return False
    minutes = _number("at_time", at_time or 0)
    seen = host.store.look(_number("actionchain_id", chain_id))
    action = _number("current_action_id", action_id)
    if seen is None or not ACTION.is_final(seen.view.action(action).state):
        host.host.arm_reboot(RebootRequest(minutes))
    return True


@function(queued=True, out="highstate", fails="states", resumable=True)
def start(context: Context, actionchain_id: int) -> Dict[str, Any]:
    """Start an action chain: fetch and check all its chunks, run the first one.

    Started again after a crash it goes on where it was; finished actions do not run again.

    Args:
        context: the call's context.
        actionchain_id: number of the chain.

    Returns:
        The state results of the first chunk.

    CLI Example:
        catena run web1 mgractionchains.start 131
    """
    return _chains(context).start(context, _number("actionchain_id", actionchain_id))


@function(name="next")
def next_(
    context: Context,
    actionchain_id: int,
    chunk: int,
    next_action_id: Optional[int] = None,
    current_action_id: Optional[int] = None,
    ssh_extra_filerefs: Optional[str] = None,
    reboot_required: Optional[bool] = None,
    at_time: Optional[int] = None,
) -> Dict[str, Any]:
    """Write the resume file: *chunk* is what goes on after the boundary.

    Chains of transactional systems have no state that reboots: this one arms the reboot.

    Args:
        context: the call's context.
        actionchain_id: number of the chain.
        chunk: number of the next chunk.
        next_action_id: its first action.
        current_action_id: the reboot's action, with *reboot_required*.
        ssh_extra_filerefs: files that the next chunk needs over SSH, joined by commas.
        reboot_required: reboot at the end of the running chunk.
        at_time: minutes between the chunk's end and the reboot.

    Returns:
        What was written.
    """
    if reboot_required:
        _arm(context, actionchain_id, current_action_id, at_time)
    point = _chains(context).next(
        _number("actionchain_id", actionchain_id),
        _number("chunk", chunk),
        None if next_action_id is None else _number("next_action_id", next_action_id),
        ssh_extra_filerefs or "",
    )
    return {key: value for key, value in asdict(point).items() if value is not None}


@function(reads=True)
def get_pending_resume(context: Context) -> Dict[str, Any]:
    """Return what the resume file says and the current boot time; {} when no chain waits."""
    return read_pending(_chains(context).place)


@function(queued=True, out="highstate", fails="states", resumable=True)
def resume(
    context: Context, actionchain_id: Optional[int] = None, epoch: Optional[int] = None
) -> Dict[str, Any]:
    """Go on with the chain that waits on this host, if its boundary is proven.

    Args:
        context: the call's context.
        actionchain_id: only this chain; by default the one that the resume file names.
        epoch: only this run of the chain; any by default.

    Returns:
        The state results of what ran; {} when no chain waits; {"not_resumed": why, …} with the
        chain, its run and its state here, when it has to wait longer or is not here.
    """
    return _chains(context).resume(context, _run(actionchain_id, epoch))


@function()
def clean(
    context: Context,
    actionchain_id: Optional[int] = None,
    current_action_id: Optional[int] = None,
    reboot_required: Optional[bool] = None,
    epoch: Optional[int] = None,
    at_time: Optional[int] = None,
) -> Dict[str, Any]:
    """Give up the chain that waits on this host and remove its resume file.

    Whatever stands in the file's place is removed: a folder, a pipe, a link (not its target).
    In a chunk with *reboot_required* it ends a chain of a transactional system whose last action
    is a reboot: it arms that, and the chunk's end removes the file.

    Args:
        context: the call's context.
        actionchain_id: only this chain; any by default.
        current_action_id: the reboot's action, with *reboot_required*.
        reboot_required: reboot at the end of the running chunk.
        epoch: only this run of the chain and older ones; any by default.
        at_time: minutes between the chunk's end and the reboot.

    Returns:
        `runs` names the runs that were given up.
    """
    if reboot_required and _arm(context, actionchain_id, current_action_id, at_time):
        return {"success": True, "removed": False, "runs": [], "current_boot_time": boot_time()}
    from catena.runtime.chain_clean import clean as give_up

    done = give_up(_chains(context), _run(actionchain_id, epoch), chain_calls.CLEAN)
    runs = [{"actionchain_id": run.chain_id, "epoch": run.epoch} for run in done.runs]
    return {
        "success": True,
        "removed": done.removed,
        "runs": runs,
        "current_boot_time": boot_time(),
    }


def _run(actionchain_id: Any, epoch: Any) -> Optional[RunRef]:
    """Return the run that two arguments name; None: they name none.

    Raises:
        UsageError: one is no number, or there is an epoch without a chain.
    """
    number = None if epoch is None else _number("epoch", epoch)
    if actionchain_id is None:
        if number is not None:
            raise UsageError("epoch says which run of a chain; name the chain: actionchain_id=N")
        return None
    return RunRef(_number("actionchain_id", actionchain_id), number)
