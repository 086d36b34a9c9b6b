"""The progress of a watched job, derived from the items of its stream; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Set

#: Delivery states after which a minion sends nothing more.
ENDED = frozenset({"done", "expired", "cancelled", "lost", "rejected"})
#: Delivery state of a job that is not sent until the work it belongs to may go on.
PAUSED = "paused"
#: Delivery states in which the minion does not have the job yet.
UNREACHED = frozenset({"new", "held", "queued", "paused", "sent"})


class JobFollower:
    """Keeps the delivery state and the return of each minion while a job runs.

    Args:
        wait_for_absent: whether to wait for minions that are not connected (they get the job
            when they connect) or to count them as not reached.
    """

    def __init__(self, wait_for_absent: bool = False) -> None:
        self._wait_for_absent = wait_for_absent
        self.jid = ""
        self.states: Dict[str, str] = {}
        self.details: Dict[str, str] = {}
        self.returns: Dict[str, Mapping[str, Any]] = {}
        self.missing: List[str] = []
        self._away: Set[str] = set()

    def feed(self, item: Mapping[str, Any]) -> None:
        """Process one item of a job.run or job.watch stream."""
        kind = item.get("type")
        if kind == "new":
            self.jid = item["jid"]
            self.missing = list(item.get("missing", ()))
            for minion in item["minions"]:
                self.states.setdefault(minion, "new")
        elif kind == "delivery":
            self.states[item["minion"]] = item["state"]
            self.details[item["minion"]] = item.get("detail") or ""
        elif kind == "presence":
            (self._away.discard if item["up"] else self._away.add)(item["minion"])
        elif kind == "return":
            self.returns[item["minion"]] = item["ret"]
            self.states[item["minion"]] = "done"

    @property
    def finished(self) -> bool:
        """Return whether there is nothing left to wait for."""
        return bool(self.jid) and all(
            state in ENDED or (not self._wait_for_absent and self._is_unreached(minion))
            for minion, state in self.states.items()
        )

    def _is_unreached(self, minion: str) -> bool:
        """Return whether a minion lacks the job and is disconnected or its delivery is paused.

        A minion that has the job and disconnected (it may be rebooting) is not unreached.
        """
        state = self.states[minion]
        return state == PAUSED or (minion in self._away and state in UNREACHED)

    def failed(self) -> Dict[str, int]:
        """Return the minions whose return is a failure, sorted, with their exit codes."""
        return {
            minion: ret["retcode"]
            for minion, ret in sorted(self.returns.items())
            if not ret["success"] or ret["retcode"]
        }

    def open(self) -> Dict[str, str]:
        """Return the minions that have not returned, with a description of their state."""
        return {
            minion: self._known(minion)
            for minion in sorted(self.states)
            if minion not in self.returns
        }

    def _known(self, minion: str) -> str:
        if self.states[minion] == PAUSED:
            return f"not sent: {self.details.get(minion) or PAUSED}"
        if self._is_unreached(minion):
            return "not connected; it gets the job when it connects, until the job expires"
        state, detail = self.states[minion], self.details.get(minion)
        known = state if state in ENDED else f"no answer yet, {state}"
        return f"{known}: {detail}" if detail else known

    def exit_code(self) -> int:
        """Return the command's exit code (design §4)."""
        if self.failed():
            return 1
        waiting = self.open()
        if {self.states[minion] for minion in waiting} & (ENDED - {"done"}):
            return 1
        if any(self._is_unreached(minion) for minion in waiting):
            return 3
        return 75 if waiting else 0
