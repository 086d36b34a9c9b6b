"""One checkout of a repository: its current state, the goal, and the git commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.modules.file.change import make_folders, remove_path
from catena.modules.git.command import (
    Account,
    address,
    commit_of,
    git,
    is_sha,
    local_commit,
    remote_refs,
    try_git,
    word,
)
from catena.modules.shared.arguments import truth
from catena.modules.shared.attributes import Wanted

_SHORT = 7


@dataclass(frozen=True)
class GitOptions:
    """Arguments of git.latest, cloned and detached, with Salt's names and defaults."""

    rev: Any = "HEAD"
    target: Optional[str] = None
    branch: Optional[str] = None
    user: Optional[str] = None
    password: Optional[str] = None
    update_head: bool = True
    force_checkout: bool = False
    force_clone: bool = False
    force_fetch: bool = False
    #: True, or "remote-changes": only if the remote has new commits.
    force_reset: Any = False
    submodules: bool = False
    bare: bool = False
    mirror: bool = False
    remote: str = "origin"
    fetch_tags: bool = True
    sync_tags: bool = True
    depth: Optional[int] = None
    identity: Any = None
    https_user: Optional[str] = None
    https_pass: Optional[str] = None
    refspec_branch: str = "*"
    refspec_tag: str = "*"
    output_encoding: Optional[str] = None

    def account(self) -> Account:
        """Return the user that runs git, and the credentials."""
        return Account(self.user, self.password, self.identity, self.https_user, self.https_pass)


@dataclass(frozen=True)
class Goal:
    """The wanted revision of the checkout."""

    url: str
    rev: str
    commit: str
    #: The revision is a branch of the remote.
    is_branch: bool


def goal_of(context: Context, url: str, options: GitOptions) -> Goal:
    """Resolve *rev* at the remote.

    Raises:
        CommandExecutionError: the remote can't be reached or has no such revision.
    """
    rev = str(options.rev or "HEAD")
    refs = remote_refs(context, url, options.account())
    found = commit_of(refs, rev)
    if not found and is_sha(rev.lower()):
        found = rev.lower()
    if not found and refs:
        raise CommandExecutionError(
            f"No revision matching '{rev}' exists in the remote repository"
        )
    if not found:
        raise CommandExecutionError("Remote repository is empty")
    return Goal(url, rev, found, f"refs/heads/{rev}" in refs)


