"""gem.*: packages of Ruby."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ContextManager, Dict, List, Optional, Sequence, Tuple

from catena.core.addresses import hide_credentials
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared import programs, tools
from catena.modules.shared.arguments import truth
from catena.modules.shared.command.run import Ran
from catena.modules.shared.private_files import private_folder
from catena.modules.shared.tools import Where

#: Key in the run's scratch data: installed gems by program and user.
_LISTED = "gem.listed"
_ROW = re.compile(r"(\S+) \((.+)\)\s*\Z")
_OUTDATED = re.compile(r"(\S+) \(\S+ < (\S+)\)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[!-~]+\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_FILE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*?)-(?P<version>\d[0-9A-Za-z.]*)\.gem\Z")


def file_of(gem: str) -> Optional[Tuple[str, str]]:
    """Return name and version of a gem's file ("/srv/rake-1.0.gem"); None for any other text."""
    found = _FILE.match(Path(gem).name) if "/" in gem else None
    return (found["name"], found["version"]) if found else None


def checked_gems(gems: Any) -> List[str]:
    """Return names and files of gems.

    Args:
        gems: a list, or a text in which blanks separate them.

    Raises:
        UsageError: one of them is no name and no file, or there are none.
    """
    names = gems.split() if isinstance(gems, str) else [str(one) for one in gems or ()]
    for name in names:
        if not _NAME.match(name) and not (name.startswith("/") and name.endswith(".gem")):
            raise UsageError(f"{name[:80]!r} is no name of a gem and no path of a .gem file")
    if not names:
        raise UsageError("no gem was named")
    return names


def _address(uri: Any) -> str:
    """Return the address of a gem server.

    Raises:
        UsageError: it is none.
    """
    text = str(uri).strip()
    if not _URL.match(text):
        raise UsageError(f"{hide_credentials(text)[:200]!r} is no address of a gem server")
    return text


def _command(gem_bin: Optional[str]) -> str:
    if not gem_bin:
        return programs.find("gem", "ruby")
    path = str(gem_bin)
    if not (path.startswith("/") and os.access(path, os.X_OK) and Path(path).is_file()):
        raise CommandExecutionError(f"gem_bin {path[:200]!r} is no executable file")
    return path


def _ask(
    context: Context, words: Sequence[str], gem_bin: Optional[str], runas: Optional[str]
) -> Ran:
    command = _command(gem_bin)
    ran = tools.ask(context, [command, *words], Where(runas))
    return tools.checked(ran, f"gem {words[0]}")


def _act(
    context: Context,
    words: Sequence[str],
    gem_bin: Optional[str],
    runas: Optional[str],
    proxy: Optional[str] = None,
    source: Optional[str] = None,
) -> str:
    """Run gem and return what it printed; addresses are passed apart from the arguments."""
    env = {}
    if proxy:
        env.update({"http_proxy": str(proxy), "https_proxy": str(proxy)})
    config: ContextManager[Optional[Path]] = nullcontext()
    if source:
        text = f"---\n:sources:\n- {_address(source)}\n"
        config = private_folder({"gemrc": text.encode()}, runas)
    command = _command(gem_bin)
    with config as folder:
        if folder is not None:
            env["GEMRC"] = str(folder / "gemrc")
        try:
            ran = tools.act(context, [command, *words], Where(runas, None, env))
        finally:
            context.scratch.pop(_LISTED, None)
    return tools.checked(ran, f"gem {words[0]}").stdout


@function()
def install(
    context: Context,
    /,
    gems: Any,
    ruby: Optional[str] = None,
    gem_bin: Optional[str] = None,
    runas: Optional[str] = None,
    version: Any = None,
    rdoc: bool = False,
    ri: bool = False,
    pre_releases: bool = False,
    proxy: Optional[str] = None,
    source: Optional[str] = None,
) -> str:
    """Install gems; return what gem printed.

    Args:
        context: the host.
        gems: a name, several with blanks, a list of names, or paths of .gem files.
        ruby: without effect; *gem_bin* selects the Ruby.
        gem_bin: path of the program gem; default: the host's.
        runas: user that runs gem.
        version: a version or a condition (">= 1.2").
        rdoc: install the documentation for rdoc.
        ri: install the documentation for ri.
        pre_releases: also accept pre-releases.
        proxy: address of a proxy.
        source: address of a gem server, instead of the configured ones.

    Raises:
        CommandExecutionError: gem is missing or failed.
        UsageError: an argument makes no sense.
    """
    words = ["install", *checked_gems(gems)]
    kinds = [name for name, asked in (("rdoc", rdoc), ("ri", ri)) if truth(asked)]
    words.append(f"--document={','.join(kinds)}" if kinds else "--no-document")
    if version not in (None, ""):
        words.append(f"--version={version}")
    words += ["--prerelease"] if truth(pre_releases) else []
    return _act(context, words, gem_bin, runas, proxy, source)


