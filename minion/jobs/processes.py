"""Processes of jobs, under the name that the agent's room knows (see `runtime.processes`)."""

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
