"""Run the program git; each value from an SLS file is a separate, checked argument."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any, Dict, List, Mapping, Optional, Sequence
from urllib.parse import quote, urlsplit, urlunsplit

from catena.core.addresses import hide_credentials
from catena.core.context import Context
from catena.core.dry_run import only_looking
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.modules.shared.arguments import listed
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import Ran
from catena.modules.shared.command.run import run as run_command

_SHA = re.compile(r"[0-9a-f]{40}\Z")
#: Read-only commands of git, in the forms used here.
_LOOKS = frozenset(
    (
        "--version", "describe", "diff", "for-each-ref", "log", "ls-remote", "ls-tree",
        "merge-base", "rev-list", "rev-parse", "status", "symbolic-ref",
    )
)  # fmt: skip
#: Options with which `git config` only reads.
_CONFIG_LOOKS = frozenset(("--get", "--get-all", "--get-regexp", "--list"))


#: `git status` writes what it found into the index unless this is set.
_NO_LOCKS = {"GIT_OPTIONAL_LOCKS": "0"}


@dataclass(frozen=True)
class Account:
    """The user that runs git, and the credentials for a server."""

    user: Optional[str] = None
    password: Optional[str] = None
    #: Paths of private keys, in order of use.
    identity: Any = None
    https_user: Optional[str] = None
    https_pass: Optional[str] = None


#: The user of this process with their own keys.
NO_ACCOUNT = Account()


def word(text: Any, what: str) -> str:
    """Return *text* as an argument that git can't mistake for an option.

    Raises:
        UsageError: *text* begins with a dash, or is empty.
    """
    found = str(text)
    if not found or found.startswith("-") or "\0" in found:
        raise UsageError(f"{found[:100]!r} is no {what} for git")
    return found


def address(url: Any, account: Account) -> str:
    """Return a repository's URL, with user and password for https inserted.

    Raises:
        UsageError: the URL is invalid, or uses a transport that runs programs (ext::).
    """
    text = word(url, "repository")
    if re.match(r"[A-Za-z0-9+.-]+::", text):
        raise UsageError(f"{hide_credentials(text)[:100]!r}: git's remote helpers are not used")
    if not account.https_user or not text.startswith(("http://", "https://")):
        return text
    parts = urlsplit(text)
    login = quote(account.https_user, safe="")
    if account.https_pass:
        login += f":{quote(account.https_pass, safe='')}"
    place = f"{login}@{parts.netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=place))


def _environment(account: Account) -> Dict[str, str]:
    env = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true"}
    keys = [str(key) for key in listed(account.identity)]
    if keys:
        for key in keys:
            if not key.startswith("/") or not re.fullmatch(r"[\w./@+~-]+", key):
                raise UsageError(f"identity {key[:100]!r} must be the absolute path of a key")
        ssh = "ssh -o BatchMode=yes -o IdentitiesOnly=yes"
        env["GIT_SSH_COMMAND"] = ssh + "".join(f" -i {key}" for key in keys)
    return env


def try_git(
    context: Context,
    words: Sequence[str],
    cwd: Optional[str] = None,
    account: Account = NO_ACCOUNT,
    env: Optional[Mapping[str, str]] = None,
) -> Ran:
    """Run git and return its exit code and output."""
    looks = _looks(words)
    options = RunOptions(
        cwd=cwd,
        runas=account.user,
        python_shell=False,
        env={**_environment(account), **(_NO_LOCKS if looks else {}), **(env or {})},
    )
    with only_looking() if looks else nullcontext():
        return run_command(context, ["git", *words], options)


def _looks(words: Sequence[str]) -> bool:
    """Return whether git only reads with these arguments."""
    if words[0] == "config":
        return not _CONFIG_LOOKS.isdisjoint(words)
    # With a second name, symbolic-ref changes the first one.
    names = [each for each in words[1:] if not each.startswith("-")]
    return words[0] in _LOOKS and not (words[0] == "symbolic-ref" and len(names) > 1)


def git(
    context: Context,
    words: Sequence[str],
    cwd: Optional[str] = None,
    account: Account = NO_ACCOUNT,
) -> str:
    """Run git and return what it printed.

    Raises:
        CommandExecutionError: git failed; the message is git's own without passwords.
    """
    ran = try_git(context, words, cwd, account)
    if ran.retcode:
        said = hide_credentials((ran.stderr or ran.stdout).strip())
        shown = hide_credentials(" ".join(words[:3]))
        raise CommandExecutionError(f"git {shown} failed: {said or ran.retcode}")
    return ran.stdout


def is_sha(text: str) -> bool:
    """Return whether *text* is a full commit hash."""
    return bool(_SHA.match(text))


def remote_refs(
    context: Context, url: str, account: Account, cwd: Optional[str] = None
) -> Dict[str, str]:
    """Return the commits of a remote repository by ref (`HEAD`, `refs/heads/main`, …).

    Raises:
        CommandExecutionError: the repository can't be reached.
    """
    text = git(context, ["ls-remote", "--", address(url, account)], cwd, account)
    found = {}
    for line in text.splitlines():
        sha, _, ref = line.partition("\t")
        if ref:
            found[ref] = sha
    return found


def commit_of(refs: Mapping[str, str], rev: str) -> str:
    """Return the commit that *rev* means among a repository's refs, or "".

    A branch takes precedence over a tag; an annotated tag resolves to its commit.
    """
    for ref in (f"refs/heads/{rev}", f"refs/tags/{rev}^{{}}", f"refs/tags/{rev}", rev):
        if ref in refs:
            return refs[ref]
    return ""


def local_commit(context: Context, cwd: str, rev: str, account: Account) -> str:
    """Return the commit of *rev* in the checkout *cwd*, or "" if there is none."""
    words = ["rev-parse", "--verify", "--quiet", f"{word(rev, 'revision')}^{{commit}}"]
    ran = try_git(context, words, cwd, account)
    return ran.stdout.strip() if ran.retcode == 0 else ""


def lines(text: str) -> List[str]:
    """Return the non-empty lines of git's output."""
    return [line for line in text.splitlines() if line.strip()]
