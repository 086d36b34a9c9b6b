"""git.latest, git.cloned and git.detached: checkouts of a remote repository."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from catena.core.addresses import hide_credentials
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import split, truth
from catena.states.answers import done, failed, likely_typos, would
from catena.states.git.checkout import (
    Checkout,
    GitOptions,
    Goal,
    checked,
    goal_of,
    revision,
    sentences,
    short,
)


def _clone(context: Context, checkout: Checkout, goal: Goal, what: str) -> StateResult:
    """Clone into a new or empty folder for the state *what*: latest, cloned or detached."""
    forced = checkout.occupied()
    refused = checkout.make_way(context.test)
    if refused:
        return failed(refused)
    shown = hide_credentials(goal.url)
    changes: Dict[str, Any] = {"forced clone": True} if forced else {}
    if what != "detached":
        changes["new"] = f"{shown} => {checkout.target}"
    if context.test:
        return would(f"Repository {shown} would be cloned to {checkout.target}", changes)
    checkout.clone(goal)
    if what == "latest":
        changes.update(revision(None, checkout.commit()))
    elif what == "detached":
        changes["HEAD"] = {"old": None, "new": checkout.commit()}
    return done(f"{shown} cloned to {checkout.target}", changes)


def _up_to_date(checkout: Checkout) -> StateResult:
    return done(f"Repository {checkout.target} is up-to-date")


def _mirrored(context: Context, checkout: Checkout, goal: Goal) -> StateResult:
    """Fetch into a bare repository."""
    if context.test:
        if checkout.commit(goal.commit):
            return _up_to_date(checkout)
        return would("The repository would be fetched", revision("", goal.commit))
    before = checkout.refs()
    checkout.fetch()
    if checkout.refs() == before:
        return _up_to_date(checkout)
    return done(f"{hide_credentials(goal.url)} was fetched, resulting in updated refs", {
        "refs": "updated"
    })  # fmt: skip


def _moved(checkout: Checkout, goal: Goal, options: GitOptions, old: str) -> str:
    """Move the current branch to the goal; return a description of how.

    Raises:
        CommandExecutionError: commits or changes would be lost, which is not allowed.
    """
    label = f"{options.remote}/{goal.rev}" if goal.is_branch else goal.rev
    where = f"{label} ({short(goal.commit)})"
    if truth(options.force_reset) or options.force_reset == "remote-changes":
        checkout.git("reset", "--hard", goal.commit)
        return f"Repository was hard-reset to {where}"
    if old and not checkout.is_ancestor(old, goal.commit):
        raise CommandExecutionError(
            f"Repository would not be fast-forwarded: it has commits that {where} lacks. Set "
            "'force_reset' to True to discard them"
        )
    if not checkout.branch():
        checkout.git("checkout", "--detach", goal.commit)
        return f"{where} was checked out"
    checkout.git("merge", "--ff-only", goal.commit)
    return f"Repository was fast-forwarded to {where}"


def _plan(checkout: Checkout, goal: Goal, options: GitOptions) -> Tuple[bool, bool, bool]:
    """Return whether the remote's URL, the branch and the commit must change."""
    url = checkout.remote_url()
    other_url = hide_credentials(url) != hide_credentials(goal.url) and url != goal.url
    other_branch = bool(options.branch) and checkout.branch() != options.branch
    return other_url, other_branch, checkout.commit() != goal.commit


def _update(context: Context, checkout: Checkout, goal: Goal, options: GitOptions) -> StateResult:
    """Update an existing checkout to the goal."""
    other_url, other_branch, behind = _plan(checkout, goal, options)
    reset = options.force_reset is True or (behind and truth(options.force_reset))
    dirty = checkout.dirty()
    if not (other_url or other_branch or behind or (reset and dirty)):
        return _up_to_date(checkout)
    old = checkout.commit()
    moves = behind and truth(options.update_head)
    changes: Dict[str, Any] = revision(old, goal.commit) if moves else {}
    if other_branch:
        changes["local branch"] = {"old": checkout.branch() or None, "new": options.branch}
    if other_url:
        changes[f"remotes/{options.remote}"] = {
            "old": hide_credentials(checkout.remote_url()) or None,
            "new": hide_credentials(goal.url),
        }
    if reset and dirty:
        changes = {"forced update": True, **changes}
    if context.test:
        return _foretold(checkout, goal, options, changes)
    parts: List[str] = []
    if other_url:
        checkout.set_remote(goal.url)
    if not checkout.commit(goal.commit) or other_url:
        checkout.fetch()
        parts.append(f"{hide_credentials(goal.url)} was fetched, resulting in updated refs")
    if other_branch and options.branch:
        checkout.switch(options.branch, goal)
        parts.append(f"Branch {options.branch} was checked out")
    if (moves and checkout.commit() != goal.commit) or (reset and dirty):
        if moves and not checkout.is_ancestor(checkout.commit(), goal.commit):
            changes = {"forced update": True, **changes}
        parts.append(_moved(checkout, goal, options, checkout.commit()))
    checkout.update_submodules()
    return done(sentences(parts), changes)


