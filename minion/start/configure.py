"""Reading a minion's configuration: the file, the folders, the identity of this host."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping

from catena.core.config.folders import placed
from catena.core.config.minion import SALT_KEYS, MinionSettings
from catena.core.config.schema import Extras, load
from catena.core.errors import ConfigError
from catena.core.frozen import dataclass
from catena.minion.start import identity
from catena.minion.start.blob import StartData
from catena.renderers import config_files


@dataclass(frozen=True)
class Configured:
    """A configuration that was read."""

    settings: MinionSettings
    loaded: Extras


def read(config_dir: Path, overrides: Mapping[str, Any] = {}) -> Configured:
    """Return the settings in `<config_dir>/minion` and `minion.d/*.conf`.

    Args:
        config_dir: folder of the configuration.
        overrides: settings that win over the files (options of a command line).

    Raises:
        ConfigError: a file can't be read, or a setting is unknown, of the wrong type, or out of
            range.
    """
    data: Dict[str, Any] = config_files.read(config_dir / "minion")
    data.update(overrides)
    try:
        settings, loaded = load(MinionSettings, data, SALT_KEYS)
    except ConfigError as error:
        raise config_files.explained(config_dir / "minion", error) from None
    return Configured(placed(settings, data, config_dir, "minion"), loaded)


def start_of(configured: Configured, config_dir: Path) -> StartData:
    """Return the start record without grains and chains.

    Raises:
        BadNameError: this host's name or machine id does not follow its grammar.
    """
    settings = configured.settings
    return StartData(
        settings=settings,
        id=identity.minion_id(settings),
        machine_id=identity.machine_id(settings),
        conf_dir=str(config_dir.resolve()),
        module_options=dict(configured.loaded.module_options),
    )
