"""What a watched job has come to, decided from the items of its stream; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Set

#: Delivery states after which nothing more comes from a minion.
ENDED = frozenset({"done", "expired", "cancelled", "lost", "rejected"})
#: Delivery states in which the minion does not have the job yet.
UNREACHED = frozenset({"new", "held", "queued", "sent"})


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
        self._away: Set[str] = set()

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
        elif kind == "presence":
            (self._away.discard if item["up"] else self._away.add)(item["minion"])
        elif kind == "return":
            self.returns[item["minion"]] = item["ret"]
            self.states[item["minion"]] = "done"

    @property
    def finished(self) -> bool:
        """Whether nothing that is worth waiting for can come."""
        return bool(self.jid) and all(
            state in ENDED or (not self._wait_for_absent and self._is_absent(minion))
            for minion, state in self.states.items()
        )

    def _is_absent(self, minion: str) -> bool:
        """Whether a minion is not connected and does not have the job.

        One that has it and went away (it may be rebooting) is waited for.
        """
        return minion in self._away and self.states[minion] in UNREACHED

    def failed(self) -> Dict[str, int]:
        """Return the minions whose answer is a failure, sorted, each with its exit code."""
        return {
            minion: ret["retcode"]
            for minion, ret in sorted(self.returns.items())
            if not ret["success"] or ret["retcode"]
        }

    def open(self) -> Dict[str, str]:
        """Return the minions that have not returned, with what is known of each."""
        return {
            minion: self._known(minion)
            for minion in sorted(self.states)
            if minion not in self.returns
        }

    def _known(self, minion: str) -> str:
        if self._is_absent(minion):
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
        if any(self._is_absent(minion) for minion in waiting):
            return 3
        return 75 if waiting else 0
