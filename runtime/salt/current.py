"""The call during which a stand-in is used, and the functions that it may call."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, NotFoundError
from catena.core.plugins import FunctionMark, Registry, StateMark
from catena.runtime.function_maps import FunctionMap, OptionMap, StateMap

#: Contexts of the custom code that is running, innermost last; None: there is none.
contexts: List[Optional[Context]] = []

#: Module of Salt's source -> the name before the dot of its functions.
_VIRTUAL: Mapping[str, str] = {
    "aptpkg": "pkg",
    "archive_mod": "archive",
    "cmdmod": "cmd",
    "configmod": "config",
    "debian_ip": "ip",
    "debian_service": "service",
    "dpkg_lowpkg": "lowpkg",
    "groupadd": "group",
    "linux_service": "service",
    "linux_shadow": "shadow",
    "linux_sysctl": "sysctl",
    "linux_lvm": "lvm",
    "localemod": "locale",
    "rpm_lowpkg": "lowpkg",
    "sysmod": "sys",
    "systemd_service": "service",
    "timezone_mod": "timezone",
    "useradd": "user",
    "virtualenv_mod": "virtualenv",
    "yumpkg": "pkg",
    "zypperpkg": "pkg",
}
#: Private functions of Salt that custom grains call.
_PRIVATE: Mapping[str, str] = {
    "cmd._run_quiet": "cmd.run",
    "cmd._run_all_quiet": "cmd.run_all",
}


def context() -> Context:
    """Return the context of the running call."""
    found = contexts[-1] if contexts else None
    return found if found is not None else without_host()


class _Nowhere:
    """Stands for a host or its files while grains are collected."""

    def listen(self) -> None:
        """Return None: nobody follows the output of commands."""

    def settle(self) -> None:
        """Return at once: no event waits."""

    def __getattr__(self, name: str) -> Any:
        raise CommandExecutionError(f"{name} is not available while grains are collected")


def without_host(
    grains: Mapping[str, Any] = MappingProxyType({}),
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Context:
    """Return the context of custom grains: built-in functions that need no runtime and no master.

    Args:
        grains: those that are known so far.
        options: the minion's.
    """
    from catena import modules, states

    nowhere: Any = _Nowhere()
    return Context(
        opts=options,
        grains=grains,
        pillar={},
        functions=Registry("function", modules.INDEX, FunctionMark),
        states=Registry("state", states.INDEX, StateMark),
        files=nowhere,
        host=nowhere,
    )


def function_map() -> Mapping[str, Callable[..., Any]]:
    """Return `__salt__` of the running call."""
    found = context()
    return FunctionMap(found, found.functions)


def state_map() -> Mapping[str, Callable[..., Any]]:
    """Return `__states__` of the running call."""
    found = context()
    return StateMap(found, found.states)


def functions(kind: str, module: str) -> Mapping[str, Any]:
    """Return the functions of Salt's module *module*, by full name; empty if there is none.

    Args:
        kind: "functions" or "states".
        module: name of the module's file in Salt, as "cmdmod".
    """
    found: Mapping[str, Any] = getattr(context(), kind).module(_VIRTUAL.get(module, module))
    return found


def caller(kind: str, module: str, name: str) -> Optional[Callable[..., Any]]:
    """Return a function that calls ours of the same name at the time of the call, or None.

    Custom files keep such functions in their globals, beyond the call that loads them.
    """
    prefix = _VIRTUAL.get(module, module)
    full = _PRIVATE.get(f"{prefix}.{name}", f"{prefix}.{name}")
    listed = functions(kind, module)
    if full not in listed:
        full = full.rstrip("_")
        if full not in listed:
            return None

    def call(*args: Any, **kwargs: Any) -> Any:
        return (function_map() if kind == "functions" else state_map())[full](*args, **kwargs)

    call.__name__ = name
    call.__doc__ = listed[full].doc()
    return call


def invoke(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call an execution function as the running custom code.

    Raises:
        CommandExecutionError: no such function; the message names the nearest.
    """
    try:
        function = function_map()[name]
    except (KeyError, NotFoundError) as error:
        raise CommandExecutionError(str(error.args[0])) from None
    return function(*args, **kwargs)


def options() -> Dict[str, Any]:
    """Return `__opts__` of the running call, as a new dict."""
    found = context()
    opts = OptionMap(found.opts)
    opts.update(test=found.test, saltenv=found.saltenv, grains=found.grains, pillar=found.pillar)
    return opts
