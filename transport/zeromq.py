"""ZeroMQ's Python binding, imported without what only unused parts of it need.

pyzmq imports `pickle`, `random` and `platform` for functions that nothing here calls. They are a
twentieth of an idle agent's memory. Whoever does call such a function gets the real module.
"""

from __future__ import annotations

import sys

from catena.core.import_stubs import StandIn, standing_in


def _implementation() -> str:
    """Return what `platform.python_implementation` returns, as far as pyzmq asks."""
    return "PyPy" if sys.implementation.name == "pypy" else "CPython"


with standing_in(
    StandIn("platform", python_implementation=_implementation),
    StandIn("random"),
    # A default argument's value when pyzmq is imported; every Python since 3.8 reads it.
    StandIn("pickle", DEFAULT_PROTOCOL=4),
):
    import zmq

__all__ = ["zmq"]
