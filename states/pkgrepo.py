"""pkgrepo.*: repositories of the package manager, and their keys."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.plugins import state
from catena.core.redact import hide_url_passwords
from catena.core.types import StateResult
from catena.modules.pkg.repos.functions import (
    carry_out,
    refresh_after,
    refresh_pending,
    refuse_masks,
    repositories,
)
from catena.modules.pkg.repos.keys import key_source
from catena.modules.pkg.repos.plan import RepoPlan
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would

_TEST = (
    "This may cause pkg states to behave differently than stated if this action is repeated "
    "without test=True, due to the differences in the configured repositories."
)


@state()
def managed(
    context: Context,
    /,
    name: str,
    ppa: Optional[str] = None,
    copr: Optional[str] = None,
    aptkey: bool = True,
    **options: Any,
) -> StateResult:
    """Configure a package repository and its key.

    Args:
        context: the call's context.
        name: with apt a line `deb [OPTION=VALUE] URI SUITE COMPONENT`, elsewhere an alias.
        ppa: Ubuntu's archive OWNER/NAME, instead of *name*.
        copr: Fedora's archive OWNER/NAME, instead of *name*.
        aptkey: ignored, as apt-key is deprecated: keys are files that `signed-by` names.
        options: enabled or disabled, and the options of pkg.mod_repo.
    """
    repo = _prefixed("ppa", ppa) or _prefixed("copr", copr) or name
    return _shown(_managed(context, name, repo, _given(options)))


def _managed(context: Context, name: str, repo: str, given: Dict[str, Any]) -> StateResult:
    mistake, warnings = _mistake(given)
    if mistake:
        return failed(mistake)
    # A named repository is enabled, unless its line is a comment. dnf and zypper show the name.
    if not {"enabled", "disabled"} & {*given} and not name.startswith("#"):
        given["enabled"] = True
    given.setdefault("humanname", name)
    try:
        refuse_masks(repo, given)
        plan = repositories(context).planned(repo, given, context.saltenv)
    except CatenaError as error:
        return failed(f"Failed to configure repo '{name}': {error}")
    result = _configured(context, name, plan, given)
    return StateResult(result.result, result.changes, result.comment, (*warnings, *plan.warnings))


def _configured(
    context: Context, name: str, plan: RepoPlan, options: Mapping[str, Any]
) -> StateResult:
    """Carry out a plan, or report it in test mode."""
    if not plan.acts():
        return _unchanged(context, name, plan, options)
    changes = {"repo": name} if plan.changes == {"repo": plan.name} else plan.changes
    if context.test:
        return would(f"Package repo '{name}' would be configured. {_TEST}", changes)
    try:
        carry_out(context, plan)
    except CatenaError as error:
        return failed(f"Failed to configure repo '{name}': {error}")
    try:
        refresh_after(context, plan.name, options)
    except CatenaError as error:
        text = f"Failed to configure repo '{name}': it is written, but the refresh failed: {error}"
        return failed(text, changes)
    return done(f"Configured package repo '{name}'", changes)


def _unchanged(
    context: Context, name: str, plan: RepoPlan, options: Mapping[str, Any]
) -> StateResult:
    """Fetch the indexes if an earlier run failed to; nothing else is to be done."""
    try:
        fetched = not context.test and refresh_pending(context, plan.name, options)
    except CatenaError as error:
        text = f"Failed to configure repo '{name}': it is written, but the refresh failed: {error}"
        return failed(text)
    if fetched:
        return done(
            f"Package repo '{name}' already configured; its indexes were fetched, because the "
            "last refresh had failed"
        )
    if plan.plain or context.test:
        return done(f"Package repo '{name}' already configured")
    return done(f"Configured package repo '{name}'")


def _shown(result: StateResult) -> StateResult:
    """Return a result without the passwords of addresses."""
    changes: Mapping[str, Any] = hide_url_passwords(result.changes)
    comment = str(hide_url_passwords(result.comment))
    return StateResult(
        result.result, changes, comment, tuple(map(hide_url_passwords, result.warnings))
    )


def _given(options: Mapping[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in options.items() if not key.startswith("__")}


def _prefixed(kind: str, archive: Optional[str]) -> str:
    if not archive:
        return ""
    return archive if str(archive).startswith(f"{kind}:") else f"{kind}:{archive}"


def _mistake(options: Mapping[str, Any]) -> Tuple[str, Tuple[str, ...]]:
    """Return what is wrong with the arguments, or "", and warnings."""
    if "repo" in options:
        return (
            "'repo' is not a supported argument for this state. The 'name' argument is probably "
            "what was intended.",
            (),
        )
    if options.get("enabled") is not None and options.get("disabled") is not None:
        return "Only one of enabled/disabled is allowed", ()
    try:
        source = key_source(options)
    except CatenaError as error:
        return str(error), ()
    insecure = [url for url in source.urls if url.startswith("http://")]
    if insecure and not truth(options.get("allow_insecure_key", True)):
        return "Cannot have 'key_url' using http with 'allow_insecure_key' set to False", ()
    return "", tuple(
        f"key_url {url}: anybody on the way can replace a key that is fetched without TLS; use "
        "https:// or salt://"
        for url in insecure
    )


@state()
def absent(
    context: Context,
    /,
    name: str,
    ppa: Optional[str] = None,
    copr: Optional[str] = None,
    **options: Any,
) -> StateResult:
    """Remove a package repository.

    Args:
        context: the call's context.
        name: with apt the whole line, elsewhere an alias.
        ppa: Ubuntu's archive OWNER/NAME, instead of *name*.
        copr: Fedora's archive OWNER/NAME, instead of *name*.
        options: keyid, to remove that key too; keyid_ppa; refresh.
    """
    repo = _prefixed("ppa", ppa) or _prefixed("copr", copr) or name
    return _shown(_absent(context, repo, _given(options)))


def _absent(context: Context, repo: str, given: Mapping[str, Any]) -> StateResult:
    try:
        plan = repositories(context).removal(repo, given)
    except CatenaError as error:
        return failed(f"Failed to configure repo '{repo}': {error}")
    if not plan.acts():
        return done(f"Package repo {repo} is absent")
    if context.test:
        return would(f"Package repo '{repo}' will be removed. {_TEST}")
    try:
        carry_out(context, plan)
    except CatenaError as error:
        return failed(str(error))
    changes: Dict[str, Any] = {"repo": repo}
    text = f"Removed repo {repo}"
    try:
        if given.get("keyid") is not None or given.get("keyid_ppa") is not None:
            wanted = {key: given.get(key) for key in ("keyid", "keyid_ppa", "keydir")}
            changes["keyid"] = context.call("pkg.del_repo_key", repo, **wanted)
            text += f", and keyid {changes['keyid']}"
    except CatenaError as error:
        return failed(f"{text}, but failed to remove key: {error}", changes)
    try:
        refresh_after(context, repo, given)
    except CatenaError as error:
        return failed(f"{text}, but the refresh failed: {error}", changes)
    return done(text, changes)
