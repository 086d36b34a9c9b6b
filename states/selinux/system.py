"""selinux.mode, selinux.boolean and selinux.module*."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, LimitError, UsageError
from catena.core.files import read_limited, write_durable
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.selinux import parse
from catena.modules.selinux.functions import module_file
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would

_MODES = {"e": "Enforcing", "p": "Permissive", "d": "Disabled"}
_WORDS = {
    **dict.fromkeys(("1", "on", "true"), "Enforcing"),
    **dict.fromkeys(("0", "off", "false"), "Permissive"),
}
#: Maximum size of the file that remembers which modules were installed, in bytes.
_LIMIT = 1024 * 1024


def _mode(name: Any) -> Optional[str]:
    """Return the mode that a name means; YAML reads on and off as booleans."""
    text = str(name).lower()
    return _WORDS.get(text) or _MODES.get(text[:1])


@state()
def mode(context: Context, name: str) -> StateResult:
    """Make sure that SELinux runs in a mode, now and at every boot.

    Args:
        context: of the run.
        name: enforcing, permissive or disabled. To enable it on a host where it is disabled, and
            to disable it, takes a reboot.
    """
    wanted = _mode(name)
    if wanted is None:
        return failed(f"{name} is not an accepted mode")
    running, configured = context.call("selinux.getenforce"), context.call("selinux.getconfig")
    needs_boot = "Disabled" in (running, wanted) and running != wanted
    if configured == wanted and needs_boot:
        return done(f"SELinux is configured for {wanted} mode, which takes a reboot")
    if running == configured == wanted or (running == wanted and configured is None):
        return done(f"SELinux is already in {wanted} mode")
    changes = {"old": configured if running == wanted else running, "new": wanted}
    if context.test:
        return would(f"SELinux mode is set to be changed to {wanted}", changes)
    try:
        after = context.call("selinux.setenforce", wanted)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Failed to set SELinux to {wanted} mode: {problem}")
    if after != wanted and not needs_boot:
        return failed(f"Failed to set SELinux to {wanted} mode")
    told = ", which takes a reboot" if needs_boot else ""
    return done(f"SELinux has been set to {wanted} mode{told}", changes)


def _booleans(name: str, value: Any, several: Any) -> Dict[str, Any]:
    """Return the wanted values by name.

    Raises:
        UsageError: `booleans` is neither a list nor a mapping.
    """
    if not several:
        return {str(name): value}
    if isinstance(several, Mapping):
        return dict(several)
    if not isinstance(several, (list, tuple)):
        raise UsageError(f"booleans must be a list, not {type(several).__name__}")
    found: Dict[str, Any] = {}
    for one in several:
        found.update(one if isinstance(one, Mapping) else {str(one): value})
    return found


def _sorted(
    wanted: Mapping[str, Any], there: Mapping[str, Mapping[str, str]], *, persist: bool
) -> Tuple[List[str], Dict[str, str], Dict[str, Any]]:
    """Return the right booleans, those to set, and the changes.

    Raises:
        UsageError: no such boolean, or a value that is none.
    """
    right, change, changes = [], {}, {}
    for name, value in wanted.items():
        if name not in there:
            raise UsageError(f"Boolean {name} is not available")
        word = parse.on_or_off(value)
        if word is None:
            raise UsageError(f"{value} is not a valid value for the boolean {name}")
        now, default = there[name]["State"], there[name]["Default"]
        if now == word and (default == word or not persist):
            right.append(name)
            continue
        change[name] = word
        old, new = ((now, default), (word, word)) if persist else (now, word)
        changes[name] = {"old": old, "new": new}
    return right, change, changes


@state()
def boolean(
    context: Context, name: str, value: Any = None, booleans: Any = None, persist: Any = False
) -> StateResult:
    """Make sure that booleans of the policy are on or off.

    Args:
        context: of the run.
        name: of the boolean.
        value: on or off.
        booleans: several instead of the name: a list of names, or of {name: value}.
        persist: also at every boot.
    """
    try:
        wanted = _booleans(name, value, booleans)
        there = context.call("selinux.list_sebool")
        right, change, changes = _sorted(wanted, there, persist=truth(persist))
        told = []
        if right:
            told.append(
                "The following booleans were in the correct state: " + ", ".join(sorted(right))
            )
        if not change:
            return done("\n".join(told))
        names = ", ".join(sorted(change))
        if context.test:
            told.append(f"The following booleans would be changed: {names}")
            return would("\n".join(told), changes)
        context.call("selinux.setsebools", change, truth(persist))
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done("\n".join([*told, f"The following booleans have been changed: {names}"]), changes)


@state()
def module(
    context: Context,
    /,
    name: str,
    module_state: Any = "Enabled",
    version: Any = "any",
    **opts: Any,
) -> StateResult:
    """Make sure that a module of the policy is enabled, disabled, installed or removed.

    Args:
        context: of the run.
        name: of the module.
        module_state: enabled or disabled.
        version: fails unless the module has it; newer systems have no versions.
        opts: install (from source), source (path or salt://), remove.
    """
    if truth(opts.get("install")) and truth(opts.get("remove")):
        return failed("Cannot install and remove at the same time")
    if truth(opts.get("remove")):
        return module_remove(context, name)
    installed = done("")
    if truth(opts.get("install")):
        installed = module_install(context, str(opts.get("source") or name))
        if installed.result is not True:
            return installed
    try:
        found = _toggled(context, name, module_state, version)
    except (CommandExecutionError, UsageError) as problem:
        found = failed(str(problem))
    return StateResult(found.result, {**installed.changes, **found.changes}, found.comment)


def _toggled(context: Context, name: str, wanted: Any, version: Any) -> StateResult:
    there = context.call("selinux.list_semod")
    if name not in there:
        return failed(f"Module {name} is not available")
    words = {"enabled": "enabled", "disabled": "disabled", "on": "enabled", "off": "disabled"}
    text = str(wanted).lower()
    word = words.get(text) or words.get(parse.on_or_off(wanted) or "")
    if word is None:
        return failed(f"{wanted} is not a valid state for the {name} module.")
    have = there[name]["Version"]
    if version != "any" and have != version:
        return failed(
            f"Module version is {have} and does not match the desired version of {version} or "
            "you are using semodule >= 2.4"
        )
    if there[name]["Enabled"] == (word == "enabled"):
        return done(f"Module {name} is in the desired state")
    if context.test:
        return would(f"Module {name} is set to be toggled to {wanted}")
    context.call("selinux.setsemod", name, word)
    return done(f"Module {name} has been set to {wanted}", {name: word})


def _store(context: Context) -> Path:
    return Path(context.host.cache_dir) / "selinux-modules.json"


def _installed(context: Context) -> Dict[str, str]:
    """Return the hashes of the files that were installed, by module.

    The policy has a module in another form, which can't be compared with its file.
    """
    try:
        found = json.loads(read_limited(_store(context), _LIMIT))
    except (OSError, ValueError, LimitError):
        return {}
    return found if isinstance(found, dict) else {}


@state()
def module_install(context: Context, name: str) -> StateResult:
    """Make sure that a module of the policy is installed from a file.

    Args:
        context: of the run.
        name: path of the file, or salt://. It is installed again when it has changed.
    """
    label = Path(name).stem
    try:
        path = module_file(context, name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        there = context.call("selinux.list_semod")
        if label in there and _installed(context).get(label) == digest:
            return done(f"Module {name} is already installed")
        if context.test:
            return would(f"Module {name} is set to be installed")
        context.call("selinux.install_semod", name)
        text = json.dumps({**_installed(context), label: digest})
        write_durable(_store(context), text.encode("utf-8"))
    except (CommandExecutionError, UsageError, OSError) as problem:
        return failed(f"Failed to install module {name}: {problem}")
    return done(f"Module {name} has been installed", {label: "installed"})


@state()
def module_remove(context: Context, name: str) -> StateResult:
    """Make sure that a module of the policy does not exist.

    Args:
        context: of the run.
        name: of the module.
    """
    try:
        if name not in context.call("selinux.list_semod"):
            return done(f"Module {name} is not available")
        if context.test:
            return would(f"Module {name} is set to be removed")
        context.call("selinux.remove_semod", name)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Failed to remove module {name}: {problem}")
    return done(f"Module {name} has been removed", {name: "removed"})
