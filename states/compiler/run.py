"""A run: every low state in its order, judged, called, and its row kept."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.states.compiler.call import (
    Attempt,
    Callees,
    Caller,
    argument_faults,
    listener,
    make_row,
)
from catena.states.compiler.faults import StateArgumentsError
from catena.states.compiler.model import Low, Row, RunHooks
from catena.states.compiler.requisites import Plan, link
from catena.states.compiler.verdicts import Decision, Judge, Verdict

_COMMENTS = {
    Decision.no_changes: "State was not run because none of the onchanges reqs changed",
    Decision.no_failure: "State was not run because onfail req did not change",
}
_NO_PREREQ_CHANGES = "No changes detected"
#: Comment of a replayed row whose record says nothing.
_NOT_RECORDED = "Nothing is recorded of what it came to"
_TRIAL = Attempt(trial=True)


class ProgressHooks:
    """Tells the host of every row; journals nothing and never stops."""

    def __init__(self, context: Context, total: int) -> None:
        self._host = context.host
        self._total = total

    def before(self, low: Low) -> Optional[Row]:
        """Let every state run."""
        return None

    def after(self, low: Low, row: Row) -> None:
        """Report *row*."""
        step = {"key": low.key, "ret": row, "run_num": row["__run_num__"], "total": self._total}
        self._host.progress("state", step)

    def cancelled(self) -> bool:
        """Never stop."""
        return False


class Run:
    """One state run.

    Args:
        context: what the states get; `reload_*` replaces it as the run goes on.
        lows: in the order in which they run.
        hooks: who stands beside.

    Raises:
        StateArgumentsError: from `rows`, before anything ran.
    """

    def __init__(self, context: Context, lows: Sequence[Low], hooks: RunHooks) -> None:
        self._context = context
        self._lows = lows
        self._hooks = hooks
        self._plan: Plan = link(lows)
        self._rows: List[Optional[Row]] = [None] * len(lows)
        self._trials: Dict[int, Row] = {}
        self._judge = Judge(self._plan, self._rows)
        self._callees = Callees(context.states)
        self._caller = Caller(self._callees, hooks.cancelled)
        self._result: Dict[str, Row] = {}
        self._number = 0
        self._failhard = bool(context.opts.get("failhard"))

    def rows(self) -> Dict[str, Row]:
        """Run everything; return the rows by key, in the order in which they came about."""
        faults = list(argument_faults(self._callees, self._lows))
        if faults:
            raise StateArgumentsError("\n".join(faults))
        for position, low in enumerate(self._lows):
            if self._hooks.cancelled():
                return self._result
            row = self._one(position, low)
            self._rows[position] = row
            if row["result"] is False and (self._failhard or low.keywords.get("failhard")):
                break
        self._listen()
        return self._result

    def _one(self, position: int, low: Low) -> Row:
        started, clock = datetime.now(), time.monotonic()
        row = self._settled(position, low)
        if row is not None:
            row["__state_ran__"] = False
        else:
            recorded = self._hooks.before(low)
            if recorded is not None:
                return self._keep(low, {**make_row(low, False, _NOT_RECORDED), **recorded})
            row = self._called(position, low)
        self._stamp(row, started, clock)
        self._keep(low, row)
        self._hooks.after(low, row)
        if low.keywords:
            self._afterwards(low, row)
        return row

    def _stamp(self, row: Row, started: datetime, clock: float) -> None:
        row["start_time"] = started.time().isoformat("microseconds")
        row["duration"] = round((time.monotonic() - clock) * 1000, 3)
        row["__run_num__"] = self._number

    def _keep(self, low: Low, row: Row) -> Row:
        row["__run_num__"] = self._number
        self._number += 1
        self._result[low.key] = row
        return row

    def _settled(self, position: int, low: Low) -> Optional[Row]:
        """Return the row of a state that its requisites keep from running, else None."""
        verdict = self._judge.verdict(position)
        if verdict.decision is Decision.failed:
            return self._requisite_failed(low, verdict.failed)
        if verdict.decision is not Decision.run:
            return make_row(low, True, _COMMENTS[verdict.decision])
        links = self._plan.links[position]
        if "prereq" in links.needs:
            row = self._prereq(position, low)
            if row is not None:
                return row
        for owner in links.prereq_owners:
            before = self._rows[owner]
            if before is not None and before["result"] is False:
                return self._held_back(position, low, owner)
        return None

    def _requisite_failed(self, low: Low, failed: Sequence[int]) -> Row:
        labels = ", ".join(dict.fromkeys(self._lows[one].label for one in failed))
        return make_row(low, False, f"One or more requisite failed: {labels}")

    def _held_back(self, position: int, low: Low, owner: int) -> Row:
        """Return the row of a prereq's target when the state before it failed (behaviour 6)."""
        trial = self._trial(position)
        comment = f"{trial['comment']}\nNot run: {self._lows[owner].label}, a prereq of it, failed"
        return make_row(low, trial["result"], comment)

    def _prereq(self, position: int, low: Low) -> Optional[Row]:
        """Return the row of a state whose prereq targets would not change, or can't run."""
        members = [
            member
            for group in self._plan.links[position].needs["prereq"]
            for member in group.members
        ]
        trials = [(member, self._trial(member)) for member in dict.fromkeys(members)]
        failed = [member for member, trial in trials if trial["result"] is False]
        if failed:
            return self._requisite_failed(low, failed)
        if any(trial["result"] is None or trial["changes"] for _, trial in trials):
            return None
        return make_row(low, True, _NO_PREREQ_CHANGES)

    def _trial(self, position: int) -> Row:
        """Return what a state would do if it ran now."""
        if position in self._trials:
            return self._trials[position]
        low = self._lows[position]
        verdict = self._judge.verdict(position)
        row: Optional[Row] = None
        if verdict.decision is Decision.failed:
            row = self._requisite_failed(low, verdict.failed)
        elif verdict.decision is not Decision.run:
            row = make_row(low, True, _COMMENTS[verdict.decision])
        elif "prereq" in self._plan.links[position].needs:
            row = self._prereq(position, low)
        if row is None:
            row = self._watched(self._context.with_(test=True), low, verdict, _TRIAL)
        self._trials[position] = row
        return row

    def _called(self, position: int, low: Low) -> Row:
        links = self._plan.links[position]
        if not links.needs:
            return self._caller.row(self._context, low)
        return self._watched(self._context, low, self._judge.verdict(position), Attempt())

    def _watched(self, context: Context, low: Low, verdict: Verdict, attempt: Attempt) -> Row:
        """Call a state, and its mod_watch where something watched changed but it did nothing."""
        row = self._caller.row(context, low, attempt)
        if not verdict.changed or row["changes"] or row.get("skip_watch"):
            return row
        if self._callees.get(low.state, "mod_watch") is None:
            return row
        sources = [self._lows[one].as_dict() for one in verdict.changed]
        watch = replace(low, fun="mod_watch")
        extra = {"sfun": low.fun, "__reqs__": {"watch": sources}}
        return self._caller.row(context, watch, Attempt(extra, attempt.trial))

    def _afterwards(self, low: Low, row: Row) -> None:
        keywords = low.keywords
        if keywords.get("fire_event"):
            self._fire(low, row)
        if keywords.get("reload_modules"):
            self._context.forget_plugins()
            self._callees.forget()
        if keywords.get("reload_grains"):
            self._context = self._context.with_(grains=self._context.host.collect_grains())
        if keywords.get("reload_pillar"):
            self._context = self._context.with_(pillar=self._context.host.compile_pillar())

    def _fire(self, low: Low, row: Row) -> None:
        wanted = low.keywords["fire_event"]
        jid = self._context.job.jid if self._context.job else ""
        last = wanted if isinstance(wanted, str) else low.name
        minion = str(self._context.opts.get("id", ""))
        tag = "/".join(("salt", "state_result", jid, minion, last))
        self._context.host.fire(tag, {"ret": row})

    def _listen(self) -> None:
        listening = [position for position, links in enumerate(self._plan.links) if links.listens]
        listening.sort(key=lambda position: self._lows[position].order)
        rows = _RowsByName(self._lows, self._rows) if listening else None
        for position in listening:
            if rows is None or self._hooks.cancelled():
                return
            low = self._lows[position]
            fires = False
            for module, target in dict.fromkeys(self._plan.links[position].listens):
                sources = rows.find(module, target)
                if sources is None:
                    self._listen_error(low, module, target)
                fires = fires or any(row["changes"] for row in sources or ())
            if fires:
                self._heard(low)

    def _heard(self, low: Low) -> None:
        call = listener(low)
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

    def _listen_error(self, low: Low, module: str, target: str) -> None:
        shown = f"{module}: {target}" if module else target
        fault = Low(
            "Listen_Error",
            "Listen_Error",
            f"listen_{target}",
            f"listen_{module}",
            None,
            low.env,
            low.order,
            line=low.line,
        )
        row = make_row(fault, False, f"Referenced state {shown} does not exist")
        row["__id__"] = None
        row["__state_ran__"] = False
        self._stamp(row, datetime.now(), time.monotonic())
        self._keep(fault, row)
        self._hooks.after(fault, row)


class _RowsByName:
    """The rows that listeners look at, by module and by id or name.

    Globs and `sls` are no targets of listen, as in Salt (behaviour 58).
    """

    def __init__(self, lows: Sequence[Low], rows: Sequence[Optional[Row]]) -> None:
        self._found: Dict[Tuple[str, str], List[Row]] = {}
        for low, row in zip(lows, rows):
            for module in (low.state, ""):
                for name in {low.id, low.name}:
                    listed = self._found.setdefault((module, name), [])
                    if row is not None:
                        listed.append(row)

    def find(self, module: str, target: str) -> Optional[List[Mapping[str, Any]]]:
        """Return the rows of what `module: target` means; None when there is no such state."""
        found = self._found.get(("" if module == "id" else module, target))
        return None if found is None else list(found)
