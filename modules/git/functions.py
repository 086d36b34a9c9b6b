"""git.*: repositories and checkouts."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core.addresses import hide_credentials
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.git.command import (
    Account,
    address,
    git,
    lines,
    local_commit,
    remote_refs,
    try_git,
    word,
)


def _options(opts: str) -> List[str]:
    """Return additional git arguments from a user's text.

    Raises:
        UsageError: unbalanced quotes.
    """
    try:
        return shlex.split(str(opts or ""))
    except ValueError as problem:
        raise UsageError(f"opts: {problem}") from problem


@function(reads=True)
def version(context: Context, versioninfo: bool = False) -> Any:
    """Return the version of git; with *versioninfo* as a list of numbers."""
    text = git(context, ["--version"]).split()[2]
    if not versioninfo:
        return text
    return [int(part) for part in text.split(".") if part.isdigit()]


@function()
def clone(
    context: Context,
    /,
    cwd: str,
    url: Optional[str] = None,
    name: Optional[str] = None,
    opts: str = "",
    git_opts: str = "",
    user: Optional[str] = None,
    password: Optional[str] = None,
    identity: Any = None,
    https_user: Optional[str] = None,
    https_pass: Optional[str] = None,
    **ignored: Any,
) -> bool:
    """Clone *url* into the folder *cwd* (or its sub-folder *name*).

    Raises:
        UsageError: there is no url.
        CommandExecutionError: git failed.
    """
    if not url:
        raise UsageError("git.clone needs a url")
    account = Account(user, password, identity, https_user, https_pass)
    target = str(Path(cwd, name)) if name else cwd
    words = [*_options(git_opts), "clone", *_options(opts), "--", address(url, account), target]
    git(context, words, str(Path(target).parent), account)
    return True


@function()
def init(
    context: Context,
    /,
    cwd: str,
    bare: bool = False,
    opts: str = "",
    user: Optional[str] = None,
    **ignored: Any,
) -> str:
    """Create a repository in *cwd*; return git's output."""
    words = ["init", *(["--bare"] if bare else []), *_options(opts), word(cwd, "folder")]
    return git(context, words, None, Account(user))


@function()
def fetch(
    context: Context,
    /,
    cwd: str,
    remote: Optional[str] = None,
    force: bool = False,
    refspecs: Any = None,
    opts: str = "",
    user: Optional[str] = None,
    password: Optional[str] = None,
    identity: Any = None,
    **ignored: Any,
) -> str:
    """Fetch from a remote; return git's output."""
    specs = refspecs.split(",") if isinstance(refspecs, str) else list(refspecs or [])
    words = ["fetch", *(["--force"] if force else []), *_options(opts)]
    words += [word(remote, "remote")] if remote else []
    words += [word(spec, "refspec") for spec in specs]
    ran = try_git(context, words, cwd, Account(user, password, identity))
    if ran.retcode:
        raise CommandExecutionError(hide_credentials(ran.stderr.strip()) or "git fetch failed")
    return hide_credentials(ran.stderr)


@function()
def pull(
    context: Context,
    /,
    cwd: str,
    opts: str = "",
    user: Optional[str] = None,
    password: Optional[str] = None,
    identity: Any = None,
    **ignored: Any,
) -> str:
    """Pull; return git's output."""
    return git(context, ["pull", *_options(opts)], cwd, Account(user, password, identity))


@function()
def push(
    context: Context,
    /,
    cwd: str,
    remote: str,
    ref: str,
    opts: str = "",
    user: Optional[str] = None,
    password: Optional[str] = None,
    identity: Any = None,
    **ignored: Any,
) -> str:
    """Push *ref* to *remote*; return git's output."""
    words = ["push", *_options(opts), word(remote, "remote"), word(ref, "ref")]
    return git(context, words, cwd, Account(user, password, identity))


@function()
def checkout(
    context: Context,
    /,
    cwd: str,
    rev: Optional[str] = None,
    force: bool = False,
    opts: str = "",
    user: Optional[str] = None,
    **ignored: Any,
) -> str:
    """Check out *rev*; return git's output."""
    words = ["checkout", *(["--force"] if force else []), *_options(opts)]
    ran = try_git(context, [*words, *([word(rev, "revision")] if rev else [])], cwd, Account(user))
    if ran.retcode:
        raise CommandExecutionError(hide_credentials(ran.stderr.strip()))
    return ran.stderr or ran.stdout


@function()
def reset(
    context: Context, /, cwd: str, opts: str = "", user: Optional[str] = None, **ignored: Any
) -> str:
    """Reset a checkout; *opts* are arguments of git, such as "--hard origin/main"."""
    return git(context, ["reset", *_options(opts)], cwd, Account(user))


@function()
def merge(
    context: Context,
    /,
    cwd: str,
    rev: Optional[str] = None,
    opts: str = "",
    user: Optional[str] = None,
    **ignored: Any,
) -> str:
    """Merge *rev* into the current branch."""
    words = ["merge", *_options(opts), *([word(rev, "revision")] if rev else [])]
    return git(context, words, cwd, Account(user))


