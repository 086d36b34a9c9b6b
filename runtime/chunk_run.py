"""One chunk as a state run whose actions are journalled.

`begin` is durable before an action's first effect, and `end` before anybody is notified of it. The
action's kind decides what a crash between the two means (`reliability.md` 3.2).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, Collection, Dict, Optional, Tuple

from catena.core import failpoints
from catena.core.chain_calls import RESUME
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, PillarError
from catena.core.files import no_room
from catena.core.job import ActionKind, ActionManifest, Boundary
from catena.core.logs import logger
from catena.runtime.chain_record import ACTION, ActionState, HostChainState, JournaledAction
from catena.runtime.chain_store import Chain, PinnedFiles
from catena.runtime.host import BaseHost
from catena.runtime.results import json_ready, plain, state_ret
from catena.runtime.resume_file import ResumeFile
from catena.states.compiler import api
from catena.states.compiler.faults import StateArgumentsError
from catena.states.compiler.model import TAG_SEPARATOR, Low, Row

log = logger(__name__)

#: Id of the state that schedules the next chunk.
SCHEDULE_NEXT = "schedule_next_chunk"
REBOOT = "system.reboot"
#: Maximum number of attempts of an action interrupted by crashes.
ATTEMPTS: Dict[ActionKind, int] = {
    ActionKind.idempotent: 3,
    ActionKind.agent_upgrade: 3,
    ActionKind.reboot: 2,
    ActionKind.once: 1,
}
#: Maximum bytes of one action's result in the journal; the return has all of it.
RET_LIMIT = 1024 * 1024
_COMMENT_SHOWN = 2000
#: Maximum length of the reason for cancelling a reboot, in characters.
_WHY = 300

INTERRUPTED = (
    "Interrupted: the host or its agent stopped while this ran, and it may have happened in part, "
    "wholly or not at all. It is not started again automatically: check the host, then run "
    "`catena chain resolve {chain}` with --mark-done, --retry or --cancel."
)
TOO_OFTEN = "Given up: the host or its agent stopped in each of {attempts} attempts at this."


class ChunkHooks:
    """Journals the actions of a state run.

    Args:
        chain: open for writing.
        number: the running chunk.
        host: where it runs.
        cancelled: called before every state.
        transactional: whether the host's root is read-only and actions change a snapshot of it.
    """

    def __init__(
        self,
        chain: Chain,
        number: int,
        host: BaseHost,
        cancelled: Callable[[], bool],
        transactional: bool = False,
    ) -> None:
        self._chain = chain
        self._number = number
        self._host = host
        self._cancelled = cancelled
        #: Number of states in the chunk, for progress displays.
        self.total = 0
        self._actions = {action.state_id: action for action in chain.chunk(number).actions}
        self._transactional = transactional

    def stand_in(self, ids: Collection[str]) -> None:
        """Use the state that schedules the next chunk as the state of a reboot that has none.

        On a transactional system a reboot is an argument of that state.

        Args:
            ids: of the chunk's states.
        """
        for action in tuple(self._actions.values()):
            if action.kind is ActionKind.reboot and action.state_id not in ids:
                self._actions[SCHEDULE_NEXT] = action

    def cancelled(self) -> bool:
        """Return whether no further state may begin."""
        return self._cancelled() or self._stopped()

    def _stopped(self) -> bool:
        views = (self._chain.view.action(a.action_id) for a in self._actions.values())
        return any(view.state is ActionState.interrupted for view in views)

    def before(self, low: Low) -> Optional[Row]:
        """Return the recorded row of an action that must not run again; else journal its begin."""
        action = self._actions.get(low.id)
        if action is None:
            return None
        row = self._settled(action, low)
        if row is not None and low.id == action.state_id:
            return row
        if row is not None:
            # The reboot is proven or failed; unless it failed, the resume file is written again.
            return _row(low, False, str(row.get("comment"))) if row["result"] is False else None
        try:
            failpoints.hit("chain.begin.before")
            self._chain.record("begin", action=action.action_id)
        except OSError as error:
            if no_room(error):
                raise
            # Nothing has happened, and without a record nothing may happen.
            return _row(low, False, f"Not started: it cannot be recorded ({error}).")
        failpoints.hit("chain.begin.after")
        self._tell(action, "begin", {"attempt": self._chain.view.action(action.action_id).attempt})
        return None

    def perform(self, low: Low, work: Callable[[], Row]) -> Row:
        """Return the row of *work*; on a transactional system run an action in a snapshot.

        Boundaries run outside it, because they change the agent's own files and the resume file.
        """
        action = self._actions.get(low.id)
        outside = (None, ActionKind.reboot, ActionKind.agent_upgrade)
        if not self._transactional or (action and action.kind) in outside:
            return work()
        from catena.runtime import transaction

        try:
            with self._host.moving() as moved:

                def inside() -> Row:
                    moved()
                    return work()

                return transaction.perform(inside, self.cancelled)
        except (CommandExecutionError, OSError) as error:
            return _row(low, False, str(error))

    def after(self, low: Low, row: Row) -> None:
        """Journal an action's end, then report it."""
        action = self._actions.get(low.id)
        if action is None:
            step = {"key": low.key, "ret": plain(row), "run_num": row.get("__run_num__", 0)}
            self._host.progress("state", {**step, "total": self.total})
            return
        view = self._chain.view.action(action.action_id)
        if ACTION.is_final(view.state):
            # The reboot has happened; only its resume file was written again.
            return
        if view.state is not ActionState.begun:
            # The action never began, because its requisites were not met.
            self._tell(action, "end", {**_shown(row), "outcome": "skipped"})
            return
        key, row = _named(action, low, row)
        kept = state_ret(row, RET_LIMIT)
        armed = action.kind is ActionKind.reboot and self._host.armed and row.get("result")
        if armed and self._host.armed:
            delay = max(0, self._host.armed.at_minutes) * 60
            self._chain.record(
                "armed", True, action=action.action_id, key=key, ret=kept, delay_seconds=delay
            )
            failpoints.hit("chain.armed")
            self._tell(action, "end", {**_shown(row), "outcome": "armed"})
            return
        outcome = "failed" if row.get("result") is False else "done"
        self._end(action, key, kept, outcome)

    def _settled(self, action: ActionManifest, low: Low) -> Optional[Row]:
        """Return the recorded row of *action* after earlier attempts; None if it must run."""
        view = self._chain.view.action(action.action_id)
        if ACTION.is_final(view.state):
            return dict(view.ret or {})
        if view.state is ActionState.pending:
            return None
        key, named = _named(action, low, _row(low, False, ""))
        if action.kind is ActionKind.reboot and view.boot_id != self._host.boot_id():
            return self.prove_reboot(action, key, named["name"])
        if view.attempt < ATTEMPTS[action.kind]:
            return None
        if action.kind is ActionKind.once:
            text = INTERRUPTED.format(chain=self._chain.manifest.chain_id)
            return self._end(action, key, {**named, "comment": text}, "interrupted")
        text = TOO_OFTEN.format(attempts=view.attempt)
        return self._end(action, key, {**named, "comment": text}, "failed")

    def prove_reboot(self, action: ActionManifest, key: str, name: str) -> Row:
        """Record that a reboot begun in another boot has happened; return its row."""
        view = self._chain.view.action(action.action_id)
        row = dict(view.ret or {"name": name, "changes": {}, "__id__": action.state_id})
        row["result"] = True
        row["comment"] = f"Rebooted: the boot id is now {self._host.boot_id()}."
        return self._end(action, key, row, "done")

    def call_off(self, action: ActionManifest, why: str) -> Dict[str, Row]:
        """Turn an armed reboot into a failure; return {key: row}, or {} if none is armed."""
        view = self._chain.view.action(action.action_id)
        if view.state is not ActionState.armed:
            return {}
        row = {**(view.ret or {}), "result": False, "changes": {}, "comment": why}
        return {view.key: self._end(action, view.key, row, "failed")}

    def _end(self, action: ActionManifest, key: str, row: Row, outcome: str) -> Row:
        failpoints.hit("chain.end.before")
        self._chain.record("end", True, action=action.action_id, key=key, ret=row, outcome=outcome)
        failpoints.hit("chain.end.after")
        self._tell(action, "end", {**_shown(row), "outcome": outcome})
        return row

    def _tell(self, action: ActionManifest, event: str, more: Dict[str, Any]) -> None:
        data = {
            "chain_id": self._chain.manifest.chain_id,
            "epoch": self._chain.manifest.epoch,
            "chunk": self._number,
            "action_id": action.action_id,
            "state_id": action.state_id,
            "event": event,
        }
        self._host.progress("action", {**data, **more})


