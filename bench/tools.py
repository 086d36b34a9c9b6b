"""Which of the measured tools are on this machine, and which versions they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.errors import NotHereError

#: Tool -> the command that shows that it is there.
COMMANDS = {
    "catena": "catena",
    "salt": "salt-call",
    "ansible": "ansible-playbook",
    "pyinfra": "pyinfra",
}
#: Tool -> the environment variable that names its folder, where no option does.
VARIABLES = {tool: f"CATENA_BENCH_{tool.upper()}" for tool in COMMANDS}
#: Where a tool lies when nothing names it and PATH has none.
USUAL = {tool: (Path(f"/opt/{tool}/bin"), Path(f"/opt/{tool}")) for tool in COMMANDS}


@dataclass(frozen=True)
class Tools:
    """The folders of the tools that are here."""

    folders: Mapping[str, Path] = field(default_factory=dict)

    def has(self, tool: str) -> bool:
        """Return whether a tool is here; the floor always is."""
        return tool == "floor" or tool in self.folders

    def command(self, tool: str, name: str) -> Path:
        """Return the path of a command of a tool: command("salt", "salt-run").

        Raises:
            NotHereError: there is no such command.
        """
        if tool not in self.folders:
            raise NotHereError(f"{tool} is not installed")
        path = self.folders[tool] / name
        if not path.exists():
            raise NotHereError(f"{path} does not exist")
        return path

    def python(self, tool: str) -> Path:
        """Return the interpreter that runs a tool, as the first line of its command says."""
        command = self.command(tool, COMMANDS[tool])
        with command.open("rb") as stream:
            first = stream.readline().decode(errors="replace")
        path = Path(first.removeprefix("#!").split()[0] if first.startswith("#!/") else "")
        return path if path.is_file() else Path(sys.executable)

    def version(self, tool: str) -> str:
        """Return what the tool says of its version, in one line."""
        done = subprocess.run(
            [self.command(tool, COMMANDS[tool]), "--version"], capture_output=True, text=True,
            timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return (done.stdout or done.stderr).strip().split("\n", 1)[0]


def find(given: Mapping[str, str | None]) -> Tools:
    """Return the tools of this machine.

    A tool's folder is looked for in *given* (tool -> folder of its commands, or its environment's
    root), its environment variable, beside the running Python (catena), PATH and the usual places.
    Where the first of them says "none", the tool is left out.

    Raises:
        NotHereError: a folder that an option or variable names has no such tool.
    """
    folders = {}
    for tool, command in COMMANDS.items():
        named = given.get(tool) or os.environ.get(VARIABLES[tool])
        if named == "none":
            continue
        places = (Path(named), Path(named) / "bin") if named else _places(tool, command)
        found = [place for place in places if (place / command).is_file()]
        if found:
            folders[tool] = found[0]
        elif named:
            raise NotHereError(f"{named} has no {command}")
    return Tools(folders)


def _places(tool: str, command: str) -> tuple[Path, ...]:
    beside = (Path(sys.executable).parent,) if tool == "catena" else ()
    on_path = shutil.which(command)
    return (*beside, *((Path(on_path).parent,) if on_path else ()), *USUAL[tool])