@function()
def uninstall(
    context: Context,
    /,
    gems: Any,
    ruby: Optional[str] = None,
    runas: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> str:
    """Remove all versions of gems and their programs; return what gem printed."""
    words = ["uninstall", *checked_gems(gems), "--all", "--executables"]
    return _act(context, words, gem_bin, runas)


@function()
def update(
    context: Context,
    /,
    gems: Any,
    ruby: Optional[str] = None,
    runas: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> str:
    """Update gems; return what gem printed."""
    words = ["update", *checked_gems(gems), "--no-document"]
    return _act(context, words, gem_bin, runas)


@function()
def update_system(
    context: Context,
    /,
    version: str = "",
    ruby: Optional[str] = None,
    runas: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> str:
    """Update RubyGems itself; return what gem printed."""
    words = ["update", f"--system={version}" if version else "--system"]
    return _act(context, words, gem_bin, runas)


@function(reads=True)
def version(
    context: Context,
    /,
    ruby: Optional[str] = None,
    runas: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> str:
    """Return the version of RubyGems."""
    return _ask(context, ["--version"], gem_bin, runas).stdout.strip()


@function(name="list", reads=True)
def list_(
    context: Context,
    /,
    prefix: str = "",
    ruby: Optional[str] = None,
    runas: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> Dict[str, List[str]]:
    """Return the installed gems: {name: [version, …]}; "default: " marks gems of Ruby itself.

    Args:
        context: the host.
        prefix: only gems whose name begins so.
        ruby: without effect; *gem_bin* selects the Ruby.
        runas: user that runs gem.
        gem_bin: path of the program gem; default: the host's.
    """
    start = str(prefix or "")
    found = installed(context, gem_bin, runas)
    return {name: list(rows) for name, rows in found.items() if name.startswith(start)}


def installed(
    context: Context, gem_bin: Optional[str], runas: Optional[str]
) -> Dict[str, List[str]]:
    """Return all installed gems as gem.list does.

    gem is run once per program and user in a run, and again if a folder with gems has changed.

    Raises:
        CommandExecutionError: gem is missing or failed.
    """
    known: Dict[Any, Tuple[Dict[str, List[str]], Dict[str, int]]] = context.scratch.setdefault(
        _LISTED, {}
    )
    key = (gem_bin, runas)
    found = known.get(key)
    if found is None or found[1] != _states(found[1]):
        paths = _ask(context, ["environment", "gempath"], gem_bin, runas).stdout.strip()
        folders = [f"{one}/specifications" for one in paths.split(":") if one]
        rows = _ask(context, ["list", "--local"], gem_bin, runas).stdout.splitlines()
        matches = [match for row in rows if (match := _ROW.match(row))]
        listing = {match[1]: match[2].split(", ") for match in matches}
        found = (listing, _states(folders))
        known[key] = found
    return found[0]


def _states(folders: Any) -> Dict[str, int]:
    """Return the time of change of each folder in ns; -1 if it does not exist."""
    found = {}
    for folder in folders:
        try:
            found[folder] = Path(folder).stat().st_mtime_ns
        except OSError:
            found[folder] = -1
    return found


@function(reads=True)
def list_upgrades(
    context: Context,
    /,
    ruby: Optional[str] = None,
    runas: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> Dict[str, str]:
    """Return the gems with a newer version on the server: {name: version}."""
    rows = _ask(context, ["outdated"], gem_bin, runas).stdout.splitlines()
    return {match[1]: match[2] for row in rows if (match := _OUTDATED.match(row))}


@function(reads=True)
def sources_list(
    context: Context,
    /,
    ruby: Optional[str] = None,
    runas: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> List[str]:
    """Return the addresses of the gem servers."""
    rows = _ask(context, ["sources", "--list"], gem_bin, runas).stdout.splitlines()
    return [row.strip() for row in rows if "://" in row]


def _source(uri: Any) -> str:
    """Return the address of a gem server as an argument."""
    text = _address(uri)
    tools.refuse_credentials(text, "gem", "~/.gemrc")
    return text


@function()
def sources_add(
    context: Context,
    /,
    source_uri: str,
    ruby: Optional[str] = None,
    runas: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> str:
    """Add a gem server to the configuration of a user; return what gem printed."""
    return _act(context, ["sources", "--add", _source(source_uri)], gem_bin, runas)


@function()
def sources_remove(
    context: Context,
    /,
    source_uri: str,
    ruby: Optional[str] = None,
    runas: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> str:
    """Remove a gem server from the configuration of a user; return what gem printed."""
    return _act(context, ["sources", "--remove", _source(source_uri)], gem_bin, runas)
