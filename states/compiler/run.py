"""Run low states in order: evaluate requisites, call the states, store the rows."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Callable, Dict, List, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.frozen import replace
from catena.core.unguarded import carry_over
from catena.states.compiler.aggregate import Joins
from catena.states.compiler.ahead import Ahead
from catena.states.compiler.call import (
    REQUIRED,
    Attempt,
    Callees,
    StateCaller,
    argument_faults,
    listener,
    make_row,
)
from catena.states.compiler.faults import StateArgumentsError
from catena.states.compiler.listen import heard
from catena.states.compiler.model import Low, Row, RunHooks
from catena.states.compiler.parallel import Child, end_all, possible
from catena.states.compiler.pauses import Gate
from catena.states.compiler.requisites import Plan, link
from catena.states.compiler.verdicts import Decision, Judge, Verdict
from catena.states.compiler.watch import Hearing, soften

_COMMENTS = {
    Decision.no_changes: "State was not run because none of the onchanges reqs changed",
    Decision.no_failure: "State was not run because onfail req did not change",
    Decision.no_prereq: "No changes detected",
}
#: Comment of a replayed row whose record has none.
_NOT_RECORDED = "Nothing is recorded of what it came to"
#: Comment of a parallel state whose process returned no row.
_NO_ROW = "The process of this parallel state left no row"
_CANCELLED = "Ended: the run was cancelled while this ran beside it"
#: Seconds between checks of parallel states and of a cancellation while the run waits.
_LOOK_SECONDS = 0.2
_ENDED = "Not run: state.soft_kill ended the run here"
_PLAIN = Attempt()
_TRIAL = Attempt(trial=True)


#: State modules whose changes may make custom modules available (Salt's list).
_INSTALLERS = frozenset(("pkg", "ports", "pip"))


def _may_bring_modules(low: Low) -> bool:
    """Return whether a change of this state may add a module or a dependency of one."""
    if low.state == "file":
        python = low.fun == "managed" and low.name.endswith((".py", ".so"))
        return python or low.fun == "recurse"
    return low.state in _INSTALLERS


class ProgressHooks:
    """Reports every row to the host; obeys state.pause and state.soft_kill."""

    def __init__(self, context: Context, total: int) -> None:
        self._host = context.host
        self._total = total
        self._gate = Gate(context.host.cache_dir, context.job.jid if context.job else "")

    def before(self, low: Low) -> Optional[Row]:
        """Wait for the end of a pause before a state."""
        self._gate.pass_(low.id)
        return {"result": False, "comment": _ENDED} if self._gate.killed else None

    def perform(self, low: Low, work: Callable[[], Row]) -> Row:
        """Run *work* in this process."""
        return work()

    def after(self, low: Low, row: Row) -> None:
        """Report *row*."""
        step = {"key": low.key, "ret": row, "run_num": row["__run_num__"], "total": self._total}
        self._host.progress("state", step)

    def cancelled(self) -> bool:
        """Return whether state.soft_kill ended the run."""
        return self._gate.killed


class MockHooks(ProgressHooks):
    """Runs no state: each one succeeds without changes (mock)."""

    def before(self, low: Low) -> Optional[Row]:
        """Return a successful row instead of calling the state."""
        return {"result": True, "comment": "Not called, mocked"}


class StateRun:
    """One state run.

    Args:
        context: passed to the states; `reload_*` replaces it during the run.
        lows: low states in run order.
        hooks: journal or progress of the run.
        journalled: whether *hooks* record durably that a state is done; its work is then never
            deferred.

    Raises:
        StateArgumentsError: raised by `rows` before any state runs.
    """

    def __init__(
        self, context: Context, lows: Sequence[Low], hooks: RunHooks, journalled: bool = True
    ) -> None:
        self._context = context
        self._lows = list(lows)
        self._hooks = hooks
        self._plan: Plan = link(lows, linked_before=True)
        soften(self._plan, Hearing(context))
        self._rows: List[Optional[Row]] = [None] * len(lows)
        self._trials: Dict[int, Row] = {}
        #: Positions by key; filled on first use.
        self._positions: Dict[str, int] = {}
        self._judge = Judge(self._plan, self._rows, self._trials)
        self._callees = Callees(context.states)
        self._caller = StateCaller(self._callees, hooks.cancelled)
        self._joins = Joins(context, self._plan, self._callees)
        self._ahead = None if journalled else Ahead(self._lows, self._callees)
        self._result: Dict[str, Row] = {}
        self._number = 0
        self._failhard = bool(context.opts.get("failhard"))
        #: Child processes of parallel states by position, in starting order.
        self._children: Dict[int, Child] = {}
        self._most_children = int(context.opts.get("state_max_parallel") or 0)
        #: A state with failhard failed: no further state starts.
        self._stopped = False

    def rows(self) -> Dict[str, Row]:
        """Run all states; return the rows by key, in the order in which they were made."""
        faults = list(argument_faults(self._callees, self._lows))
        if faults:
            raise StateArgumentsError("\n".join(faults))
        try:
            self._run_all()
        except BaseException:
            # The rows of remaining children could not be recorded.
            end_all(tuple(self._children.values()))
            if self._ahead is not None:
                self._ahead.close()
            raise
        return self._result

    def _run_all(self) -> None:
        sequence = self._joins.sequence()
        ahead = self._ahead if isinstance(sequence, range) else None
        for position in sequence:
            if self._hooks.cancelled():
                self._end_children()
                break
            if ahead is not None:
                ahead.turn(self._context, position)
            self._try_before(position)
            if not self._stopped and self._rows[position] is None:
                self._one(position)
            if self._stopped:
                break
        if ahead is not None:
            ahead.close()
        self._await(tuple(self._children))
        if not self._hooks.cancelled():
            self._listen()

    def _one(self, position: int) -> None:
        self._await_needs(position)
        low = self._lows[position]
        if low.keywords.get("parallel"):
            self._await_room()
        if self._stopped:
            return
        started, clock = datetime.now(), time.monotonic()
        verdict = self._judge.verdict(position)
        row = self._settled(position, verdict)
        if row is None:
            low = self._join(position)
            recorded = self._hooks.before(low)
            if recorded is not None:
                row = {**make_row(low, False, _NOT_RECORDED), **recorded}
                self._rows[position] = self._keep(low, row)
                return
            if low.keywords.get("parallel") and possible():
                self._begin(position, verdict)
                return
            row = self._hooks.perform(low, lambda: self._watched(position, verdict))
        self._finish(position, row, started, clock)

    def _begin(self, position: int, verdict: Verdict) -> None:
        """Start a state in a child process and reserve its position among the rows."""

        def work() -> Row:
            started, clock = datetime.now(), time.monotonic()
            row = self._watched(position, verdict)
            self._stamp(row, started, clock)
            return row

        self._result[self._lows[position].key] = {"__run_num__": self._number}
        self._number += 1
        self._children[position] = Child(work)

    def _await_room(self) -> None:
        """Wait until the number of parallel states allows one more."""
        while self._most_children and len(self._children) >= self._most_children:
            self._await(tuple(self._children)[:1])

    def _await_needs(self, position: int) -> None:
        """Wait for the parallel states that a state needs."""
        if not self._children:
            return
        links = self._plan.links[position]
        needed = {
            one for groups in links.needs.values() for each in groups for one in each.members
        }
        needed.update(links.prereq_owners)
        self._await([one for one in self._children if one in needed])

    def _await(self, positions: Sequence[int]) -> None:
        for position in positions:
            while not self._children[position].speaks(_LOOK_SECONDS):
                if self._hooks.cancelled():
                    self._end_children()
                    return
            child = self._children.pop(position)
            row = child.row()
            self._take(position, row, f"{_NO_ROW}: {child.fault}" if child.fault else _NO_ROW)

    def _end_children(self) -> None:
        self._stopped = True
        children, self._children = self._children, {}
        end_all(tuple(children.values()))
        for position in children:
            self._take(position, None, _CANCELLED)

    def _take(self, position: int, row: Optional[Row], otherwise: str) -> None:
        """Store the row of a parallel state; *otherwise* is the comment if it has none."""
        low = self._lows[position]
        if row is None:
            row = make_row(low, False, otherwise)
            self._stamp(row, datetime.now(), time.monotonic())
        row["__parallel__"] = True
        self._rows[position] = row
        self._reload(low, row)
        self._keep(low, row)
        self._hooks.after(low, row)
        self._fire(low, row)

    def _finish(self, position: int, row: Row, started: datetime, clock: float) -> None:
        """Store the row of a state; report it, reload, and handle failhard."""
        low = self._lows[position]
        self._rows[position] = row
        if low.keywords or row["changes"]:
            self._reload(low, row)
        self._stamp(row, started, clock)
        self._keep(low, row)
        self._hooks.after(low, row)
        if low.keywords:
            self._fire(low, row)

    def _stamp(self, row: Row, started: datetime, clock: float) -> None:
        row["start_time"] = started.time().isoformat("microseconds")
        row["duration"] = round((time.monotonic() - clock) * 1000, 3)
        row["__run_num__"] = self._number

    def _keep(self, low: Low, row: Row) -> Row:
        kept = self._result.get(low.key)
        if kept is not None and kept.keys() == {"__run_num__"}:
            row.update(kept)
        else:
            row["__run_num__"] = self._number
            self._number += 1
        self._result[low.key] = row
        hard = low.keywords.get("failhard", self._failhard)
        if hard and row["result"] is False and not self._context.test:
            self._stopped = True
        return row

    def _settled(self, position: int, verdict: Verdict) -> Optional[Row]:
        """Return the row of a state whose requisites prevent its run, else None."""
        low = self._lows[position]
        if verdict.decision is Decision.run:
            return None
        if verdict.decision is not Decision.failed:
            row = make_row(low, True, _COMMENTS[verdict.decision])
        elif position in self._trials:
            return self._held_back(position, verdict.failed)
        else:
            labels = ", ".join(dict.fromkeys(self._lows[one].label for one in verdict.failed))
            row = make_row(low, False, f"One or more requisite failed: {labels}")
        row["__state_ran__"] = False
        return row

    def _held_back(self, position: int, failed: Sequence[int]) -> Row:
        """Return the row of a target if the state with the prereq failed (behaviour 6)."""
        trial = self._trials[position]
        labels = ", ".join(dict.fromkeys(self._lows[one].label for one in failed))
        comment = f"{trial['comment']}\nNot run: {labels}, a prereq of it, failed"
        row = make_row(self._lows[position], trial["result"], comment)
        row["__state_ran__"] = False
        return row

    def _try_before(self, position: int) -> None:
        """Try the states scheduled before a state, and always the targets of its prereq."""
        tries = self._lows[position].tries
        if tries and not self._positions:
            self._positions = {low.key: place for place, low in enumerate(self._lows)}
        for key in tries:
            if key in self._positions:
                self._try(self._positions[key])
        self._try_targets(position)

    def _try_targets(self, position: int) -> None:
        """Run the targets of a state's prereq in test mode."""
        links = self._plan.links[position]
        for group in links.needs.get("prereq", ()):
            for member in group.members:
                self._try(member)

    def _try(self, position: int) -> None:
        if position in self._trials or self._stopped:
            return
        self._try_targets(position)
        self._await_needs(position)
        started, clock = datetime.now(), time.monotonic()
        verdict = self._judge.verdict(position, trial=True)
        row = self._settled(position, verdict)
        if row is None:
            test = self._context.with_(test=True)
            attempt = self._attempt(position, trial=True)
            self._trials[position] = self._caller.row(test, self._join(position), attempt)
            return
        # The decision of its requisites is final, so this is already its row.
        self._trials[position] = row
        self._finish(position, row, started, clock)

    def _join(self, position: int) -> Low:
        """Return a state together with the work of others that it does (`aggregate`)."""
        low = self._joins.low(self._context, position, self._is_free, self._result)
        self._lows[position] = low
        return low

    def _is_free(self, position: int) -> bool:
        """Return whether a state has run, or its requisites allow it to run now."""
        links = self._plan.links[position]
        if self._rows[position] is not None:
            return True
        if links.prereq_owners or "prereq" in links.needs:
            return False
        needs = (one for groups in links.needs.values() for each in groups for one in each.members)
        if any(self._rows[one] is None for one in needs):
            return False
        return self._judge.verdict(position).decision is Decision.run

    def _attempt(self, position: int, trial: bool = False) -> Attempt:
        """Return how to call a state; states that ask for it get the states that they require."""
        low = self._lows[position]
        callee = self._callees.get(low.state, low.fun)
        if callee is None or REQUIRED not in callee.wants:
            return _TRIAL if trial else _PLAIN
        groups = self._plan.links[position].needs.get("require", ())
        required = [self._lows[one].as_dict() for group in groups for one in group.members]
        return Attempt({REQUIRED: required}, trial)

    def _watched(self, position: int, verdict: Verdict) -> Row:
        """Call a state, and also its mod_watch if something watched changed but it did nothing."""
        low = self._lows[position]
        row = self._caller.row(self._context, low, self._attempt(position))
        if not verdict.changed or row["changes"] or row.get("skip_watch"):
            return row
        if self._callees.get(low.state, "mod_watch") is None:
            return row
        sources = [self._lows[one].as_dict() for one in verdict.changed]
        watch = replace(low, fun="mod_watch")
        extra = {"sfun": low.fun, "__reqs__": {"watch": sources}}
        again = self._caller.row(self._context, watch, Attempt(extra))
        carry_over(again, row)
        return again

    def _reload(self, low: Low, row: Row) -> None:
        """Reload grains, pillar or modules as a state demands; a failure fails the state."""
        keywords = low.keywords
        if row.get("__state_ran__") is False:
            return
        host = self._context.host
        try:
            if keywords.get("reload_grains"):
                self._context = self._context.with_(grains=host.collect_grains())
            if keywords.get("reload_pillar"):
                self._context = self._context.with_(pillar=host.compile_pillar())
        except (CatenaError, OSError) as error:
            row["result"] = False
            row["comment"] = f"{row['comment']}\nWhat this state reloads can't be read: {error}"
        if keywords.get("reload_modules") or (row["changes"] and _may_bring_modules(low)):
            self._context.forget_plugins()
            self._callees.forget()

    def _fire(self, low: Low, row: Row) -> None:
        wanted = low.keywords.get("fire_event")
        if not wanted:
            return
        jid = self._context.job.jid if self._context.job else ""
        last = wanted if isinstance(wanted, str) else low.name
        minion = str(self._context.opts.get("id", ""))
        tag = "/".join(filter(None, ("salt", "state_result", jid, minion, last)))
        self._context.host.fire(tag, {"ret": row})

    def _listen(self) -> None:
        calls, faults = heard(self._lows, self._rows)
        self._stopped = False
        for low in calls:
            if self._hooks.cancelled() or self._stopped:
                return
            self._heard(low)
        for fault in faults:
            self._listen_error(fault)

    def _heard(self, low: Low) -> None:
        call = listener(low)
        if call.key in self._result:
            return
        started, clock = datetime.now(), time.monotonic()
        row = self._hooks.before(call)
        if row is not None:
            self._keep(call, {**make_row(call, False, _NOT_RECORDED), **row})
            return
        extra = {"sfun": low.fun, "__reqs__": {"watch": []}}
        row = self._caller.row(self._context, call, Attempt(extra))
        self._stamp(row, started, clock)
        self._keep(call, row)
        self._hooks.after(call, row)

    def _listen_error(self, fault: Low) -> None:
        row = make_row(fault, False, f"Referenced state {fault.args['wanted']} does not exist")
        row["__id__"] = None
        row["__state_ran__"] = False
        self._stamp(row, datetime.now(), time.monotonic())
        self._keep(fault, row)
        self._hooks.after(fault, row)
