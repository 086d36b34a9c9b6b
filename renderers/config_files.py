"""Reading of configuration: a main file and the *.conf files of its .d folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Union

from catena.core.errors import ConfigError, LimitError, RenderError
from catena.core.files import read_limited
from catena.renderers import yaml
from catena.renderers.source import LineMap, Rendered, decoded

SIZE_LIMIT = 4 * 1024 * 1024


def read(path: Union[str, os.PathLike[str]]) -> Dict[str, Any]:
    """Return the configuration in *path* and `<path>.d/*.conf`, merged.

    Files of the folder come sorted by name, after the main file; a key of a later file replaces
    that of an earlier one, mappings are joined. Files whose names begin with `_` are state, never
    configuration (design §2). A missing main file or folder counts as empty.

    Raises:
        ConfigError: a file is not YAML, not a mapping, or unreadable; names file and line.
    """
    main = Path(path)
    merged: Dict[str, Any] = {}
    for file in files(main):
        merged = _join(merged, _read_one(file))
    return merged


def files(main: Path) -> List[Path]:
    """Return the files that `read` reads, in its order."""
    folder = main.with_name(main.name + ".d")
    found = sorted(folder.glob("*.conf")) if folder.is_dir() else []
    # Skip hidden files: editors and unfinished writes leave them.
    extra = [file for file in found if not file.name.startswith(("_", "."))]
    return [main, *extra] if main.exists() else extra


def explained(main: Path, error: ConfigError) -> ConfigError:
    """Return *error* of a setting with the file and line in which it was written.

    Args:
        main: as for `read`, which read the setting.
        error: of a setting; `key` names it.
    """
    # The last file that has the setting wins.
    for file in reversed(files(main)):
        rendered = _rendered(file)
        if isinstance(rendered.data, dict) and error.key in rendered.data:
            return ConfigError(f"{rendered.place(error.key)}: {error}", error.key)
    return ConfigError(f"{main}: {error}", error.key)


def _read_one(file: Path) -> Dict[str, Any]:
    data = _rendered(file).data
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: expected a mapping, got {type(data).__name__}")
    return data


def _rendered(file: Path) -> Rendered:
    name = str(file)
    try:
        text = decoded(read_limited(file, SIZE_LIMIT), name)
        return yaml.load_rendered(text, name, text, LineMap())
    except (RenderError, LimitError) as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None


def _join(first: Dict[str, Any], second: Dict[str, Any]) -> Dict[str, Any]:
    joined = dict(first)
    for key, value in second.items():
        old = joined.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        joined[key] = _join(old, value) if both else value  # type: ignore[arg-type]  # both dicts
    return joined
