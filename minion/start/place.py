"""The runtime's view of where this agent lives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

from catena.minion.start.blob import Start
from catena.runtime.grains.collect import collect
from catena.runtime.host import Place, grain_sources


def place_of(start: Start) -> Place:
    """Return the place that *start* describes."""
    return Place(
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


def collect_grains(start: Start) -> Dict[str, Any]:
    """Return this host's grains, collected now."""
    return collect(grain_sources(place_of(start)))