def _foretold(
    checkout: Checkout, goal: Goal, options: GitOptions, changes: Dict[str, Any]
) -> StateResult:
    parts = []
    if not checkout.commit(goal.commit):
        parts.append(f"Remote '{options.remote}' would be fetched")
    if "local branch" in changes:
        parts.append(f"Branch {options.branch} would be checked out")
    if "revision" in changes:
        old = short(checkout.commit())
        parts.append(f"Repository would be updated from {old} to {short(goal.commit)}")
    if not parts:
        parts.append("Repository would be reset")
    return would(sentences(parts), changes)


def _guarded(context: Context, name: str, given: Dict[str, Any], what: str) -> StateResult:
    """Check the arguments of git.latest or a related state, then run it."""
    options, rest = split(GitOptions, given)
    warnings = likely_typos(GitOptions, rest, f"git.{what}")
    try:
        target = checked(options)
        checkout = Checkout(context, target, options)
        if what == "cloned" and checkout.exists():
            result = _kept(context, checkout, options)
        else:
            goal = goal_of(context, name, options)
            result = _reached(context, checkout, goal, options, what)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return StateResult(result.result, result.changes, result.comment, warnings)


def _reached(
    context: Context, checkout: Checkout, goal: Goal, options: GitOptions, what: str
) -> StateResult:
    if not checkout.exists():
        return _clone(context, checkout, goal, what)
    if checkout.bare:
        return _mirrored(context, checkout, goal)
    return _update(context, checkout, goal, options)


def _kept(context: Context, checkout: Checkout, options: GitOptions) -> StateResult:
    """Check out the wanted branch of an existing clone; change nothing else."""
    wanted, present = options.branch, checkout.branch()
    if not wanted or wanted == present or checkout.bare:
        return done(f"Repository already exists at {checkout.target}")
    changes = {"branch": {"old": present or None, "new": wanted}}
    if context.test:
        return would(f"Branch {wanted} would be checked out", changes)
    tip = checkout.commit(f"refs/remotes/{options.remote}/{wanted}") or checkout.commit()
    checkout.switch(wanted, Goal(checkout.remote_url(), wanted, tip, True))
    return done(f"Branch {wanted} was checked out", changes)


@state()
def latest(context: Context, /, name: str, **options: Any) -> StateResult:
    """Clone a repository and update it to the newest commit of a revision.

    Args:
        context: of the run.
        name: address of the repository.
        options: target (absolute path), rev, branch, user, identity, https_user, https_pass,
            force_clone, force_checkout, force_reset, update_head, submodules, bare, mirror,
            remote, depth, fetch_tags, … as in Salt.
    """
    return _guarded(context, name, options, "latest")


@state()
def cloned(context: Context, /, name: str, **options: Any) -> StateResult:
    """Clone a repository once; do not update it later.

    Args:
        context: of the run.
        name: address of the repository.
        options: target, branch, user, identity, https_user, https_pass, … as in Salt.
    """
    given = dict(options)
    given["rev"] = given.get("branch") or "HEAD"
    return _guarded(context, name, given, "cloned")


@state()
def detached(context: Context, /, name: str, rev: str, **options: Any) -> StateResult:
    """Clone a repository and check out a commit, tag or branch as detached HEAD.

    Args:
        context: of the run.
        name: address of the repository.
        rev: the commit, tag or branch.
        options: target, remote, user, identity, force_clone, force_checkout, … as in Salt.
    """
    chosen, rest = split(GitOptions, {**options, "rev": rev, "branch": None})
    warnings = likely_typos(GitOptions, rest, "git.detached")
    try:
        checkout = Checkout(context, checked(chosen), chosen)
        goal = replace(goal_of(context, name, chosen), is_branch=False)
        if not checkout.exists():
            result = _clone(context, checkout, replace(goal, rev=goal.commit), "detached")
        else:
            result = _detach(context, checkout, goal, chosen)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return StateResult(result.result, result.changes, result.comment, warnings)


def _detach(context: Context, checkout: Checkout, goal: Goal, options: GitOptions) -> StateResult:
    old = checkout.commit()
    if old == goal.commit and not checkout.branch():
        return _up_to_date(checkout)
    changes = {"HEAD": {"old": old, "new": goal.commit}}
    if context.test:
        return would(f"{short(goal.commit)} would be checked out", changes)
    if not checkout.commit(goal.commit):
        checkout.fetch()
    force = ["--force"] if truth(options.force_checkout) else []
    checkout.git("checkout", *force, "--detach", goal.commit)
    checkout.update_submodules()
    return done(f"{short(goal.commit)} was checked out", changes)
