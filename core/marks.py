"""Marks of functions that are needed where the function itself is not imported.

The agent's daemon and the master never load a function's module. These sets repeat the function's
own `FunctionMark`; a test compares both.
"""

from __future__ import annotations

from catena.core import chain_calls

#: Functions that run one at a time on a minion (`FunctionMark.queued`).
QUEUED = frozenset(
    {
        *chain_calls.RUN_ACTIONS,
        *(
            f"state.{name}"
            for name in (
                "apply highstate sls sls_id single top high low template template_str test pkg "
                "request run_request"
            ).split()
        ),
    }
)
#: Functions that continue from their journal when they are called again after a crash
#: (`FunctionMark.resumable`). Any other job starts only once.
RESUMABLE = chain_calls.RUN_ACTIONS


def is_resumable(fun: str) -> bool:
    """Return whether function *fun* may be called again after its process died."""
    return fun in RESUMABLE
