"""pkg.*: functions for package repositories and their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.core.redact import MASK, hide_url_passwords
from catena.modules.shared.arguments import truth

if TYPE_CHECKING:
    from catena.modules.pkg.repos.plan import RepoPlan, Repositories

#: Key in the run's scratch data: the repositories' indexes were fetched in this run.
FRESH = "pkg.refreshed"


def repositories(context: Context) -> Repositories:
    """Return the repositories that this host's package manager is configured with.

    Raises:
        CommandExecutionError: catena does not know the package manager.
    """
    from catena.modules.pkg import choice

    name = choice.provider(context).name
    if name == "apt":
        from catena.modules.pkg.repos.apt import AptRepositories

        return AptRepositories(context)
    if name in ("dnf", "zypper"):
        from catena.modules.pkg.repos.rpm import DNF, ZYPPER, RpmRepositories

        return RpmRepositories(context, DNF if name == "dnf" else ZYPPER)
    raise CommandExecutionError(f"repositories of {name} can't be managed")


def carry_out(context: Context, plan: RepoPlan) -> None:
    """Write the files of a plan and run its commands.

    Raises:
        CommandExecutionError: a file can't be written, or a command failed.
    """
    from catena.modules.pkg.repos.plan import write_files

    write_files(plan.files)
    for command in plan.commands:
        run(context, *command)


def run(context: Context, *words: str) -> None:
    """Run a command of a package manager.

    Raises:
        CommandExecutionError: it failed; the message names a package that it lacks.
    """
    from catena.modules.pkg.provider import Tool
    from catena.modules.pkg.repos.rpm import explained

    try:
        Tool(context, {"LC_ALL": "C.UTF-8"})(*words)
    except CommandExecutionError as error:
        raise explained(error) from error


def refuse_masks(repo: str, options: Mapping[str, Any]) -> None:
    """Refuse addresses whose passwords pkg.list_repos has hidden; they would be written.

    Raises:
        UsageError: an argument has one.
    """
    for name, value in (("name", repo), *options.items()):
        if f":{MASK}@" in str(value):
            raise UsageError(f"{name}: the password of the address is hidden; write it out")


def refresh_after(context: Context, repo: str, options: Mapping[str, Any]) -> None:
    """Fetch the indexes of repositories after one has changed, as `refresh` says.

    Raises:
        CommandExecutionError: the package manager failed; the next run fetches them again.
    """
    from catena.modules.pkg.repos import pending

    context.scratch.pop(FRESH, None)
    asked = options.get("refresh_db", options.get("refresh"))
    if asked is not None and not truth(asked):
        return
    pending.add(context, repo)
    is_complete = repositories(context).refresh(repo, options)
    pending.remove(context, None if is_complete else repo)
    if is_complete:
        context.scratch[FRESH] = True


def refresh_pending(context: Context, repo: str, options: Mapping[str, Any]) -> bool:
    """Fetch the indexes that an earlier run failed to fetch; return whether it did.

    Raises:
        CommandExecutionError: the package manager failed again.
    """
    from catena.modules.pkg.repos import pending

    if not pending.is_due(context, repo):
        return False
    asked = options.get("refresh_db", options.get("refresh"))
    if asked is not None and not truth(asked):
        return False
    refresh_after(context, repo, options)
    return True


@function(reads=True)
def list_repos(context: Context, /, **options: Any) -> Dict[str, Any]:
    """Return all repositories: {address: [entry, …]} with apt, {alias: entry} with dnf and zypper.

    Args:
        context: the call's context.
        options: basedir, the folder of `.repo` files.
    """
    return dict(hide_url_passwords(repositories(context).listed(options)))


@function(reads=True)
def get_repo(context: Context, /, repo: str, **options: Any) -> Dict[str, Any]:
    """Return one repository, {} if it is not there; with apt, *repo* is a line of sources.list."""
    return dict(hide_url_passwords(repositories(context).entry(repo, options)))


@function()
def mod_repo(
    context: Context, /, repo: str, saltenv: str = "base", aptkey: bool = True, **options: Any
) -> Dict[str, Any]:
    """Make a repository, or change it; return {repo: entry}.

    Args:
        context: the call's context.
        repo: with apt a line of sources.list or ppa:OWNER/NAME, elsewhere an alias.
        saltenv: environment of a salt:// key.
        aptkey: ignored, as apt-key is deprecated: keys are files that `signed-by` names.
        options: with apt file, uri, dist, comps, architectures, disabled, enabled, signedby,
            trusted, comments, clean_file, consolidate, refresh, key_url, key_text, keyid and
            keyserver. With dnf and zypper every other name is an option of the repository.

    Raises:
        CommandExecutionError: a key or file can't be read or written, or the refresh failed.
    """
    refuse_masks(repo, options)
    plan = repositories(context).planned(repo, options, saltenv)
    if plan.acts():
        carry_out(context, plan)
        refresh_after(context, repo, options)
    found = plan.after or repositories(context).entry(repo, options)
    return dict(hide_url_passwords({repo: found}))


@function()
def del_repo(context: Context, /, repo: str, **options: Any) -> str:
    """Remove a repository; return which files were changed or removed.

    Raises:
        CommandExecutionError: it is not there, or a file can't be written.
    """
    plan = repositories(context).removal(repo, options)
    if not plan.acts():
        raise CommandExecutionError(hide_url_passwords(plan.told))
    carry_out(context, plan)
    refresh_after(context, repo, options)
    return str(hide_url_passwords(plan.told))


@function(reads=True)
def get_repo_keys(
    context: Context, aptkey: bool = True, keydir: Optional[str] = None
) -> Dict[str, Any]:
    """Return the keys of repositories by their key id.

    Args:
        context: the call's context.
        aptkey: ignored, as apt-key is deprecated.
        keydir: with apt, the folder of keyrings (/etc/apt/keyrings).
    """
    return repositories(context).keys(keydir)


@function()
def add_repo_key(
    context: Context,
    path: Optional[str] = None,
    text: Optional[str] = None,
    keyserver: Optional[str] = None,
    keyid: Any = None,
    saltenv: str = "base",
    aptkey: bool = True,
    keydir: Optional[str] = None,
    keyfile: Optional[str] = None,
) -> bool:
    """Add the key of a repository; return True, also if it was there.

    Args:
        context: the call's context.
        path: address of the key: salt://, http(s):// or a path.
        text: the key, instead of *path*.
        keyserver: server that has the key *keyid*, instead of *path*.
        keyid: id or fingerprint of the key.
        saltenv: environment of a salt:// address.
        aptkey: ignored, as apt-key is deprecated.
        keydir: with apt, the folder of keyrings (/etc/apt/keyrings).
        keyfile: with apt, the name of the keyring; otherwise that of *path*, or the key id.

    Raises:
        CommandExecutionError: the key can't be fetched or written, or is none.
    """
    from catena.modules.pkg.repos.keys import key_source

    named = {"key_url": path, "key_text": text, "keyserver": keyserver, "keyid": keyid}
    repositories(context).add_key(key_source(named), saltenv, keydir, keyfile)
    return True


@function()
def del_repo_key(
    context: Context,
    /,
    name: Optional[str] = None,
    aptkey: bool = True,
    keydir: Optional[str] = None,
    keyid: Any = None,
    **options: Any,
) -> str:
    """Remove the key of a repository; return its id.

    Args:
        context: the call's context.
        name: ppa:OWNER/NAME, if `keyid_ppa` is set.
        aptkey: ignored, as apt-key is deprecated.
        keydir: with apt, the folder of keyrings (/etc/apt/keyrings).
        keyid: id or fingerprint of the key.
        options: keyid_ppa, to ask Launchpad for the key of the archive *name*.

    Raises:
        UsageError: no key is named.
        CommandExecutionError: no keyring has the key.
    """
    from catena.modules.pkg.repos.keys import named_id

    digits = named_id(context, name, keyid, options)
    repositories(context).remove_key(digits, keydir)
    return digits
