"""The agent's folders and settings in the form that the runtime uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

from catena.minion.start.blob import StartData
from catena.runtime.grains.collect import collect
from catena.runtime.host import AgentHome, grain_sources


def place_of(start: StartData) -> AgentHome:
    """Return the home of the agent that *start* describes."""
    return AgentHome(
        settings=start.settings,
        id=start.id,
        machine_id=start.machine_id,
        conf_dir=Path(start.conf_dir),
        cache_dir=start.cache_dir,
        pki_dir=Path(start.settings.pki_dir),
        grains=start.grains or None,
        session=start.session,
        module_options=start.module_options,
    )


def collect_grains(start: StartData) -> Dict[str, Any]:
    """Return this host's grains, collected now."""
    return collect(grain_sources(place_of(start)))
