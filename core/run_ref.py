"""The name of one run of a chain on a host, as used between master and minion."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from catena.core.frozen import dataclass

#: A minion's answer about a run for which it has neither a journal nor a resume file.
UNKNOWN = "unknown"
#: Greater than every chain number and epoch in a store.
_LIMIT = 2**63


@dataclass(frozen=True)
class RunRef:
    """One run of a chain."""

    chain_id: int
    #: Identifies the run; increases with every retry and cancellation. None: any run of the chain.
    epoch: Optional[int] = None

    def covers(self, chain_id: int, epoch: int) -> bool:
        """Return whether an order to forget this run includes the run of *epoch*.

        It includes older runs of the same chain, but never a newer one.
        """
        return chain_id == self.chain_id and (self.epoch is None or epoch <= self.epoch)

    def names(self, chain_id: int, epoch: int) -> bool:
        """Return whether this is the run of *epoch*."""
        return chain_id == self.chain_id and self.epoch in (None, epoch)

    def __str__(self) -> str:
        return f"chain {self.chain_id}" + (f", run {self.epoch}" if self.epoch else "")


def named(data: Mapping[str, Any]) -> Optional[RunRef]:
    """Return the run that untrusted *data* names, or None if it names none.

    Args:
        data: with `actionchain_id` and `epoch`, as in a resume file or a job's arguments.
    """
    chain_id, epoch = data.get("actionchain_id"), data.get("epoch")
    # In Python bool is a subclass of int.
    if type(chain_id) is not int or type(epoch) is not int:
        return None
    return RunRef(chain_id, epoch) if 0 < chain_id < _LIMIT and 0 < epoch < _LIMIT else None


def not_resumed(run: RunRef, state: str, why: str) -> Dict[str, Any]:
    """Return the result of a resume that ran nothing.

    Args:
        run: the run to resume.
        state: the run's state on the minion (`runtime.chain_record.HostChainState`), or UNKNOWN.
        why: the reason, for people.
    """
    found: Dict[str, Any] = {"not_resumed": why, "actionchain_id": run.chain_id, "state": state}
    return {**found, "epoch": run.epoch} if run.epoch else found


def not_here(run: RunRef) -> Dict[str, Any]:
    """Return the result of a resume of a run that this minion does not know."""
    return not_resumed(run, UNKNOWN, f"{run} is not known on this minion")