@function()
def add(
    context: Context,
    /,
    cwd: str,
    filename: str,
    opts: str = "",
    user: Optional[str] = None,
    **ignored: Any,
) -> str:
    """Add a file to the index."""
    words = ["add", "--verbose", *_options(opts), "--", filename]
    return git(context, words, cwd, Account(user))


@function()
def commit(
    context: Context,
    /,
    cwd: str,
    message: str,
    opts: str = "",
    user: Optional[str] = None,
    filename: Optional[str] = None,
    **ignored: Any,
) -> str:
    """Commit the index, or one file."""
    words = ["commit", "-m", message, *_options(opts), *(["--", filename] if filename else [])]
    return git(context, words, cwd, Account(user))


@function(reads=True)
def revision(
    context: Context,
    /,
    cwd: str,
    rev: str = "HEAD",
    short: bool = False,
    user: Optional[str] = None,
    **ignored: Any,
) -> str:
    """Return the commit of *rev*.

    Raises:
        CommandExecutionError: there is no such revision.
    """
    words = ["rev-parse", *(["--short"] if short else []), word(rev, "revision")]
    return git(context, words, cwd, Account(user)).strip()


@function(reads=True)
def current_branch(
    context: Context, /, cwd: str, user: Optional[str] = None, **ignored: Any
) -> str:
    """Return the current branch; "HEAD" if HEAD is detached."""
    return git(context, ["rev-parse", "--abbrev-ref", "HEAD"], cwd, Account(user)).strip()


@function(reads=True)
def list_branches(
    context: Context, /, cwd: str, remote: bool = False, user: Optional[str] = None, **ignored: Any
) -> List[str]:
    """Return the branches, or with *remote* those of the remotes."""
    top = "refs/remotes" if remote else "refs/heads"
    words = ["for-each-ref", "--format=%(refname:short)", f"{top}/"]
    return lines(git(context, words, cwd, Account(user)))


@function(reads=True)
def list_tags(
    context: Context, /, cwd: str, user: Optional[str] = None, **ignored: Any
) -> List[str]:
    """Return the tags."""
    words = ["for-each-ref", "--format=%(refname:short)", "refs/tags/"]
    return lines(git(context, words, cwd, Account(user)))


@function(reads=True)
def ls_remote(
    context: Context,
    /,
    cwd: Optional[str] = None,
    remote: str = "origin",
    ref: Optional[str] = None,
    user: Optional[str] = None,
    password: Optional[str] = None,
    identity: Any = None,
    https_user: Optional[str] = None,
    https_pass: Optional[str] = None,
    **ignored: Any,
) -> Dict[str, str]:
    """Return the commits of a repository by ref, or only of one ref."""
    account = Account(user, password, identity, https_user, https_pass)
    found = remote_refs(context, remote, account, cwd)
    if not ref:
        return found
    return {name: sha for name, sha in found.items() if name == ref or name.endswith(f"/{ref}")}


@function(reads=True)
def remotes(
    context: Context, /, cwd: str, user: Optional[str] = None, redact_auth: bool = True,
    **ignored: Any,
) -> Dict[str, Dict[str, str]]:  # fmt: skip
    """Return {"fetch": URL, "push": URL} of the remotes by name."""
    found: Dict[str, Dict[str, str]] = {}
    for line in lines(git(context, ["remote", "--verbose"], cwd, Account(user))):
        name, _, rest = line.partition("\t")
        url, _, kind = rest.rpartition(" ")
        found.setdefault(name, {})[kind.strip("()")] = (
            hide_credentials(url) if redact_auth else url
        )
    return found


@function(reads=True)
def remote_get(
    context: Context, /, cwd: str, remote: str = "origin", user: Optional[str] = None,
    redact_auth: bool = True, **ignored: Any,
) -> Dict[str, str]:  # fmt: skip
    """Return {"fetch": URL, "push": URL} of one remote.

    Raises:
        CommandExecutionError: there is no such remote.
    """
    found = remotes(context, cwd, user, redact_auth)
    if remote not in found:
        raise CommandExecutionError(
            f"Remote '{remote}' not present in git checkout located at {cwd}"
        )
    return found[remote]


@function()
def remote_set(
    context: Context, /, cwd: str, url: str, remote: str = "origin", user: Optional[str] = None,
    https_user: Optional[str] = None, https_pass: Optional[str] = None, **ignored: Any,
) -> Dict[str, str]:  # fmt: skip
    """Set the URL of a remote; return {"fetch": URL, "push": URL}."""
    account = Account(user, https_user=https_user, https_pass=https_pass)
    if remote in remotes(context, cwd, user):
        git(context, ["remote", "remove", word(remote, "remote")], cwd, account)
    git(context, ["remote", "add", word(remote, "remote"), address(url, account)], cwd, account)
    return dict(remote_get(context, cwd, remote, user))