def _named(action: ActionManifest, low: Low, row: Row) -> Tuple[str, Row]:
    """Return the key and row of an action's result.

    They are the state's own, except for a reboot without a state, which gets the id that its state
    would have, for the master and for people.
    """
    if low.id == action.state_id:
        return low.key, row
    key = TAG_SEPARATOR.join((low.state, action.state_id, REBOOT, low.fun))
    return key, {**row, "__id__": action.state_id, "name": REBOOT}


def _shown(row: Row) -> Dict[str, Any]:
    return {
        "result": row.get("result"),
        "comment": str(row.get("comment", ""))[:_COMMENT_SHOWN],
        "changed": bool(row.get("changes")),
    }


def _row(low: Low, result: bool, comment: str) -> Row:
    return {
        "name": low.name,
        "changes": {},
        "result": result,
        "comment": comment,
        "__id__": low.id,
        "__sls__": low.sls,
    }


class ChunkRunner:
    """Runs chunks of one chain, one after the other.

    Args:
        chain: open for writing.
        context: of the job.
        host: where it runs.
        resume_file: of this host.
    """

    def __init__(
        self, chain: Chain, context: Context, host: BaseHost, resume_file: ResumeFile
    ) -> None:
        self._chain = chain
        self._context = context
        self._host = host
        self._resume_file = resume_file

    def run(self, number: int) -> Dict[str, Any]:
        """Run a chunk to its end, or return its results if it has ended before.

        Returns:
            Salt's dict of state results.

        Raises:
            CommandExecutionError: the chunk cannot be compiled; the chain has then failed.
            CatenaError: it could not begin (no pillar, a changed file); the chain continues at the
                next attempt.
        """
        chain = self._chain
        if number in chain.view.ended:
            return chain.results(number)
        chain.check_chunk(number)
        files = PinnedFiles(self._context.files, chain.files())
        context = self._context.with_(files=files)
        with suppress(PillarError):
            # Load the pillar here, where an unreachable master is not yet an error of the chunk.
            len(context.pillar)
        compiled = api.compile_sls(context, [chain.chunk(number).sls], "base")
        if chain.view.state is not HostChainState.running:
            chain.record("chunk", chunk=number, job=self._resuming())
        if compiled.errors:
            self._close(number, "failed", {})
            raise CommandExecutionError("\n".join(compiled.errors))
        transactional = context.grains.get("transactional") is True
        hooks = ChunkHooks(chain, number, self._host, self._host.cancelled, transactional)
        hooks.total = len(compiled.low)
        hooks.stand_in({low.id for low in compiled.low})
        self._host.chunk_open, self._host.armed = True, None
        try:
            rows = dict(api.run(context, compiled.low, hooks))
        except StateArgumentsError as error:
            self._close(number, "failed", {})
            raise CommandExecutionError(str(error)) from error
        finally:
            self._host.chunk_open = False
        return self._judge(number, rows, hooks)

    def _resuming(self) -> str:
        """Return the job that resumes the chain; "" for one that starts it."""
        job = self._context.job
        return job.jid if job and job.fun == RESUME else ""

    def _judge(self, number: int, rows: Dict[str, Row], hooks: ChunkHooks) -> Dict[str, Any]:
        """Decide on the outcome of the chunk, and record it."""
        views = self._views(number)
        for view in views.values():
            if view.ret is not None:
                # A cancelled run does not call `before` for all actions, so add rows from before a
                # crash.
                rows.setdefault(view.key, dict(view.ret))
        fault = self._fault(number, rows)
        boundary = self._chain.boundary_action(number)
        if fault and boundary:
            rows.update(hooks.call_off(boundary, f"The reboot was called off: {fault}."))
        results = json_ready(plain(rows))
        if any(view.state is ActionState.interrupted for view in views.values()):
            outcome = "interrupted"
        elif fault:
            outcome = "cancelled" if self._host.cancelled() else "failed"
        else:
            outcome = "waiting" if self._has_boundary(number) else "done"
        self._close(number, outcome, results)
        return dict(results)

    def _views(self, number: int) -> Dict[int, JournaledAction]:
        actions = self._chain.chunk(number).actions
        return {a.action_id: self._chain.view.action(a.action_id) for a in actions}

    def _fault(self, number: int, rows: Dict[str, Row]) -> str:
        """Return why the chain must not continue, or ""."""
        for row in rows.values():
            if row.get("result") is False:
                name, comment = row.get("__id__") or row.get("name"), str(row.get("comment", ""))
                why = comment.strip().partition("\n")[0].rstrip(".")[:_WHY]
                return f"{name} failed: {why}" if why else f"{name} failed"
        if self._host.cancelled():
            return "the job was cancelled"
        ran = {str(row.get("__id__")) for row in rows.values()}
        missing = [a for a in self._chain.chunk(number).actions if a.state_id not in ran]
        if missing:
            return f"{missing[0].state_id} is not in the chunk"
        if self._chain.chunk(number).boundary is not Boundary.none:
            point = self._resume_file.waiting()
            mine = self._chain.manifest.chain_id
            if point is None or (point.actionchain_id, point.chunk) != (mine, number + 1):
                return "no resume file was written for the next chunk"
        return ""

    def _has_boundary(self, number: int) -> bool:
        if self._chain.chunk(number).boundary is not Boundary.none:
            return True
        return any(v.state is ActionState.armed for v in self._views(number).values())

    def _close(self, number: int, outcome: str, results: Dict[str, Any]) -> None:
        self._chain.save_results(number, results)
        failpoints.hit("chain.chunk.results")
        self._chain.record("chunk_end", True, chunk=number, outcome=outcome)
        failpoints.hit("chain.chunk.ended")
        if outcome in ("waiting", "done"):
            self._resume_file.drop_taken()
        else:
            self._resume_file.clear()
