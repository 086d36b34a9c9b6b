"""Stand-ins for Salt's clients: they call our functions as the running custom code."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from catena.core.errors import CommandExecutionError
from catena.runtime.salt import current

Names = Dict[str, Any]
#: Mark of a mapping of keyword arguments in Salt's lists of arguments.
_KWARG = "__kwarg__"


def _parted(args: Iterable[Any]) -> Tuple[List[Any], Names]:
    """Return positional and keyword arguments of a list that may mix both."""
    given: List[Any] = []
    named: Names = {}
    for item in args:
        if isinstance(item, Mapping) and item.get(_KWARG):
            named.update({key: value for key, value in item.items() if key != _KWARG})
        else:
            given.append(item)
    return given, named


class SMinion:
    """`salt.minion.SMinion`: the functions of this minion."""

    def __init__(self, opts: Optional[Mapping[str, Any]] = None, *_: Any, **__: Any) -> None:
        self.opts = dict(opts) if opts is not None else current.options()
        self.functions = current.function_map()
        self.states = current.state_map()


class MinionCaller:
    """`salt.client.Caller`: calls functions on this minion."""

    def __init__(self, c_path: str = "", mopts: Optional[Mapping[str, Any]] = None) -> None:
        self.opts = dict(mopts) if mopts is not None else current.options()
        self.sminion = SMinion(self.opts)

    def cmd(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function of this minion and return its value."""
        given, named = _parted(args)
        return current.invoke(fun, *given, **{**named, **kwargs})

    function = cmd


class PublishingClient:
    """`salt.client.LocalClient` on a minion: publishes through the master (`peer`)."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.opts = current.options()

    def cmd(
        self,
        tgt: Any,
        fun: str,
        arg: Iterable[Any] = (),
        timeout: Optional[float] = None,
        tgt_type: str = "glob",
        ret: str = "",
        jid: str = "",
        full_return: bool = False,
        kwarg: Optional[Mapping[str, Any]] = None,
        **options: Any,
    ) -> Any:
        """Return {minion: value} of a function called on other minions.

        Raises:
            CommandExecutionError: the master does not allow this minion to call it.
        """
        given, named = _parted(arg)
        named.update(kwarg or {})
        own = str(current.context().grains.get("id", ""))
        if tgt == own and str(options.get("expr_form", tgt_type)) in ("glob", "list"):
            value = current.invoke(fun, *given, **named)
            return {own: {"ret": value, "retcode": 0, "jid": jid} if full_return else value}
        words = [*given, *(f"{key}={value}" for key, value in named.items())]
        ask = "publish.full_data" if full_return else "publish.publish"
        more = {} if timeout is None else {"timeout": timeout}
        kind = str(options.get("expr_form", tgt_type))
        return current.invoke(ask, tgt, fun, words, tgt_type=kind, **more)

    def cmd_iter(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield {minion: {"ret": value}} of each minion."""
        for minion, value in (self.cmd(*args, **kwargs) or {}).items():
            yield {minion: {"ret": value}}

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"catena has no salt.client.LocalClient.{name} on a minion")


class _ThroughMaster:
    """Calls runner or wheel functions of the master (`peer_run`, `minion_wheel`)."""

    _function = ""

    def __init__(self, opts: Optional[Mapping[str, Any]] = None) -> None:
        self.opts = dict(opts) if opts is not None else current.options()

    def cmd(
        self,
        fun: str,
        arg: Iterable[Any] = (),
        pub_data: Any = None,
        kwarg: Optional[Mapping[str, Any]] = None,
        **_: Any,
    ) -> Any:
        """Return what the master's function returned."""
        given, named = _parted(arg or ())
        return current.invoke(self._function, fun, *given, **{**named, **(kwarg or {})})


class RunnerClient(_ThroughMaster):
    """`salt.runner.RunnerClient`."""

    _function = "saltutil.runner"


class WheelClient(_ThroughMaster):
    """`salt.wheel.WheelClient`."""

    _function = "saltutil.wheel"


