"""Execution functions that need the runtime: mgractionchains, cp, saltutil, keys, pillar."""

from __future__ import annotations

from typing import Dict

#: Name before the dot -> where its functions are.
INDEX: Dict[str, str] = {
    "agent": "catena.runtime.functions.agent",
    "cp": "catena.runtime.functions.cp",
    "grains": "catena.runtime.functions.grains",
    "key": "catena.runtime.functions.key",
    "mgractionchains": "catena.runtime.functions.mgractionchains",
    "mine": "catena.runtime.functions.mine",
    "pillar": "catena.runtime.functions.pillar",
    "saltutil": "catena.runtime.functions.saltutil",
}