@function(reads=True)
def is_worktree(context: Context, /, cwd: str, user: Optional[str] = None, **ignored: Any) -> bool:
    """Return whether *cwd* is an additional work tree."""
    return Path(cwd, ".git").is_file()


@function(reads=True)
def status(context: Context, /, cwd: str, user: Optional[str] = None, **ignored: Any) -> Any:
    """Return the changed paths of a checkout by state."""
    found: Dict[str, List[str]] = {}
    text = git(context, ["status", "--porcelain", "-z"], cwd, Account(user))
    names = {"M": "modified", "A": "new", "D": "deleted", "?": "untracked"}
    for entry in text.split("\0"):
        letter = entry[:2].strip()[:1]
        if letter in names:
            found.setdefault(names[letter], []).append(entry[3:])
    return found


@function(reads=True)
def config_get(
    context: Context,
    /,
    key: str,
    cwd: Optional[str] = None,
    user: Optional[str] = None,
    all: bool = False,
    **scope: Any,
) -> Any:
    """Return a setting of git, or None; *all*: every value, global_: the user's own setting."""
    everywhere = bool(scope.get("global_") or scope.get("global"))
    found = config_values(context, key, cwd, user, "--global" if everywhere else "")
    if all:
        return found or None
    return found[-1] if found else None


def config_values(
    context: Context, key: str, cwd: Optional[str], user: Optional[str], place: str = ""
) -> List[str]:
    """Return every value of a setting.

    Args:
        context: of the call.
        key: the setting.
        cwd: folder of the repository.
        user: owner of the setting.
        place: "--global" (the user's own), "--local" (the repository's), "" (the effective one).
    """
    words = ["config", *([place] if place else []), "--get-all", word(key, "key")]
    ran = try_git(context, words, None if place == "--global" else cwd, Account(user))
    return ran.stdout.splitlines() if ran.retcode == 0 else []


@function()
def config_set(
    context: Context,
    /,
    key: str,
    value: Any = None,
    multivar: Any = None,
    cwd: Optional[str] = None,
    user: Optional[str] = None,
    add: bool = False,
    **scope: Any,
) -> List[str]:
    """Set a setting of git; return its new values.

    Raises:
        UsageError: neither or both of value and multivar.
    """
    if (value is None) == (multivar is None):
        raise UsageError("git.config_set needs either a value or a multivar")
    everywhere = bool(scope.get("global_") or scope.get("global"))
    place = ["--global"] if everywhere else []
    folder, account = None if everywhere else cwd, Account(user)
    values = [str(each) for each in (multivar if multivar is not None else [value])]
    for position, text in enumerate(values):
        kind = ["--add"] if add or position else ["--replace-all"]
        git(context, ["config", *place, *kind, word(key, "key"), text], folder, account)
    return config_values(context, key, cwd, user, "--global" if everywhere else "")


@function()
def config_unset(
    context: Context,
    /,
    key: str,
    value_regex: Optional[str] = None,
    cwd: Optional[str] = None,
    user: Optional[str] = None,
    all: bool = False,
    **scope: Any,
) -> bool:
    """Remove a setting of git."""
    everywhere = bool(scope.get("global_") or scope.get("global"))
    kind = "--unset-all" if all else "--unset"
    words = ["config", *(["--global"] if everywhere else []), kind, word(key, "key")]
    words += [value_regex] if value_regex else []
    git(context, words, None if everywhere else cwd, Account(user))
    return True


@function(reads=True)
def rev_parse(
    context: Context, /, cwd: str, rev: Optional[str] = None, opts: str = "",
    user: Optional[str] = None, **ignored: Any,
) -> str:  # fmt: skip
    """Return what `git rev-parse` prints."""
    words = ["rev-parse", *_options(opts), *([word(rev, "revision")] if rev else [])]
    return git(context, words, cwd, Account(user)).strip()


@function()
def submodule(
    context: Context,
    /,
    cwd: str,
    command: str,
    opts: str = "",
    user: Optional[str] = None,
    password: Optional[str] = None,
    identity: Any = None,
    **ignored: Any,
) -> str:
    """Run `git submodule COMMAND`, such as "update"."""
    words = ["submodule", word(command, "command"), *_options(opts)]
    return git(context, words, cwd, Account(user, password, identity))


@function(reads=True)
def describe(
    context: Context, /, cwd: str, rev: str = "HEAD", user: Optional[str] = None, **ignored: Any
) -> str:
    """Return the output of `git describe` for a revision."""
    words = ["describe", "--always", word(rev, "revision")]
    return git(context, words, cwd, Account(user)).strip()


@function(reads=True)
def has_revision(context: Context, cwd: str, rev: str, user: Optional[str] = None) -> bool:
    """Return whether a revision exists in a checkout."""
    return bool(local_commit(context, cwd, rev, Account(user)))
