"""Where the master's socket is, read without a YAML parser.

A command needs two settings of the master's file to find it. Loading PyYAML and every setting for
that would be a third of the command's whole time; where these two are written in any but the plain
way, the full reader decides.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Dict, Optional

from catena.core.config.folders import placed
from catena.core.frozen import dataclass

RUN_DIR = "/run/catena/master"
NAME = "master.sock"

_LINE = re.compile(r"(root_dir|run_dir)[ \t]*:(.*)\Z")
#: A path that YAML reads as itself: no quotes, no comment, no escape, nothing that has a meaning.
_PLAIN_PATH = re.compile(r"[ \t]+(/[A-Za-z0-9_./-]*)[ \t]*\Z")
#: Marks of YAML that could give a key a meaning which a single line does not show.
_ODD = re.compile(r"(?m)^(---|\.\.\.|%|\{|<<|[\"'?&*!])|\t*\|\s*$|>\s*$")


@dataclass(frozen=True)
class _Where:
    """The settings that place a socket; as in MasterSettings, which costs 7 ms to import."""

    root_dir: str
    run_dir: str


def master_socket(config_dir: str) -> Path:
    """Return the path of the socket of the master that *config_dir* configures.

    Raises:
        ConfigError: the configuration can't be read.
    """
    found = _scan(Path(config_dir))
    if found is None:
        from catena.client.settings import master_settings

        return Path(master_settings(config_dir)[0].run_dir) / NAME
    settings = _Where(found.get("root_dir", ""), found.get("run_dir", RUN_DIR))
    return Path(placed(settings, found, Path(config_dir), "master").run_dir) / NAME


def _scan(folder: Path) -> Optional[Dict[str, str]]:
    """Return the settings as plain lines give them; None where only the full reader can tell."""
    found: Dict[str, str] = {}
    files = [folder / "master"]
    extra = folder / "master.d"
    if os.path.isdir(extra):  # noqa: PTH112  # False where it may not look
        files += sorted(path for path in extra.glob("*.conf") if not path.name.startswith("_"))
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, PermissionError):
            # A user of cli_users may not read it: the socket is where it is by default.
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
