"""Command lines for processes of the agent, with this interpreter and this version of catena."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import List

import catena
from catena.runtime.agent_versions import VERSION_FILE


def site_folder() -> str:
    """Return the folder that must be first in sys.path for this version; "" if none is needed."""
    site = Path(catena.__file__).resolve().parent.parent
    return str(site) if (site.parent / VERSION_FILE).is_file() else ""


def python_argv(module: str, *arguments: str, site: str = "") -> List[str]:
    """Return the argv that runs `main()` of *module*.

    -I excludes the environment, the working folder and the user's site folder from a process that
    runs as root.

    Args:
        module: dotted name of one of catena's modules.
        arguments: its sys.argv[1:].
        site: folder of another version of catena than the running one.
    """
    first = site or site_folder()
    path = f"import sys; sys.path.insert(0, {first!r}); " if first else ""
    code = f"{path}from {module} import main; main()"
    return [sys.executable, "-I", "-c", code, *arguments]
