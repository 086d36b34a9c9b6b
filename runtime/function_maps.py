"""What custom code gets as `__salt__`, `__states__` and `__opts__`."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterator, Mapping

from catena.core.context import Context
from catena.core.errors import NotFoundError
from catena.core.plugins import Registry


class _Acting(partial):  # type: ignore[type-arg]  # of any value
    """A function that may change something: it first waits until all fired events are stored."""

    settle: Callable[[], None]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.settle()
        return super().__call__(*args, **kwargs)


class FunctionMap(Mapping[str, Callable[..., Any]]):
    """`__salt__` and `__states__`: functions by name, bound to one call's context."""

    def __init__(self, context: Context, registry: Registry) -> None:
        self._context = context
        self._registry = registry

    def __getitem__(self, name: str) -> Callable[..., Any]:
        try:
            plugin = self._registry[name]
        except NotFoundError as error:
            raise KeyError(str(error)) from None
        if getattr(plugin.mark, "reads", False):
            return partial(plugin.call, self._context)
        acting = _Acting(plugin.call, self._context)
        acting.settle = self._context.host.settle
        return acting

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._registry

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.names())

    def __len__(self) -> int:
        return len(self._registry.names())

    def __getattr__(self, module: str) -> ModuleView:
        """Make `__salt__.test.ping()` equal to `__salt__["test.ping"]()`."""
        if module.startswith("__"):
            raise AttributeError(module)
        return ModuleView(self, module)


class StateMap(FunctionMap):
    """`__states__`: for custom code a built-in state returns Salt's dict."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        call = super().__getitem__(name)
        return partial(_as_dict, self._context, self._registry[name].origin, call)


def _as_dict(
    context: Context, origin: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Dict[str, Any]:
    with context.state_guard(origin):
        found = function(*args, **kwargs)
    name = kwargs.get("name", args[0] if args else "")
    ret: Dict[str, Any] = {"name": name, "changes": dict(found.changes)}
    ret.update(result=found.result, comment=found.comment)
    if found.warnings:
        ret["warnings"] = list(found.warnings)
    return ret


class ModuleView:
    """Attribute access to the functions of one module."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], module: str) -> None:
        self._functions = functions
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return self._functions[f"{self._module}.{name}"]
        except KeyError as error:
            raise AttributeError(str(error)) from None


class OptionMap(Dict[str, Any]):
    """`__opts__`: a copy of the options with the `test` of the running call."""
