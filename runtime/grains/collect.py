"""All grains of this host: collected, custom, from the static file, configured.

Order of precedence: collected < custom `_grains` < the static file `<conf_dir>/grains` < config.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping

from catena.core.files import read_limited
from catena.core.frozen import dataclass, field
from catena.core.logs import logger
from catena.runtime.grains import facts, net, release
from catena.runtime.grains.custom import custom_grains

log = logger(__name__)

STATIC_LIMIT = 4 * 1024 * 1024


@dataclass(frozen=True)
class GrainSources:
    """Sources of a host's grains."""

    id: str
    machine_id: str
    #: YAML; may be missing.
    static_file: Path
    #: `grains:` of the configuration, with the highest precedence.
    configured: Mapping[str, Any] = field(default_factory=dict)
    #: Folder of custom _grains; may be missing.
    custom: Path = Path("/nonexistent")
    #: `__opts__` of custom grains, in addition to id and grains.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Root of the examined file system; for tests and images.
    root: Path = Path("/")


def collect(sources: GrainSources) -> Dict[str, Any]:
    """Collect all grains of a host now, and return them under Salt's names."""
    grains: Dict[str, Any] = {"id": sources.id}
    for part in (release.collect, facts.collect, net.collect):
        grains.update(part(sources.root))
    if sources.machine_id:
        grains["machine_id"] = sources.machine_id
    grains["server_id"] = facts.server_id(sources.id)
    static = static_grains(sources.static_file)
    early = {**grains, **static, **sources.configured}
    grains.update(custom_grains(sources.custom, early, {**sources.options, "id": sources.id}))
    grains.update(static)
    grains.update(sources.configured)
    return grains


def static_grains(path: Path) -> Dict[str, Any]:
    """Return the static grains; {} if the file is missing, empty or invalid (which is logged)."""
    try:
        text = read_limited(path, STATIC_LIMIT)
    except FileNotFoundError:
        return {}
    if not text.strip():
        return {}
    from catena.renderers import yaml

    try:
        found = yaml.load(text.decode("utf-8"), str(path))
    except Exception as error:  # noqa: BLE001 - a person's file; the host must come up without it
        log.error("cannot read static grains: %s", error)
        return {}
    if not isinstance(found, dict):
        log.error("static grains %s: not a mapping", path)
        return {}
    return dict(found)
