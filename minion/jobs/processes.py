"""Re-export of `runtime.processes` for the packages of the agent."""

from catena.runtime.processes import (
    ProcessRef,
    descendants,
    is_alive,
    kill_tree,
    open_pidfd,
    reference,
    scope_processes,
    send_signal,
    signal_tree,
    start_ticks,
)

__all__ = [
    "ProcessRef",
    "descendants",
    "is_alive",
    "kill_tree",
    "open_pidfd",
    "reference",
    "scope_processes",
    "send_signal",
    "signal_tree",
    "start_ticks",
]
