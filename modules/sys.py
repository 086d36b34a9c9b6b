"""sys.*: lists and documentation of the available functions and states."""

from __future__ import annotations

import fnmatch
import inspect
from typing import Any, Dict, List

from catena.core.context import Context
from catena.core.plugins import Plugin, Registry, function


def _chosen(registry: Registry, patterns: tuple[str, ...]) -> Dict[str, Plugin]:
    """Return the plug-ins that any of *patterns* names: a module, a function, a shell pattern."""
    if not patterns:
        return {name: registry[name] for name in registry.names()}
    found: Dict[str, Plugin] = {}
    for pattern in patterns:
        if "*" in pattern or "?" in pattern:
            names = fnmatch.filter(registry.names(), pattern)
            found.update({name: registry[name] for name in names})
        elif "." in pattern:
            if pattern in registry:
                found[pattern] = registry[pattern]
        else:
            found.update(registry.module(pattern))
    return dict(sorted(found.items()))


def _spec(plugin: Plugin) -> Dict[str, Any]:
    parameters = list(plugin.signature().parameters.values())
    named = [
        one
        for one in parameters
        if one.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]
    defaults = [one.default for one in named if one.default is not inspect.Parameter.empty]
    kinds = {one.kind for one in parameters}
    return {
        "args": [one.name for one in named],
        "defaults": [_plain(value) for value in defaults] or None,
        "varargs": True if inspect.Parameter.VAR_POSITIONAL in kinds else None,
        "kwargs": True if inspect.Parameter.VAR_KEYWORD in kinds else None,
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


@function(reads=True)
def doc(context: Context, /, *args: str) -> Dict[str, str]:
    """Return the documentation of functions: all, or those of modules, names and patterns."""
    return {name: plugin.doc() for name, plugin in _chosen(context.functions, args).items()}


@function(reads=True)
def state_doc(context: Context, /, *args: str) -> Dict[str, str]:
    """Return the documentation of states: all, or those of modules, names and patterns."""
    return {name: plugin.doc() for name, plugin in _chosen(context.states, args).items()}


@function(reads=True)
def list_functions(context: Context, /, *args: str) -> List[str]:
    """Return the names of functions: all, or those of modules, names and patterns."""
    return list(_chosen(context.functions, args))


@function(reads=True)
def list_state_functions(context: Context, /, *args: str) -> List[str]:
    """Return the names of states: all, or those of modules, names and patterns."""
    return list(_chosen(context.states, args))


@function(reads=True)
def list_modules(context: Context, /, *args: str) -> List[str]:
    """Return the names of execution modules, or those that patterns match."""
    names = context.functions.prefixes()
    return [n for n in names if not args or any(fnmatch.fnmatch(n, pattern) for pattern in args)]


@function(reads=True)
def list_state_modules(context: Context, /, *args: str) -> List[str]:
    """Return the names of state modules, or those that patterns match."""
    names = context.states.prefixes()
    return [n for n in names if not args or any(fnmatch.fnmatch(n, pattern) for pattern in args)]


@function(reads=True)
def argspec(context: Context, module: str = "") -> Dict[str, Dict[str, Any]]:
    """Return the arguments of functions: {name: {args, defaults, varargs, kwargs}}."""
    chosen = _chosen(context.functions, (module,) if module else ())
    return {name: _spec(plugin) for name, plugin in chosen.items()}


@function(reads=True)
def state_argspec(context: Context, module: str = "") -> Dict[str, Dict[str, Any]]:
    """Return the arguments of states: {name: {args, defaults, varargs, kwargs}}."""
    chosen = _chosen(context.states, (module,) if module else ())
    return {name: _spec(plugin) for name, plugin in chosen.items()}


@function()
def reload_modules(context: Context) -> bool:
    """Reload custom modules and states on their next use; return True."""
    context.forget_plugins()
    return True
