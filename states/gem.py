"""gem.*: packages of Ruby, and the servers from which they come."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from catena.core.addresses import hide_credentials
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.gem.functions import checked_gems, file_of
from catena.modules.gem.versions import conditions, satisfies
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)


def _warnings(ruby: Optional[str]) -> Tuple[str, ...]:
    if not ruby:
        return ()
    return ("ruby has no effect: rvm and rbenv are not used; gem_bin names the gem of a Ruby",)


def _versions(context: Context, name: str, gem_bin: Optional[str], user: Any) -> List[str]:
    """Return the installed versions of a gem."""
    found = context.call("gem.list", name, gem_bin=gem_bin, runas=user).get(name, [])
    # "default: 1.2" is a gem of Ruby itself; "1.2 x86_64-linux" is one with compiled code.
    return [str(one).replace("default: ", "").split(" ")[0] for one in found]


@state()
def installed(
    context: Context,
    /,
    name: str,
    ruby: Optional[str] = None,
    gem_bin: Optional[str] = None,
    user: Optional[str] = None,
    version: Any = None,
    rdoc: bool = False,
    ri: bool = False,
    pre_releases: bool = False,
    proxy: Optional[str] = None,
    source: Optional[str] = None,
) -> StateResult:
    """Install a gem.

    Args:
        context: the call's context.
        name: of the gem, or the path of its file.
        ruby: without effect; *gem_bin* selects the Ruby.
        gem_bin: path of the program gem; default: the host's.
        user: runs gem.
        version: a version, or a condition (">= 1.2").
        rdoc: install the documentation for rdoc.
        ri: install the documentation for ri.
        pre_releases: also accept pre-releases.
        proxy: address of a proxy.
        source: address of a gem server, instead of the configured ones.
    """
    warnings = _warnings(ruby)
    try:
        met = _met(context, name, version, gem_bin, user)
        if met:
            return replace(done(met), warnings=warnings)
        if context.test:
            return replace(would(f"The gem {name} would have been installed"), warnings=warnings)
        context.call(
            "gem.install", [name], gem_bin=gem_bin, runas=user,
            version=None if file_of(name) else version,
            rdoc=rdoc, ri=ri, pre_releases=pre_releases, proxy=proxy, source=source,
        )  # fmt: skip
    except _REFUSALS as problem:
        return failed(hide_credentials(f"Could not install gem. {problem}"))
    return replace(done("Gem was successfully installed", {name: "Installed"}), warnings=warnings)


def _met(context: Context, name: str, version: Any, gem_bin: Optional[str], user: Any) -> str:
    """Return a sentence if a gem is installed as asked; "" if it is not.

    Raises:
        CommandExecutionError: gem is missing or failed.
        UsageError: *name* or *version* makes no sense.
    """
    checked_gems([name])
    gem, exact = file_of(name) or (name, "")
    wanted = exact or ("" if version is None else str(version))
    asked = conditions(wanted) if wanted else []
    if not any(satisfies(one, asked) for one in _versions(context, gem, gem_bin, user)):
        return ""
    if not asked or asked[0][0] == "=":
        return "Gem is already installed."
    return "Installed Gem meets version requirements."


@state()
def removed(
    context: Context,
    /,
    name: str,
    ruby: Optional[str] = None,
    user: Optional[str] = None,
    gem_bin: Optional[str] = None,
) -> StateResult:
    """Make sure that no version of a gem is installed.

    Args:
        context: the call's context.
        name: of the gem.
        ruby: without effect; *gem_bin* selects the Ruby.
        user: runs gem.
        gem_bin: path of the program gem; default: the host's.
    """
    try:
        if not _versions(context, name, gem_bin, user):
            return done("Gem is not installed.")
        if context.test:
            return would(f"The gem {name} would have been removed")
        context.call("gem.uninstall", [name], gem_bin=gem_bin, runas=user)
        if _versions(context, name, gem_bin, user):
            return failed("Could not remove gem. A gem of Ruby itself can't be removed.")
    except _REFUSALS as problem:
        return failed(f"Could not remove gem. {problem}")
    return done("Gem was successfully removed.", {name: "Removed"})


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


@state()
def sources_add(
    context: Context, /, name: str, ruby: Optional[str] = None, user: Optional[str] = None
) -> StateResult:
    """Make sure that a gem server is in the configuration of a user.

    Args:
        context: the call's context.
        name: address of the server.
        ruby: without effect.
        user: runs gem.
    """
    try:
        if any(_same(one, name) for one in context.call("gem.sources_list", runas=user)):
            return done("Gem source is already added.")
        if context.test:
            return would(hide_credentials(f"The gem source {name} would have been added."))
        context.call("gem.sources_add", name, runas=user)
    except _REFUSALS as problem:
        return failed(hide_credentials(f"Could not add gem source. {problem}"))
    return done("Gem source was successfully added.", {name: "Installed"})


@state()
def sources_remove(
    context: Context, /, name: str, ruby: Optional[str] = None, user: Optional[str] = None
) -> StateResult:
    """Make sure that a gem server is not in the configuration of a user.

    Args:
        context: the call's context.
        name: address of the server.
        ruby: without effect.
        user: runs gem.
    """
    try:
        found = [one for one in context.call("gem.sources_list", runas=user) if _same(one, name)]
        if not found:
            return done("Gem source is already removed.")
        if context.test:
            return would("The gem source would have been removed.")
        context.call("gem.sources_remove", found[0], runas=user)
    except _REFUSALS as problem:
        return failed(hide_credentials(f"Could not remove gem source. {problem}"))
    return done("Gem source was successfully removed.", {name: "Removed"})
