"""kmod.*: modules of the kernel, now and at every boot."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import kmod
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would


@dataclass
class _Outcome:
    """What became of several modules."""

    changes: Dict[str, str] = field(default_factory=dict)
    changed: List[str] = field(default_factory=list)
    unchanged: List[str] = field(default_factory=list)
    #: Module and error.
    failed: List[Tuple[str, str]] = field(default_factory=list)


def _told(names: Sequence[str], one: str, several: str) -> List[str]:
    """Return the sentence for one name or for several; none for no name."""
    if not names:
        return []
    return [(one if len(names) == 1 else several).format(", ".join(names))]


def _names(name: str, mods: Any) -> List[str]:
    """Return the modules of a state, each once.

    Raises:
        UsageError: a name can't be that of a module.
    """
    if mods is not None and not isinstance(mods, (list, tuple)):
        raise UsageError(f"mods must be a list, not {type(mods).__name__}")
    return [kmod.checked(one) for one in dict.fromkeys(mods or [name])]


def _present(context: Context, names: Sequence[str], persist: bool) -> List[str]:
    """Return which modules are loaded or built in, and if *persist* also loaded at boot."""
    found = _loaded(context) | kmod.built_in()
    if persist:
        found &= _kept(context)
    return [one for one in names if kmod.plain(one) in found]


def _loaded(context: Context) -> Set[str]:
    return {kmod.plain(one) for one in context.call("kmod.mod_list")}


def _kept(context: Context) -> Set[str]:
    return {kmod.plain(one) for one in context.call("kmod.mod_list", True)}


@state()
def present(
    context: Context, name: str, persist: Any = False, mods: Optional[Sequence[str]] = None
) -> StateResult:
    """Make sure that a module of the kernel is loaded.

    Args:
        context: the call's context.
        name: of the module.
        persist: also load it at every boot.
        mods: several modules, instead of the name.
    """
    try:
        names = _names(name, mods)
        there = _present(context, names, truth(persist))
        missing = [one for one in names if one not in there]
        comments = _told(
            there, "Kernel module {} is already present", "Kernel modules {} are already present"
        )
        if not missing:
            return done("\n".join(comments))
        if context.test:
            comments += _told(
                missing, "Kernel module {} is set to be loaded",
                "Kernel modules {} are set to be loaded",
            )  # fmt: skip
            return would("\n".join(comments))
        known = set(context.call("kmod.available"))
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    unknown = [one for one in missing if kmod.plain(one) not in known]
    comments += _told(
        unknown, "Kernel module {} is unavailable", "Kernel modules {} are unavailable"
    )
    loadable = [one for one in missing if one not in unknown]
    found = _each(context, "kmod.load", loadable, (truth(persist),), "loaded")
    return _result(found, comments, "Loaded", "load", ok=not unknown)


def _each(
    context: Context, fun: str, names: Sequence[str], arguments: Tuple[bool, ...], verb: str
) -> _Outcome:
    """Call a function of kmod for each module; its first argument is whether to persist."""
    found = _Outcome()
    persist = arguments[0]
    for one in names:
        # An earlier module may have brought this one along.
        if kmod.plain(one) in found.changes and not persist:
            found.changed.append(one)
            continue
        try:
            changed = context.call(fun, one, *arguments)
        except (UsageError, CommandExecutionError) as problem:
            found.failed.append((one, str(problem)))
            continue
        found.changes.update(dict.fromkeys(changed, verb))
        (found.changed if changed else found.unchanged).append(one)
    return found


def _result(
    found: _Outcome, comments: List[str], past: str, verb: str, *, ok: bool
) -> StateResult:
    comments += _told(found.changed, f"{past} kernel module {{}}", f"{past} kernel modules {{}}")
    comments += _told(
        found.unchanged,
        f"Failed to {verb} kernel module {{}}",
        f"Failed to {verb} kernel modules {{}}",
    )
    comments += [f"Failed to {verb} kernel module {one}: {why}" for one, why in found.failed]
    reached = ok and not found.unchanged and not found.failed
    return StateResult(reached, dict(found.changes), "\n".join(comments))


@state()
def absent(
    context: Context,
    name: str,
    persist: Any = False,
    comment: Any = True,
    mods: Optional[Sequence[str]] = None,
) -> StateResult:
    """Make sure that a module of the kernel is not loaded.

    Args:
        context: the call's context.
        name: of the module.
        persist: also don't load it at boot.
        comment: then turn its line into a comment instead of removing it.
        mods: several modules, instead of the name.
    """
    try:
        names = _names(name, mods)
        found = _loaded(context) | (_kept(context) if truth(persist) else set())
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    there = [one for one in names if kmod.plain(one) in found]
    if not there:
        gone = "Kernel module {} is already absent", "Kernel modules {} are already absent"
        return done("\n".join(_told(names, *gone)))
    if context.test:
        told = "Kernel module {} is set to be removed", "Kernel modules {} are set to be removed"
        return would("\n".join(_told(there, *told)))
    arguments = (truth(persist), truth(comment))
    outcome = _each(context, "kmod.remove", there, arguments, "removed")
    return _result(outcome, [], "Removed", "remove", ok=True)
