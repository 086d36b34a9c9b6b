"""What state.* functions accept beside the SLS names, and the context that a run gets by it."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from catena.core.context import Context
from catena.core.errors import NotAllowedError, PillarError, UsageError
from catena.core.frozen import dataclass, fields
from catena.core.suggest import unknown
from catena.states.compiler.api import sls_list

_ON = ("true", "yes", "on", "1")
_OFF = ("false", "no", "off", "0", "none", "")


@dataclass(frozen=True)
class RunOptions:
    """Named arguments of state.apply and its relatives, under Salt's names."""

    #: Change nothing, say what would change.
    test: Optional[bool] = None
    #: Values laid over the pillar of this run.
    pillar: Optional[Mapping[str, Any]] = None
    saltenv: str = ""
    pillarenv: str = ""
    #: SLS names to leave out, and ids.
    exclude: tuple[str, ...] = ()
    exclude_ids: tuple[str, ...] = ()
    #: SLS names that alone run, of those that top files assign.
    whitelist: tuple[str, ...] = ()
    #: Kinds of custom files to fetch first: all, or "modules,states".
    sync_mods: tuple[str, ...] = ()
    #: Run although pillar files have errors; with what of the pillar could be compiled.
    force: bool = False
    #: Accepted for the sake of scripts: every state run waits in a visible queue anyway.
    queue: Any = None
    concurrent: Any = None
    #: Free data for events; not looked at.
    metadata: Any = None
    #: Call no state function: what would run, in which order.
    mock: bool = False
    #: A configuration file whose settings are laid over the minion's for this run.
    localconfig: str = ""
    #: Accepted: every step is told to the master anyway.
    state_events: Any = None
    #: Accepted: jobs of a chain carry its number themselves.
    orchestration_jid: Any = None


def run_options(given: Mapping[str, Any]) -> RunOptions:
    """Return *given* checked; Salt's internal `__pub_*` arguments are passed over.

    Raises:
        UsageError: an argument that state runs don't know, or a pillar that is no mapping.
    """
    known = {one.name for one in fields(RunOptions)} - {"exclude_ids"}
    values: Dict[str, Any] = {}
    for key, value in given.items():
        if key.startswith("__"):
            continue
        if key not in known:
            raise UsageError(unknown("argument of a state run", key, known))
        if value is not None:
            values[key] = value
    for key in ("test", "force", "mock"):
        if key in values and not isinstance(values[key], bool):
            values[key] = _truth(key, str(values[key]).lower())
    if not isinstance(values.get("pillar", {}), Mapping):
        raise UsageError('pillar must be a mapping, such as pillar=\'{"key": "value"}\'')
    values["exclude_ids"] = _excluded_ids(values.get("exclude"))
    for key in ("exclude", "sync_mods", "whitelist"):
        if key in values:
            values[key] = _names(values[key])
    for key in ("saltenv", "pillarenv", "localconfig"):
        values[key] = str(values.get(key, ""))
    return RunOptions(**values)


def _truth(key: str, word: str) -> bool:
    """Return whether *word* switches something on; `test=ture` must not change a host."""
    if word not in (*_ON, *_OFF):
        raise UsageError(f"{key} is true or false, not {word!r}")
    return word in _ON


def _excluded_ids(value: Any) -> tuple[str, ...]:
    """Return the ids of an `exclude` such as [{sls: a}, {id: b}]."""
    entries = value if isinstance(value, (list, tuple)) else ()
    return tuple(str(one["id"]) for one in entries if isinstance(one, Mapping) and "id" in one)


def _names(value: Union[str, bool, Sequence[Any]]) -> tuple[str, ...]:
    if isinstance(value, (str, list, tuple)):
        return tuple(
            sls_list(
                [_name(each) for each in value] if value and not isinstance(value, str) else value
            )
        )
    return ("all",) if value else ()


def _name(entry: Any) -> str:
    return str(entry.get("sls", "")) if isinstance(entry, Mapping) else str(entry)


def run_context(context: Context, options: RunOptions) -> Context:
    """Return the context of a run; one inside a run in test mode stays in it.

    Raises:
        CatenaError: the pillar can't be compiled.
        NotAllowedError: another saltenv than the locked one.
    """
    changes: Dict[str, Any] = {"in_run": True}
    opts: Dict[str, Any] = _laid_over(options)
    if options.test is not None and not (context.in_run and context.test):
        changes["test"] = opts["test"] = options.test
    if options.saltenv:
        locked = context.opts.get("lock_saltenv")
        if locked and options.saltenv != context.opts.get("environment"):
            raise NotAllowedError("lock_saltenv is enabled, saltenv cannot be changed")
        changes["saltenv"] = opts["saltenv"] = opts["environment"] = options.saltenv
    pillarenv = options.pillarenv
    if not pillarenv and context.opts.get("pillarenv_from_saltenv"):
        pillarenv = options.saltenv
    if pillarenv:
        opts["pillarenv"] = pillarenv
    if opts:
        changes["opts"] = {**context.opts, **opts}
    if options.force:
        changes["pillar"] = _forced(context, options.pillar, pillarenv)
    elif options.pillar or pillarenv:
        changes["pillar"] = _pillar(context, options.pillar, pillarenv)
    return context.with_(**changes)


def _laid_over(options: RunOptions) -> Dict[str, Any]:
    """Return the settings that `localconfig` and `mock` bring."""
    found: Dict[str, Any] = {"mock": True} if options.mock else {}
    if options.localconfig:
        # Reading YAML needs third-party packages, which hosts reached over SSH may lack.
        from catena.renderers.config_files import read

        found.update(read(options.localconfig))
    return found


def _pillar(
    context: Context, override: Optional[Mapping[str, Any]], pillarenv: str
) -> Dict[str, Any]:
    if pillarenv:
        return context.host.compile_pillar(override, pillarenv)
    return context.host.compile_pillar(override)


def _forced(
    context: Context, override: Optional[Mapping[str, Any]], pillarenv: str
) -> Dict[str, Any]:
    """Return the pillar, with the texts of its faults below `_errors`."""
    try:
        return _pillar(context, override, pillarenv)
    except PillarError as error:
        return {**error.pillar, "_errors": list(error.errors)}


def synced(context: Context, kinds: Sequence[str]) -> List[str]:
    """Fetch custom files of *kinds* ("all": those that state runs use); return what changed."""
    wanted = ("modules", "states", "grains", "renderers", "utils") if "all" in kinds else kinds
    changed = [name for kind in wanted for name in context.host.sync(kind, context.saltenv)]
    if changed:
        context.forget_plugins()
    if any(name.startswith("grains.") for name in changed) and isinstance(context.grains, dict):
        # The run that brought them sees them, as in Salt.
        fresh = context.host.collect_grains()
        context.grains.clear()
        context.grains.update(fresh)
    return changed