class Checkout:
    """The folder of a checkout.

    Args:
        context: of the run.
        target: the folder.
        options: arguments of the state.
    """

    def __init__(self, context: Context, target: Path, options: GitOptions) -> None:
        self._context = context
        self.target = target
        self._options = options
        self.bare = truth(options.bare) or truth(options.mirror)

    def git(self, *words: str) -> str:
        """Run git in the folder and return what it printed."""
        return git(self._context, words, str(self.target), self._options.account())

    def exists(self) -> bool:
        """Return whether the folder is a repository."""
        marker = "HEAD" if self.bare else ".git"
        return (self.target / marker).exists()

    def occupied(self) -> bool:
        """Return whether the folder has contents that are no repository and block a clone."""
        if self.target.is_dir():
            return any(self.target.iterdir())
        return self.target.exists() or self.target.is_symlink()

    def make_way(self, test: bool) -> str:
        """Empty the folder if force_clone is set; return why a clone is impossible, or ""."""
        if not self.occupied():
            return ""
        if not truth(self._options.force_clone):
            return (
                f"Target '{self.target}' exists, is non-empty and is not a git repository. "
                "Set the 'force_clone' option to True to remove this directory's contents and "
                "proceed with cloning the remote repository"
            )
        if not test:
            remove_path(self.target)
        return ""

    def clone(self, goal: Goal) -> None:
        """Clone the repository and check out the goal."""
        options = self._options
        words = ["clone"]
        if truth(options.mirror):
            words.append("--mirror")
        elif truth(options.bare):
            words.append("--bare")
        else:
            words += ["--no-checkout", "--origin", word(options.remote, "remote")]
        if options.depth:
            words += ["--depth", str(int(options.depth))]
            words += ["--branch", word(goal.rev, "revision")] if goal.rev != "HEAD" else []
        words += ["--", address(goal.url, options.account()), str(self.target)]
        parent = self.target.parent
        if not parent.is_dir():
            make_folders(parent, Wanted(options.user))
        git(self._context, words, str(parent), options.account())
        if not self.bare:
            self._first_checkout(goal)

    def _first_checkout(self, goal: Goal) -> None:
        options = self._options
        name = options.branch or (goal.rev if goal.is_branch else "")
        if name:
            self.git("checkout", "--force", "-B", word(name, "branch"), goal.commit)
            self._track(name, goal)
        elif goal.rev == "HEAD":
            self.git("checkout", "--force")
        else:
            self.git("checkout", "--force", "--detach", goal.commit)
        self.update_submodules()

    def _track(self, name: str, goal: Goal) -> None:
        if goal.is_branch:
            upstream = f"{self._options.remote}/{goal.rev}"
            # Best effort: a shallow clone may lack the remote branch.
            account = self._options.account()
            words = ["branch", f"--set-upstream-to={upstream}", name]
            try_git(self._context, words, str(self.target), account)

    def update_submodules(self) -> None:
        """Update the submodules if the state asks for it."""
        if truth(self._options.submodules):
            self.git("submodule", "update", "--init", "--recursive")

    def commit(self, rev: str = "HEAD") -> str:
        """Return the commit of a local revision, or ""."""
        return local_commit(self._context, str(self.target), rev, self._options.account())

    def branch(self) -> str:
        """Return the current branch, or "" if HEAD is detached."""
        words = ["symbolic-ref", "--quiet", "--short", "HEAD"]
        ran = try_git(self._context, words, str(self.target), self._options.account())
        return ran.stdout.strip() if ran.retcode == 0 else ""

    def dirty(self) -> bool:
        """Return whether tracked files have local changes."""
        return bool(self.git("status", "--porcelain", "--untracked-files=no").strip())

    def remote_url(self) -> str:
        """Return the URL of the configured remote, or ""."""
        words = ["config", "--get", f"remote.{word(self._options.remote, 'remote')}.url"]
        ran = try_git(self._context, words, str(self.target), self._options.account())
        return ran.stdout.strip() if ran.retcode == 0 else ""

    def set_remote(self, url: str) -> None:
        """Set the URL of the remote."""
        remote = word(self._options.remote, "remote")
        kind = "set-url" if self.remote_url() else "add"
        self.git("remote", kind, remote, address(url, self._options.account()))

    def fetch(self) -> None:
        """Fetch branches, and tags if the state asks for them."""
        options = self._options
        words = ["fetch", "--prune"] if self.bare else ["fetch"]
        words += ["--force"] if truth(options.force_fetch) else []
        words += ["--depth", str(int(options.depth))] if options.depth else []
        remote = word(options.remote, "remote")
        words.append(remote)
        if not self.bare:
            branches = word(options.refspec_branch, "refspec")
            words.append(f"+refs/heads/{branches}:refs/remotes/{remote}/{branches}")
        if truth(options.fetch_tags):
            tags = word(options.refspec_tag, "refspec")
            words.append(f"+refs/tags/{tags}:refs/tags/{tags}")
        self.git(*words)

    def refs(self) -> str:
        """Return all refs with their commits, to detect the changes of a fetch."""
        return self.git("for-each-ref", "--format=%(objectname) %(refname)")

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether commit *old* is an ancestor of *new*."""
        words = ["merge-base", "--is-ancestor", old, new]
        ran = try_git(self._context, words, str(self.target), self._options.account())
        return ran.retcode == 0

    def switch(self, name: str, goal: Goal) -> None:
        """Check out branch *name*; create it at the goal if it is missing."""
        force = ["--force"] if truth(self._options.force_checkout) else []
        if self.commit(f"refs/heads/{word(name, 'branch')}"):
            self.git("checkout", *force, name)
        else:
            self.git("checkout", *force, "-b", name, goal.commit)
            self._track(name, goal)


def short(commit: str) -> str:
    """Return the abbreviated hash of a commit for messages."""
    return commit[:_SHORT]


def checked(options: GitOptions) -> Path:
    """Return the target.

    Raises:
        UsageError: the target is missing or relative, or bare and branch are combined.
    """
    target = Path(str(options.target or ""))
    if not target.is_absolute():
        raise UsageError(f"target '{options.target or ''}' is not an absolute path")
    if (truth(options.bare) or truth(options.mirror)) and truth(options.submodules):
        raise UsageError("submodules need a checkout, not a bare repository")
    return target


def revision(old: Optional[str], new: str) -> Dict[str, Mapping[str, Any]]:
    """Return the changes of a checkout whose commit changed."""
    return {"revision": {"old": old or None, "new": new}}


def sentences(parts: List[str]) -> str:
    """Join sentences to one comment."""
    return " ".join(f"{part.rstrip('.')}." for part in parts)
