"""Reads the daemons' settings for commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings
    from catena.core.config.schema import Extras


def read(path: Path) -> Mapping[str, Any]:
    """Return the merged configuration of *path* and its .d folder; {} when neither exists."""
    if not path.exists() and not path.with_name(f"{path.name}.d").exists():
        return {}
    # Imported here: PyYAML takes a tenth of a command's time, and a host may have no file.
    from catena.renderers.config_files import read as read_files

    return read_files(path)


def master_settings(config_dir: str) -> tuple[MasterSettings, Extras]:
    """Return the master's settings.

    Raises:
        ConfigError: they can't be used; the message names the setting.
    """
    from catena.core.config.folders import placed
    from catena.core.config.master import SALT_KEYS, MasterSettings
    from catena.core.config.schema import load
    from catena.core.errors import ConfigError

    path = Path(config_dir) / "master"
    data = read(path)
    try:
        settings, loaded = load(MasterSettings, data, SALT_KEYS)
    except ConfigError as error:
        from catena.renderers.config_files import explained

        raise explained(path, error) from None
    return placed(settings, data, Path(config_dir), "master"), loaded
