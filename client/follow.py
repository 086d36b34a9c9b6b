"""What a watched job has come to, decided from the items of its stream; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

#: Delivery states after which nothing more comes from a minion.
ENDED = frozenset({"done", "expired", "cancelled", "lost", "rejected"})
#: Delivery states in which the minion has the job or is about to.
REACHED = frozenset({"sent", "received", "running"})


class JobFollower:
    """Keeps per minion its delivery state and return while a job runs.

    Args:
        wait_for_absent: whether a minion that is not connected is waited for (it gets the job
            when it connects) or counted as not reached.
    """

    def __init__(self, wait_for_absent: bool = False) -> None:
        self._wait_for_absent = wait_for_absent
        self.jid = ""
        self.states: Dict[str, str] = {}
        self.details: Dict[str, str] = {}
        self.returns: Dict[str, Mapping[str, Any]] = {}
        self.missing: List[str] = []

    def feed(self, item: Mapping[str, Any]) -> None:
        """Take one item of a job.run or job.watch stream."""
        kind = item.get("type")
        if kind == "new":
            self.jid = item["jid"]
            self.missing = list(item.get("missing", ()))
            for minion in item["minions"]:
                self.states.setdefault(minion, "new")
        elif kind == "delivery":
            self.states[item["minion"]] = item["state"]
            self.details[item["minion"]] = item.get("detail") or ""
        elif kind == "return":
            self.returns[item["minion"]] = item["ret"]
            self.states[item["minion"]] = "done"

    @property
    def finished(self) -> bool:
        """Whether nothing that is worth waiting for can come."""
        idle = ENDED if self._wait_for_absent else ENDED | {"queued"}
        return bool(self.jid) and all(state in idle for state in self.states.values())

    def open(self) -> Dict[str, str]:
        """Return the minions that have not returned, with what is known of each."""
        return {
            minion: self.details.get(minion) or state
            for minion, state in sorted(self.states.items())
            if minion not in self.returns
        }

    def exit_code(self) -> int:
        """Return the command's exit code (design §4)."""
        if any(not ret["success"] or ret["retcode"] for ret in self.returns.values()):
            return 1
        open_states = {self.states[minion] for minion in self.open()}
        if open_states & {"cancelled", "lost", "rejected", "expired"}:
            return 1
        if "queued" in open_states:
            return 3
        return 75 if open_states else 0
