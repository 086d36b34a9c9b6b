"""A session on the master's own host, for pillar, reactor files and calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Mapping, Optional

from catena.core.config.master import MasterSettings
from catena.core.config.minion import MinionSettings
from catena.fileserver.index import RootOptions
from catena.fileserver.roots import RootsClient
from catena.runtime.session import AgentHome, JobSession, local_session


def master_session(
    settings: MasterSettings,
    minion: str,
    grains: Optional[Mapping[str, Any]],
    roots: Mapping[str, List[str]],
) -> JobSession:
    """Return a session whose functions run here, for *minion* and with files from *roots*.

    Args:
        settings: the master's: renderers, Jinja's options, nodegroups, key ring.
        minion: id that templates see.
        grains: grains that templates see; None: those of this host.
        roots: folders by environment, of files or of pillar.
    """
    place = AgentHome(
        settings=MinionSettings(
            id=minion,
            file_client="local",
            file_roots=dict(settings.file_roots),
            pillar_roots=dict(settings.pillar_roots),
            nodegroups=dict(settings.nodegroups),
            gpg_keydir=settings.gpg_keydir,
            renderer_whitelist=settings.renderer_whitelist,
            renderer_blacklist=settings.renderer_blacklist,
            jinja_env=settings.jinja_env,
            jinja_sls_env=settings.jinja_sls_env,
            jinja_trim_blocks=settings.jinja_trim_blocks,
            jinja_lstrip_blocks=settings.jinja_lstrip_blocks,
        ),
        id=minion,
        machine_id="",
        conf_dir=Path(settings.cache_dir) / "worker",
        cache_dir=Path(settings.cache_dir) / "worker",
        pki_dir=Path(settings.cache_dir) / "worker",
        grains=grains,
    )
    options = RootOptions.of(
        settings.fileserver_followsymlinks, settings.file_ignore_glob, settings.file_ignore_regex
    )
    return local_session(place, RootsClient(roots, options), lambda *_: ({}, ()))
