"""git.present, config_set and config_unset: new repositories, and settings of git."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.git.command import Account, git, word
from catena.modules.git.functions import config_values
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would


@state()
def present(
    context: Context,
    name: str,
    force: bool = False,
    bare: bool = True,
    template: Optional[str] = None,
    separate_git_dir: Optional[str] = None,
    shared: Any = None,
    user: Optional[str] = None,
    password: Optional[str] = None,
) -> StateResult:
    """Create a repository in the folder *name*.

    Args:
        context: of the run.
        name: absolute path.
        force: create it in a folder with other contents.
        bare: create a bare repository.
        template: template folder of new repositories.
        separate_git_dir: folder for the data of the repository.
        shared: git's --shared: true, group, all or an octal mode.
        user: who owns it.
        password: accepted without effect; it exists for Windows.
    """
    target = Path(name)
    if not target.is_absolute():
        return failed(f"{name} is not an absolute path")
    marker = target / ("HEAD" if truth(bare) else ".git")
    if marker.exists():
        return done(f"Repository already exists at {name}")
    if target.is_dir() and any(target.iterdir()) and not truth(force):
        return failed(f"Target '{name}' exists, is non-empty, and is not a git repository")
    kind = "bare repository" if truth(bare) else "repository"
    if context.test:
        return would(f"New {kind} would be created at {name}", {"new": name})
    words = ["init", *(["--bare"] if truth(bare) else [])]
    words += [f"--template={template}"] if template else []
    words += [f"--separate-git-dir={separate_git_dir}"] if separate_git_dir else []
    words += [f"--shared={str(shared).lower()}"] if shared is not None else []
    try:
        git(context, [*words, word(name, "folder")], None, Account(user))
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done(f"Initialized {kind} in {name}", {"new": name})


def _everywhere(options: Any) -> bool:
    return truth(options.get("global") or options.get("global_"))


def _place(everywhere: bool) -> str:
    """Return the scope of the settings; inherited settings are not the repository's own."""
    return "--global" if everywhere else "--local"


@state()
def config_set(
    context: Context,
    /,
    name: str,
    value: Any = None,
    multivar: Any = None,
    repo: Optional[str] = None,
    user: Optional[str] = None,
    **options: Any,
) -> StateResult:
    """Set a value, or the values *multivar*, of a setting of git.

    Args:
        context: of the run.
        name: the setting, such as user.email.
        value: its value.
        multivar: its values.
        repo: folder of the repository; without it and with `global`, the user's own setting.
        user: owner of the setting.
        options: global.
    """
    everywhere = _everywhere(options)
    if (value is None) == (multivar is None):
        return failed("Only one of 'value' and 'multivar' is permitted, and one is needed")
    if not everywhere and not repo:
        return failed("Non-global config options require the 'repo' argument to be set")
    wanted = [_text(each) for each in (multivar if multivar is not None else [value])]
    try:
        before = config_values(context, name, repo, user, _place(everywhere))
        where = "Global key" if everywhere else "Key"
        shown = repr(wanted[0]) if len(wanted) == 1 else str(wanted)
        if before == wanted:
            return done(f"{where} '{name}' is already set to {shown}")
        changes = {name: {"old": before or None, "new": wanted}}
        if context.test:
            return would(f"{where} '{name}' would be set to {shown}", changes)
        given = {"value": wanted[0]} if multivar is None else {"multivar": wanted}
        context.call("git.config_set", name, cwd=repo, user=user, global_=everywhere, **given)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done(f"{where} '{name}' was set to {shown}", changes)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@state()
def config(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Set a value of a setting of git: the old name of git.config_set, with `is_global`."""
    if "is_global" in arguments:
        arguments.setdefault("global", arguments.pop("is_global"))
    found: StateResult = config_set(context, name, **arguments)
    return found


@state()
def config_unset(
    context: Context,
    /,
    name: str,
    value_regex: Optional[str] = None,
    repo: Optional[str] = None,
    user: Optional[str] = None,
    **options: Any,
) -> StateResult:
    """Remove settings of git.

    Args:
        context: of the run.
        name: regular expression that the whole name of a setting must match.
        value_regex: only remove values that this matches.
        repo: folder of the repository; without it and with `global`, the user's own settings.
        user: owner of the settings.
        options: all (several values of one setting), global.
    """
    everywhere = _everywhere(options)
    if not everywhere and not repo:
        return failed("Non-global config options require the 'repo' argument to be set")
    try:
        gone = [key for key in _keys(context, repo, user, everywhere) if re.fullmatch(name, key)]
        place = _place(everywhere)
        found = {key: config_values(context, key, repo, user, place) for key in gone}
        if value_regex:
            found = {k: [v for v in vs if re.search(value_regex, v)] for k, vs in found.items()}
        found = {key: values for key, values in found.items() if values}
        if not found:
            return done(f"No matching keys are set for '{name}'")
        if any(len(v) > 1 for v in found.values()) and not truth(options.get("all")):
            return failed("Multiple values are set; 'all' removes them all")
        changes = {key: {"old": values, "new": None} for key, values in found.items()}
        if context.test:
            return would(f"{len(found)} keys would be unset", changes)
        for key in found:
            context.call(
                "git.config_unset", key, value_regex, repo, user, all=True, global_=everywhere
            )
    except re.error as problem:
        return failed(f"{name!r} is not a regular expression: {problem}")
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done(f"Unset: {', '.join(found)}", changes)


def _keys(
    context: Context, repo: Optional[str], user: Optional[str], everywhere: bool
) -> List[str]:
    words = ["config", _place(everywhere), "--name-only", "--list"]
    text = git(context, words, None if everywhere else repo, Account(user))
    return list(dict.fromkeys(text.splitlines()))
