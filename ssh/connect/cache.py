"""The cache folder of this user for data about hosts and for compiled files."""

from __future__ import annotations

from pathlib import Path

from catena.core.config.master import MasterSettings
from catena.core.errors import ConfigError
from catena.core.files import private_folder


def cache_of(settings: MasterSettings) -> Path:
    """Return the private cache folder of this user for data about hosts and compilations.

    Raises:
        ConfigError: the folder can't be created.
    """
    folder = Path(settings.cache_dir)
    try:
        return private_folder(private_folder(folder) / "ssh")
    except OSError as error:
        raise ConfigError(
            f"{folder}: {error.strerror}; this user must be able to write to cache_dir",
            "cache_dir",
        ) from None
