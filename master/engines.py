"""The list of a master's engines."""

from __future__ import annotations

from catena.master.chains.engine import Chains
from catena.master.engine_parts import EngineParts
from catena.master.executions.engine import Engine

EngineClass = type[Engine[EngineParts]]

#: Engine classes, in the order in which engines are created, opened and notified.
ENGINES: tuple[EngineClass, ...] = (Chains,)
