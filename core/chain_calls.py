"""The functions by which a chain runs on a minion, under the names of Uyuni's module."""

from __future__ import annotations

MODULE = "mgractionchains"
START = "mgractionchains.start"
NEXT = "mgractionchains.next"
RESUME = "mgractionchains.resume"
CLEAN = "mgractionchains.clean"
GET_PENDING = "mgractionchains.get_pending_resume"


def is_chain_call(fun: str) -> bool:
    """Return whether *fun* is one of them."""
    return fun.startswith(f"{MODULE}.")
