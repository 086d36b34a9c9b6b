"""Names of the functions by which a chain runs on a minion; they are those of Uyuni's module.

Every other module takes the names from here, and so does the name of the module's resume file.
"""

from __future__ import annotations

MODULE = "mgractionchains"
#: Runs the first chunk of a chain.
START = f"{MODULE}.start"
#: Writes the resume file; the last state of a chunk that ends at a boundary.
NEXT = f"{MODULE}.next"
#: Runs the next chunk of the chain that waits on the minion.
RESUME = f"{MODULE}.resume"
#: Gives chains up and removes the resume file.
CLEAN = f"{MODULE}.clean"
#: Returns the content of the resume file.
GET_PENDING = f"{MODULE}.get_pending_resume"

#: Text of the error with which `clean` fails while a job runs a chain.
BUSY = "a chain is running on this host"

#: Functions whose jobs run the actions of a chain.
RUN_ACTIONS = frozenset({START, RESUME})

#: Name of the resume file, in the folder `minion.d` of the agent's configuration.
RESUME_FILE = f"_{MODULE}.conf"
#: Suffix of the resume file while its chunk runs.
TAKEN = ".running"


def is_chain_call(fun: str) -> bool:
    """Return whether *fun* is a function of the module."""
    return fun.startswith(f"{MODULE}.")


def by_hand(fun: str, minion: str) -> str:
    """Return the command by which a person runs *fun* on *minion*."""
    return f"catena run {minion} {fun}"
