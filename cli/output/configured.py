"""The configured style of state runs, without a YAML parser if it is not configured."""

from __future__ import annotations

from pathlib import Path

from catena.cli.output.style import FULL, OUTPUTS, StateStyle
from catena.core.errors import ConfigError
from catena.core.suggest import unknown

_SETTINGS = ("state_output", "state_verbose")


def of_states(config_dir: Path, which: str) -> StateStyle:
    """Return the style according to `state_output` and `state_verbose`.

    Args:
        config_dir: folder of the configuration.
        which: master or minion.

    Raises:
        ConfigError: the file cannot be read, or a value of the two is unknown to Salt.
    """
    path = config_dir / which
    if not _mentioned(path):
        return FULL
    from catena.client.settings import read

    data = read(path)
    output, verbose = data.get("state_output", FULL.output), data.get("state_verbose", True)
    if output not in OUTPUTS:
        raise ConfigError(f"{path}: state_output: {unknown('value', str(output), OUTPUTS)}")
    if not isinstance(verbose, bool):
        raise ConfigError(f"{path}: state_verbose: expected true or false, got {verbose!r}")
    return StateStyle(output, verbose)


def _mentioned(path: Path) -> bool:
    """Return whether a configuration contains one of the settings; False if it cannot be read.

    The command itself reports an error in a file that it needs.
    """
    files = [path, *path.with_name(f"{path.name}.d").glob("*.conf")]
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if any(name in text for name in _SETTINGS):
            return True
    return False
