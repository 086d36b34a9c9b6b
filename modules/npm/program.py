"""Run npm, and remember what is installed in a folder during a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.modules.shared import programs, tools
from catena.modules.shared.arguments import mapped
from catena.modules.shared.command.run import Ran
from catena.modules.shared.tools import Where

#: Key in the run's scratch data: installed packages by folder and user.
_LISTED = "npm.listed"
_REMEMBERED = 256


@dataclass(frozen=True)
class NodeFolder:
    """A project's folder, or the host's packages (folder None), as seen by one user."""

    folder: Optional[str]
    where: Where

    def scope(self) -> List[str]:
        """Return the option of npm for the host's packages."""
        return [] if self.folder else ["--global"]


@dataclass(frozen=True)
class NodePackage:
    """One installed package."""

    name: str
    version: str
    #: URL or file: address from which it was installed; "" if npm does not report it.
    resolved: str = ""
    path: str = ""


def place(dir: Optional[str], user: Optional[str], env: Any, registry: Any = None) -> NodeFolder:
    """Return the folder that the arguments of npm.* name.

    Raises:
        UsageError: *dir* is no absolute path, or *env* is no mapping.
    """
    folder = str(dir) if dir else None
    if folder and not folder.startswith("/"):
        raise UsageError(f"dir: {folder[:100]!r} is no absolute path")
    given = {str(key): str(value) for key, value in mapped(env).items()}
    # Nothing but packages is fetched: no audit, no news about npm.
    quiet = {
        "npm_config_audit": "false",
        "npm_config_fund": "false",
        "npm_config_update_notifier": "false",
        "npm_config_loglevel": "error",
    }
    if registry:
        # It may contain credentials, and other users can read command lines.
        quiet["npm_config_registry"] = str(registry)
    return NodeFolder(folder, Where(user, folder, {**quiet, **given}))


def npm(context: Context, made: NodeFolder, words: Sequence[str], *, reads: bool = False) -> Ran:
    """Run npm; its failure is no error.

    Raises:
        CommandExecutionError: npm is missing or did not end in time.
        UsageError: an argument has credentials.
    """
    for word in words:
        refuse_credentials(word)
    command = [programs.find("npm", "npm"), *words]
    return (tools.ask if reads else tools.act)(context, command, made.where)


def refuse_credentials(word: str) -> None:
    """Refuse an argument that other users must not read.

    Raises:
        UsageError: it is an address with credentials.
    """
    tools.refuse_credentials(word, "npm", ".npmrc or in git's credentials")


def parsed(text: str) -> Any:
    """Return the JSON that npm printed, perhaps after other lines.

    Raises:
        CommandExecutionError: it printed none.
    """
    for start in (text.find("{"), text.find("[")):
        if start >= 0:
            try:
                return json.loads(text[start:])
            except ValueError:
                continue
    raise CommandExecutionError(f"npm printed no JSON: {text[:200]!r}")


def tree(context: Context, made: NodeFolder, words: Sequence[str] = ()) -> Mapping[str, Any]:
    """Return what `npm list --json` prints.

    Raises:
        CommandExecutionError: npm is missing, or printed none.
    """
    ran = npm(context, made, ["list", "--json", *made.scope(), *words], reads=True)
    if ran.retcode and not ran.stdout.strip():
        tools.checked(ran, "npm list")
    # npm fails if a package lacks another one, and lists all the same.
    found = parsed(ran.stdout)
    return found if isinstance(found, dict) else {}


def installed(
    context: Context, made: NodeFolder, *, fresh: bool = False
) -> Dict[str, NodePackage]:
    """Return the packages of a folder by name, without those that only they need.

    npm is run once per folder and user in a run, and again if a package has changed since.

    Raises:
        CommandExecutionError: npm is missing or failed.
    """
    known: Dict[Any, Tuple[Dict[str, NodePackage], Dict[str, int]]] = context.scratch.setdefault(
        _LISTED, {}
    )
    key = (made.folder, made.where.user, tuple(sorted(made.where.env.items())))
    found = known.get(key)
    if found is None or fresh or found[1] != _states(found[1]):
        top = tree(context, made, ["--depth=0", "--long"])
        packages = _packages(top)
        base = str(top.get("path") or made.folder or "")
        folders = {one.path for one in packages.values()} | {f"{base}/node_modules"}
        folders |= {str(Path(one).parent) for one in folders}
        files = {f"{one}/package.json" for one in folders}
        found = (packages, _states({*folders, *files}))
        if len(known) >= _REMEMBERED:
            known.clear()
        known[key] = found
    return dict(found[0])


def forget(context: Context) -> None:
    """Forget what is installed, because npm is about to change it."""
    context.scratch.pop(_LISTED, None)


def _packages(top: Mapping[str, Any]) -> Dict[str, NodePackage]:
    found = {}
    rows = top.get("dependencies")
    for name, row in (rows if isinstance(rows, dict) else {}).items():
        # A package that is wanted and missing has no version.
        if isinstance(row, dict) and row.get("version"):
            resolved, path = str(row.get("resolved") or ""), str(row.get("path") or "")
            found[str(name)] = NodePackage(str(name), str(row["version"]), resolved, path)
    return found


def _states(paths: Any) -> Dict[str, int]:
    """Return the time of change of each path in ns; -1 if it does not exist."""
    found = {}
    for path in paths:
        try:
            found[path] = os.stat(path).st_mtime_ns  # noqa: PTH116  # hundreds of paths
        except OSError:
            found[path] = -1
    return found
