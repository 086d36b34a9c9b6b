"""The state.* execution functions."""

from __future__ import annotations

from typing import Dict

#: Execution modules of this package by the part of the name before the dot.
INDEX: Dict[str, str] = {"state": "catena.states.functions.state"}
