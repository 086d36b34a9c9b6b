"""What people decide about a chain that failed: run the rest again, or say what is done.

Finished executions are never changed. What runs again, and what a person vouches for, are new
executions under the next epoch; how a chain ends follows from the newest of each action.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from catena.client.requests.chains import ChainResolve
from catena.core.errors import NotFoundError, UsageError
from catena.core.suggest import unknown
from catena.master.chains import decide, rows
from catena.master.chains.drafts import add_executions, due_now
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ChainEvent
from catena.master.chains.model import ChainExecution, ChainRecord
from catena.master.executions.lifecycle import ExecutionEvent, ExecutionState
from catena.master.store.backup import next_epoch

#: Reason of an execution whose outcome nobody knows: the power went between its begin and end.
INTERRUPTED = "interrupted"

MARK_DONE, RETRY, CANCEL = VERDICTS = ("mark_done", "retry", "cancel")


def retry(ledger: ChainLedger, row: ChainRecord) -> None:
    """Schedule what a failed chain has not done, now, under the next epoch.

    Raises:
        UsageError: everything is done.
    """
    unfinished = _unfinished(ledger, row)
    if not unfinished:
        raise UsageError(f"every action of {row.title} is done")
    _go_on(ledger, row, unfinished, ())


def resolve(ledger: ChainLedger, row: ChainRecord, request: ChainResolve) -> None:
    """Do what a person decided about interrupted actions; `cancel` is the service's.

    Raises:
        UsageError: no such verdict.
        NotFoundError: nothing is interrupted, or not on a minion that was named.
    """
    if request.verdict not in VERDICTS:
        raise UsageError(unknown("verdict", request.verdict, VERDICTS))
    found = interrupted(ledger, row)
    strangers = [minion for minion in request.minions if minion not in found]
    if strangers or not found:
        where = f" on {strangers[0]}, only on {', '.join(sorted(found))}" if found else ""
        raise NotFoundError(f"no action of {row.title} is interrupted{where}")
    chosen = {minion: found[minion] for minion in request.minions or found}
    vouched = [some[0].action_id for some in chosen.values()]
    _go_on(ledger, row, chosen, vouched if request.verdict == MARK_DONE else ())


def interrupted(ledger: ChainLedger, row: ChainRecord) -> dict[str, list[ChainExecution]]:
    """Return what is unfinished of each minion whose next action is an interrupted one."""
    return {
        minion: some
        for minion, some in _unfinished(ledger, row).items()
        if some[0].reason == INTERRUPTED
    }


def _unfinished(ledger: ChainLedger, row: ChainRecord) -> dict[str, list[ChainExecution]]:
    """Return, per minion, the newest executions from the first that is not done on."""
    newest = rows.newest(ledger.conn, row.id)
    facts: dict[str, list[decide.ExecutionFact]] = {}
    for execution in newest.values():
        facts.setdefault(execution.minion, []).append(rows.fact(execution))
    found = {}
    for minion, some in facts.items():
        again = decide.to_retry(some)
        if again:
            found[minion] = [newest[action_id] for action_id in again]
    return found


def _go_on(
    ledger: ChainLedger,
    row: ChainRecord,
    unfinished: Mapping[str, Sequence[ChainExecution]],
    vouched: Collection[int],
) -> None:
    """Make the executions of the next epoch; schedule the chain when any of them has to run."""
    epoch = next_epoch(ledger.conn, row.epoch)
    again = [execution for some in unfinished.values() for execution in some]
    open_again = {execution.action_id for execution in again}
    newest = rows.newest(ledger.conn, row.id).values()
    rest_done = all(
        execution.state == ExecutionState.DONE.value
        for execution in newest
        if execution.action_id not in open_again
    )
    if len(again) > len(vouched):
        chain = ledger.open_run(row, ChainEvent.retry, epoch, due_now(ledger))
    elif rest_done:
        chain = ledger.open_run(row, ChainEvent.resolve, epoch)
    else:
        # Other minions have failed otherwise: it stays failed, and the next retry is theirs.
        chain = ledger.keep_failed(row, epoch, ChainEvent.resolve.value)
    add_executions(ledger, chain, again)
    for execution in rows.executions(ledger.conn, chain.run):
        if execution.action_id in vouched:
            text = f"marked done by {ledger.who}"
            change = decide.Change(execution.action_id, ExecutionEvent.vouch, text)
            ledger.move_execution(execution, change)
