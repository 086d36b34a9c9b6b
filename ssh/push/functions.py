"""The functions of a target for its templates and states, run on the target or on the master.

The master itself runs functions that only read grains, pillar, options and files of the roots. All
other functions are called on the target over the open channel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from catena.core.context import Context
from catena.core.errors import NotFoundError
from catena.core.plugins import FunctionMark, Plugin, StateMark
from catena.runtime.loader import CustomRegistry, Loader
from catena.ssh.push.custom_names import CustomNames

#: Modules whose read-only functions need only grains, pillar, options and files.
_HERE = frozenset(("config", "defaults", "grains", "jinja", "match", "pillar", "slsutil"))
#: Such functions of other modules, whose remaining functions act on a host.
_ALSO_HERE = frozenset(
    """cp.envs cp.list_master cp.list_master_dirs cp.list_master_symlinks cp.list_minion
    cp.list_states cp.stat_file defaults.deepcopy defaults.get defaults.merge defaults.update
    state.apply state.high state.highstate state.id_exists state.low state.show_highstate
    state.show_low_sls state.show_lowstate state.show_sls state.show_state_usage
    state.show_states state.show_top state.single state.sls state.sls_exists state.sls_id
    state.template_str state.test state.top""".split()
)
#: Functions that always run on the target because they depend on it.
_THERE = frozenset(("jinja.host_filter",))
#: Functions that run on the master for an address in the roots, and on the target for a path.
_BY_ADDRESS = frozenset(("cp.get_file_str", "cp.hash_file", "slsutil.renderer"))
_SCHEME = "salt://"


class RemoteFunctions(Protocol):
    """The target, for one compilation."""

    def call(
        self, context: Context, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function on the target and return its value, or raise its error."""

    def knows(self, name: str, kind: str) -> bool:
        """Return whether a function ("function") or state ("state") exists on the target."""

    def refusal(self, name: str) -> str:
        """Return why a function does not exist on the target, or ""."""


def runs_here(name: str, mark: Any) -> bool:
    """Return whether a built-in function runs on the master for the target."""
    reads = isinstance(mark, FunctionMark) and mark.reads and name not in _THERE
    return name in _ALSO_HERE or (reads and name.partition(".")[0] in _HERE)


class _Unlisted(dict[str, Plugin]):
    """A custom module of the target; its functions are looked up one by one."""

    def __bool__(self) -> bool:
        return True


class TargetRegistry(CustomRegistry):
    """The functions, or states, of one target.

    Args:
        kind: "function" or "state".
        index: the built-in modules.
        mark: FunctionMark or StateMark.
        remote: the target.
        custom: names that custom files may have there.
        nowhere: a folder that does not exist, so that no custom file is loaded on the master.
    """

    def __init__(
        self,
        kind: str,
        index: Mapping[str, str],
        mark: type,
        remote: RemoteFunctions,
        custom: CustomNames,
        nowhere: Path,
    ) -> None:
        super().__init__(kind, index, mark, Loader(nowhere), f"{kind}s")
        self._remote = remote
        self._custom = custom
        self._found: dict[str, Plugin] = {}

    def module(self, prefix: str) -> Mapping[str, Plugin]:
        """Return the built-in plug-ins of module *prefix*."""
        found = super().module(prefix)
        return _Unlisted(found) if not found and prefix in self._custom else found

    def __contains__(self, name: str) -> bool:
        if name.partition(".")[0] in self._custom:
            return self._remote.knows(name, self.kind)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Plugin:
        if name not in self._found:
            self._found[name] = self._plugin(name)
        return self._found[name]

    def _plugin(self, name: str) -> Plugin:
        custom = name.partition(".")[0] in self._custom
        if custom and not self._remote.knows(name, self.kind):
            reason = self._remote.refusal(name) if self.kind == "function" else ""
            raise NotFoundError(reason or f"'{name}' is not available.")
        if custom:
            return self._open(name)
        plugin = super().__getitem__(name)
        if self.kind == "state":
            return plugin
        if name in _BY_ADDRESS:
            return self._either(plugin)
        if name.startswith("state.") and runs_here(name, plugin.mark):
            return self._unless_configured(plugin)
        return plugin if runs_here(name, plugin.mark) else self._there(plugin)

    def _open(self, name: str) -> Plugin:
        """Return a custom function that accepts any arguments, which the target checks."""
        if self.kind == "state":

            def state(context: Context, name: str, **kwargs: Any) -> Any:
                raise NotFoundError(f"{name}: a custom state runs on its target only")

            return Plugin(name, state, StateMark(), "custom")

        def function(context: Context, *args: Any, **kwargs: Any) -> Any:
            return self._remote.call(context, name, args, kwargs)

        return Plugin(name, function, FunctionMark(), "custom")

    def _there(self, plugin: Plugin) -> Plugin:
        def function(context: Context, *args: Any, **kwargs: Any) -> Any:
            return self._remote.call(context, plugin.name, args, kwargs)

        return Plugin(plugin.name, _like(function, plugin), plugin.mark)

    def _either(self, plugin: Plugin) -> Plugin:
        def function(context: Context, *args: Any, **kwargs: Any) -> Any:
            given = args[0] if args else kwargs.get("path")
            if given is None or str(given).startswith(_SCHEME):
                return plugin.call(context, *args, **kwargs)
            return self._remote.call(context, plugin.name, args, kwargs)

        return Plugin(plugin.name, _like(function, plugin), plugin.mark)

    def _unless_configured(self, plugin: Plugin) -> Plugin:
        """Return a state function; a configuration file in its arguments is on the target."""

        def function(context: Context, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("localconfig"):
                return self._remote.call(context, plugin.name, args, kwargs)
            return plugin.call(context, *args, **kwargs)

        return Plugin(plugin.name, _like(function, plugin), plugin.mark)

    def refusal(self, prefix: str) -> str:
        """Return "": the target reports errors of custom files per function."""
        return ""

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())


def _like(function: Callable[..., Any], plugin: Plugin) -> Callable[..., Any]:
    import inspect

    function.__signature__ = inspect.signature(plugin.call)  # type: ignore[attr-defined]  # Python's own place for it
    function.__doc__ = plugin.doc()
    return function


def addresses(value: Any) -> Iterator[str]:
    """Yield every salt:// address in a nested value, also as a word within a text."""
    if isinstance(value, str):
        if _SCHEME in value:
            if value.startswith(_SCHEME):
                yield value
            yield from _ADDRESS.findall(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from addresses(key)
            yield from addresses(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from addresses(item)


_ADDRESS = re.compile(r"salt://[^\s'\"<>|;]+")
