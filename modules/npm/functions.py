"""npm.*: packages of Node.js, of the host or of a project's folder."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.npm import program
from catena.modules.shared import tools
from catena.modules.shared.arguments import listed, truth


def checked_package(value: Any) -> str:
    """Return a package as npm's command line takes it: NAME, NAME@VERSION, an address, a path.

    Raises:
        UsageError: it is none, or has credentials.
    """
    text = str(value).strip()
    if not text or text.startswith("-") or any(mark in text for mark in "\r\n\0"):
        raise UsageError(f"{text[:80]!r} is no package of npm")
    program.refuse_credentials(text)
    return text


@function()
def install(
    context: Context,
    /,
    pkg: Optional[str] = None,
    pkgs: Any = None,
    dir: Optional[str] = None,
    runas: Optional[str] = None,
    registry: Optional[str] = None,
    env: Any = None,
    dry_run: bool = False,
    silent: bool = True,
) -> Any:
    """Install packages, or those of a folder's package.json; return what npm reports.

    Args:
        context: the host.
        pkg: a package: NAME, NAME@VERSION, an address or a path.
        pkgs: list of packages.
        dir: folder of a project; default: the packages of the host.
        runas: user that runs npm.
        registry: address of a registry.
        env: more environment variables.
        dry_run: only report what would be installed.
        silent: without effect: npm is never asked for progress.

    Raises:
        CommandExecutionError: npm is missing or failed.
        UsageError: an argument makes no sense, or a package has credentials.
    """
    given = [pkg] if pkg else list(pkgs) if isinstance(pkgs, (list, tuple)) else listed(pkgs)
    names = [checked_package(one) for one in given]
    made = program.place(dir, runas, env, registry)
    words = ["install", "--json", *made.scope(), *(["--dry-run"] if truth(dry_run) else [])]
    ran = program.npm(context, made, [*words, *names])
    if not truth(dry_run):
        program.forget(context)
    if ran.retcode:
        raise CommandExecutionError(ran.stderr or ran.stdout or "npm install failed")
    return program.parsed(ran.stdout) if ran.stdout.strip() else {}


@function(reads=True)
def planned(
    context: Context, /, dir: str, runas: Optional[str] = None, env: Any = None
) -> Dict[str, Any]:
    """Return what npm.install of a folder's package.json would do, as npm reports it."""
    made = program.place(dir, runas, env)
    ran = program.npm(context, made, ["install", "--json", "--dry-run"], reads=True)
    found = program.parsed(tools.checked(ran, "npm install --dry-run").stdout)
    return found if isinstance(found, dict) else {}


@function()
def uninstall(
    context: Context,
    /,
    pkg: str,
    dir: Optional[str] = None,
    runas: Optional[str] = None,
    env: Any = None,
) -> bool:
    """Remove a package; return True.

    Args:
        context: the host.
        pkg: name of the package.
        dir: folder of a project; default: the packages of the host.
        runas: user that runs npm.
        env: more environment variables.

    Raises:
        CommandExecutionError: npm is missing or failed.
    """
    made = program.place(dir, runas, env)
    ran = program.npm(context, made, ["uninstall", *made.scope(), checked_package(pkg)])
    program.forget(context)
    tools.checked(ran, "npm uninstall")
    return True


@function(name="list", reads=True)
def list_(
    context: Context,
    /,
    pkg: Optional[str] = None,
    dir: Optional[str] = None,
    runas: Optional[str] = None,
    env: Any = None,
    depth: Any = None,
) -> Dict[str, Any]:
    """Return the installed packages: {name: {"version": …, …}}.

    Args:
        context: the host.
        pkg: only this package.
        dir: folder of a project; default: the packages of the host.
        runas: user that runs npm.
        env: more environment variables.
        depth: levels of dependencies; 0: none.

    Raises:
        CommandExecutionError: npm is missing or failed.
        UsageError: *depth* is no number.
    """
    words = []
    if depth is not None:
        if isinstance(depth, bool) or not isinstance(depth, (int, float)):
            raise UsageError(f"depth {depth!r} must be a number")
        words.append(f"--depth={int(depth)}")
    words += [checked_package(pkg)] if pkg else []
    found = program.tree(context, program.place(dir, runas, env), words).get("dependencies", {})
    return dict(found) if isinstance(found, dict) else {}


@function()
def cache_clean(
    context: Context,
    /,
    path: Optional[str] = None,
    runas: Optional[str] = None,
    env: Any = None,
    force: bool = False,
) -> bool:
    """Remove packages from npm's cache; npm 5 and newer needs *force* for that. Return success."""
    words = ["cache", "clean", *([checked_package(path)] if path else [])]
    words += ["--force"] if truth(force) else []
    return program.npm(context, program.place(None, runas, env), words).retcode == 0


@function(reads=True)
def cache_path(context: Context, runas: Optional[str] = None, env: Any = None) -> str:
    """Return the folder of npm's cache."""
    made = program.place(None, runas, env)
    ran = program.npm(context, made, ["config", "get", "cache"], reads=True)
    return tools.checked(ran, "npm config").stdout
