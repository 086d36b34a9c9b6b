"""Execution modules that need the runtime: agent, cp, grains, key, mine, pillar and others."""

from __future__ import annotations

from typing import Dict

#: Name before the dot -> Python module with the functions.
INDEX: Dict[str, str] = {
    "agent": "catena.runtime.functions.agent",
    "cp": "catena.runtime.functions.cp",
    "grains": "catena.runtime.functions.grains",
    "key": "catena.runtime.functions.key",
    "mgractionchains": "catena.runtime.functions.mgractionchains",
    "mine": "catena.runtime.functions.mine",
    "pillar": "catena.runtime.functions.pillar",
    "publish": "catena.runtime.functions.publish",
    "saltutil": "catena.runtime.functions.saltutil",
}
