"""Marks of functions that must be known where the function itself is not imported.

The agent's daemon and the master decide by them and never load a function's module. They repeat
what the function's own `FunctionMark` says; a test compares both.
"""

from __future__ import annotations

from catena.core import chain_calls

#: Functions that run one at a time on a minion (`FunctionMark.queued`).
QUEUED = frozenset(
    {
        chain_calls.START,
        chain_calls.RESUME,
        *(
            f"state.{name}"
            for name in (
                "apply highstate sls sls_id single top high low template template_str test pkg "
                "request run_request"
            ).split()
        ),
    }
)
#: Functions that go on at what their journal says when they are called again after a crash
#: (`FunctionMark.resumable`). Any other job begins once.
RESUMABLE = frozenset({chain_calls.START, chain_calls.RESUME})


def is_resumable(fun: str) -> bool:
    """Return whether function *fun* may be called again after its process died."""
    return fun in RESUMABLE
