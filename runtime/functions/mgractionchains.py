"""Action chains on this host, with the names and arguments of Uyuni's module."""

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
    """Arm the reboot of an action that is not final; return whether a chunk is running."""
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
    """Start an action chain: fetch and check all its chunks, then run the first one.

    If the chain is started again after a crash, it continues with the first unfinished action.

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
    """Write the resume file, which names the chunk that runs after the boundary.

    Chains of transactional systems have no state that reboots. For them, *reboot_required* makes
    this function arm the reboot.

    Args:
        context: the call's context.
        actionchain_id: number of the chain.
        chunk: number of the next chunk.
        next_action_id: first action of the next chunk.
        current_action_id: the reboot's action, with *reboot_required*.
        ssh_extra_filerefs: files that the next chunk needs over SSH, joined by commas.
        reboot_required: reboot at the end of the running chunk.
        at_time: minutes between the chunk's end and the reboot.

    Returns:
        The content of the resume file.
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
    """Return the content of the resume file and the current boot time; {} if no chain waits."""
    return read_pending(_chains(context).place)


@function(queued=True, out="highstate", fails="states", resumable=True)
def resume(
    context: Context, actionchain_id: Optional[int] = None, epoch: Optional[int] = None
) -> Dict[str, Any]:
    """Continue the chain that waits on this host, if its reboot or agent upgrade is proven.

    Args:
        context: the call's context.
        actionchain_id: only this chain; by default the chain that the resume file names.
        epoch: only this run of the chain; any by default.

    Returns:
        The state results of the next chunk; {} if no chain waits. {"not_resumed": reason, …} with
        the chain, its run and its state on this host, if it must wait longer or is not here.
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

    A folder, a pipe or a link (not its target) in place of the file is removed too. With
    *reboot_required* in a running chunk, the function instead arms the reboot that is the last
    action of a transactional system's chain; the end of the chunk then removes the file.

    Args:
        context: the call's context.
        actionchain_id: only this chain; any by default.
        current_action_id: the reboot's action, with *reboot_required*.
        reboot_required: reboot at the end of the running chunk.
        epoch: only this run of the chain and older ones; any by default.
        at_time: minutes between the chunk's end and the reboot.

    Returns:
        {"success", "removed", "runs", "current_boot_time"}; `runs` lists the runs that were given
        up, `removed` says whether a file was removed.
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
    """Return the run that the arguments name; None if both are None.

    Raises:
        UsageError: an argument is not a number, or there is an epoch without a chain.
    """
    number = None if epoch is None else _number("epoch", epoch)
    if actionchain_id is None:
        if number is not None:
            raise UsageError("epoch says which run of a chain; name the chain: actionchain_id=N")
        return None
    return RunRef(_number("actionchain_id", actionchain_id), number)
