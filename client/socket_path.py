"""Finds the master's socket without a YAML parser.

A command needs only two settings of the master to find the socket. Loading PyYAML and all settings
for that would take a third of the command's time. The full reader is used only if the two settings
are not written in the plainest form.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Dict, List, Optional

from catena.core.config.folders import placed
from catena.core.errors import NotAllowedError
from catena.core.frozen import dataclass

RUN_DIR = "/run/catena/master"
NAME = "master.sock"

_LINE = re.compile(r"(root_dir|run_dir)[ \t]*:(.*)\Z")
#: A path that YAML reads literally: no quotes, comments, escapes or other special characters.
_PLAIN_PATH = re.compile(r"[ \t]+(/[A-Za-z0-9_./-]*)[ \t]*\Z")
#: YAML syntax that can change the meaning of a key on another line.
_ODD = re.compile(r"(?m)^(---|\.\.\.|%|\{|<<|[\"'?&*!])|\t*\|\s*$|>\s*$")


@dataclass(frozen=True)
class _Where:
    """The settings that determine the socket; a copy, as importing MasterSettings costs 7 ms."""

    root_dir: str
    run_dir: str


def master_socket(config_dir: str) -> Path:
    """Return the path of the socket of the master configured in *config_dir*.

    Raises:
        ConfigError: the configuration cannot be read.
        NotAllowedError: this user may not read it, and there is no socket at the default path.
    """
    unreadable: List[Path] = []
    found = _scan(Path(config_dir), unreadable)
    if found is None:
        from catena.client.settings import master_settings

        return Path(master_settings(config_dir)[0].run_dir) / NAME
    settings = _Where(found.get("root_dir", ""), found.get("run_dir", RUN_DIR))
    path = Path(placed(settings, found, Path(config_dir), "master").run_dir) / NAME
    if unreadable and _is_missing(path):
        raise NotAllowedError(
            f"{unreadable[0]}: this user may not read it, and no master listens on the default "
            f"{path}; make the file readable for this user, or run the command as root"
        )
    return path


def _is_missing(path: Path) -> bool:
    """Return whether nothing is at *path*; False if this user may not look there."""
    try:
        return not path.exists()
    except PermissionError:
        return False


def _scan(folder: Path, unreadable: List[Path]) -> Optional[Dict[str, str]]:
    """Return the settings of plain lines; None if the full reader is needed.

    Append the files that this user may not read to *unreadable*.
    """
    found: Dict[str, str] = {}
    files = [folder / "master"]
    extra = folder / "master.d"
    if os.path.isdir(extra):  # noqa: PTH112  # False where it may not look
        files += sorted(path for path in extra.glob("*.conf") if not path.name.startswith("_"))
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except PermissionError:
            # Users in cli_users may not read this file; then the socket has its default path.
            unreadable.append(path)
            continue
        except (OSError, UnicodeDecodeError):
            return None
        if not _take(text, found):
            return None
    return found


def _take(text: str, found: Dict[str, str]) -> bool:
    if "root_dir" not in text and "run_dir" not in text:
        return True
    if _ODD.search(text):
        return False
    for line in text.splitlines():
        setting = _LINE.match(line)
        if setting:
            plain = _PLAIN_PATH.match(setting[2])
            if not plain:
                return False
            found[setting[1]] = plain[1]
    return True