class MasterFiles:
    """`salt.fileclient`'s client: the files of the master, by cp.*."""

    def __init__(self, opts: Optional[Mapping[str, Any]] = None, *_: Any, **__: Any) -> None:
        self.opts = dict(opts) if opts is not None else current.options()

    def __enter__(self) -> MasterFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def destroy(self) -> None:
        """Return: there is nothing to close."""

    def cache_file(self, path: str, saltenv: str = "base", **_: Any) -> Any:
        """Return the local path of a file of the master; "" if there is none."""
        return current.invoke("cp.cache_file", path, saltenv=saltenv)

    def cache_dir(self, path: str, saltenv: str = "base", **_: Any) -> Any:
        """Return the local paths of the files below a folder."""
        return current.invoke("cp.cache_dir", path, saltenv=saltenv)

    def get_file(
        self, path: str, dest: str = "", makedirs: bool = False, saltenv: str = "base", **_: Any
    ) -> Any:
        """Copy a file of the master; return its path."""
        return current.invoke("cp.get_file", path, dest, saltenv=saltenv, makedirs=makedirs)

    def get_url(
        self, url: str, dest: Any = "", makedirs: bool = False, saltenv: str = "base", **_: Any
    ) -> Any:
        """Copy a file of any address; return its path."""
        return current.invoke("cp.get_url", url, dest, saltenv=saltenv, makedirs=makedirs)

    def file_list(self, saltenv: str = "base", prefix: str = "") -> Any:
        """Return the paths of the master's files."""
        return current.invoke("cp.list_master", saltenv=saltenv, prefix=prefix)

    def hash_file(self, path: str, saltenv: str = "base") -> Any:
        """Return {"hash_type", "hsum"} of a file of the master."""
        return current.invoke("cp.hash_file", path, saltenv=saltenv)

    def envs(self) -> List[str]:
        """Return the environments."""
        return list(current.context().files.environments())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"catena has no salt.fileclient.Client.{name}")


class MinionEvents:
    """`salt.utils.event`'s bus, as far as a minion may fire on it."""

    def __enter__(self) -> MinionEvents:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def destroy(self) -> None:
        """Return: there is nothing to close."""

    def fire_event(self, data: Any, tag: str, timeout: Optional[float] = None) -> bool:
        """Fire an event; the master receives it under this minion's name."""
        return bool(current.invoke("event.fire", data, tag))

    def fire_master(self, data: Any, tag: str, *_: Any, **__: Any) -> bool:
        """Fire an event to the master."""
        return bool(current.invoke("event.fire_master", data, tag))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"catena has no salt.utils.event.{name} on a minion: it fires events, the master "
            "receives them"
        )


def _events(node: str = "minion", *_: Any, **__: Any) -> MinionEvents:
    if node != "minion":
        raise CommandExecutionError(
            f"salt.utils.event.get_event({node!r}) needs the bus of a {node}; use 'minion'"
        )
    return MinionEvents()


def _minion_events(*_: Any, **__: Any) -> MinionEvents:
    return MinionEvents()


def _tagged(suffix: Any = "", prefix: str = "", base: str = "salt") -> str:
    parts = [base, {"job": "job", "ret": "ret"}.get(prefix, prefix)]
    parts += list(suffix) if isinstance(suffix, (list, tuple)) else [suffix]
    return "/".join(str(part) for part in parts if part)


def _query(url: str, method: str = "GET", *args: Any, **options: Any) -> Any:
    return current.invoke("http.query", url, method=method, **options)


#: Names of each module, by its full name.
NAMES: Mapping[str, Callable[[], Names]] = {
    "salt.client": lambda: {
        "Caller": MinionCaller,
        "LocalClient": PublishingClient,
        "get_local_client": PublishingClient,
    },
    "salt.fileclient": lambda: {
        "Client": MasterFiles,
        "LocalClient": MasterFiles,
        "RemoteClient": MasterFiles,
        "get_file_client": MasterFiles,
    },
    "salt.minion": lambda: {"SMinion": SMinion, "MasterMinion": SMinion},
    "salt.runner": lambda: {"RunnerClient": RunnerClient, "Runner": RunnerClient},
    "salt.utils.event": lambda: {
        "get_event": _events,
        "MinionEvent": _minion_events,
        "SaltEvent": _events,
        "tagify": _tagged,
    },
    "salt.utils.http": lambda: {"query": _query},
    "salt.wheel": lambda: {"WheelClient": WheelClient, "Wheel": WheelClient},
}
