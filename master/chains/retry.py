"""Retries failed chains and resolves interrupted actions, as people decide.

Finished executions are never changed. Actions that run again, and actions that a person marks as
done, get new executions under the next epoch. The newest executions decide how a chain ends.
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
from catena.master.store.used_numbers import next_epoch

#: Reason of an execution whose outcome is unknown: the host crashed between its begin and end.
INTERRUPTED = "interrupted"

MARK_DONE, RETRY, CANCEL = VERDICTS = ("mark_done", "retry", "cancel")


def retry(ledger: ChainLedger, row: ChainRecord) -> None:
    """Schedule the unfinished actions of a failed chain for now, under the next epoch.

    Raises:
        UsageError: every action is done.
    """
    unfinished = _unfinished(ledger, row)
    if not unfinished:
        raise UsageError(f"every action of {row.title} is done")
    _open_epoch(ledger, row, unfinished, ())


def resolve(ledger: ChainLedger, row: ChainRecord, request: ChainResolve) -> None:
    """Retry interrupted actions or mark them as done; the service handles the verdict `cancel`.

    Raises:
        UsageError: the verdict is unknown.
        NotFoundError: no action is interrupted, or none on one of the named minions.
    """
    if request.verdict not in VERDICTS:
        raise UsageError(unknown("verdict", request.verdict, VERDICTS))
    found = interrupted(ledger, row)
    others = [minion for minion in request.minions if minion not in found]
    if others or not found:
        where = f" on {others[0]}, only on {', '.join(sorted(found))}" if found else ""
        raise NotFoundError(f"no action of {row.title} is interrupted{where}")
    chosen = {minion: found[minion] for minion in request.minions or found}
    vouched = [some[0].action_id for some in chosen.values()]
    _open_epoch(ledger, row, chosen, vouched if request.verdict == MARK_DONE else ())


def interrupted(ledger: ChainLedger, row: ChainRecord) -> dict[str, list[ChainExecution]]:
    """Return minion -> its unfinished executions, for minions whose next one was interrupted."""
    return {
        minion: some
        for minion, some in _unfinished(ledger, row).items()
        if some[0].reason == INTERRUPTED
    }


def _unfinished(ledger: ChainLedger, row: ChainRecord) -> dict[str, list[ChainExecution]]:
    """Return minion -> its newest executions from the first unfinished one on."""
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


def _open_epoch(
    ledger: ChainLedger,
    row: ChainRecord,
    unfinished: Mapping[str, Sequence[ChainExecution]],
    vouched: Collection[int],
) -> None:
    """Create the executions of the next epoch, and schedule the chain if any of them must run.

    Args:
        ledger: of the running transaction.
        row: the chain.
        unfinished: minion -> the executions to repeat.
        vouched: ids of the actions that a person marked as done.
    """
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
        # Actions failed on other minions too: the chain stays failed, and a retry can follow.
        chain = ledger.keep_failed(row, epoch, ChainEvent.resolve.value)
    add_executions(ledger, chain, again)
    for execution in rows.executions(ledger.conn, chain.run):
        if execution.action_id in vouched:
            text = f"marked done by {ledger.who}"
            change = decide.Change(execution.action_id, ExecutionEvent.vouch, text)
            ledger.move_execution(execution, change)
