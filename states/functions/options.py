"""Options of state.* functions, and the context of a run that follows from them."""

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
class StateOptions:
    """Named arguments of state.apply and related functions, with Salt's names."""

    #: Test mode: report what would change.
    test: Optional[bool] = None
    #: Values that override the pillar of this run.
    pillar: Optional[Mapping[str, Any]] = None
    saltenv: str = ""
    pillarenv: str = ""
    #: SLS names and ids to exclude.
    exclude: tuple[str, ...] = ()
    exclude_ids: tuple[str, ...] = ()
    #: Run only these of the SLS names that top files assign.
    whitelist: tuple[str, ...] = ()
    #: Kinds of custom files to fetch first: "all", or a list such as "modules,states".
    sync_mods: tuple[str, ...] = ()
    #: Run despite errors in pillar files, with the part of the pillar that could be compiled.
    force: bool = False
    #: Accepted without effect: every state run is queued anyway.
    queue: Any = None
    concurrent: Any = None
    #: Data for events; ignored.
    metadata: Any = None
    #: Call no state function; return the states that would run, in order.
    mock: bool = False
    #: A configuration file whose settings override the minion's for this run.
    localconfig: str = ""
    #: Accepted without effect: the minion reports every step anyway.
    state_events: Any = None
    #: Accepted without effect: jobs of a chain contain the chain's number.
    orchestration_jid: Any = None


def run_options(given: Mapping[str, Any]) -> StateOptions:
    """Return *given* as checked options; ignore Salt's internal `__pub_*` arguments.

    Raises:
        UsageError: an argument is unknown, or the pillar is no mapping.
    """
    known = {one.name for one in fields(StateOptions)} - {"exclude_ids"}
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
    return StateOptions(**values)


def _truth(key: str, word: str) -> bool:
    """Return *word* as a boolean; a typo such as `test=ture` must not change a host."""
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


def in_test_mode(context: Context, options: StateOptions) -> bool:
    """Return whether a run is in test mode; one nested in a run in test mode always is."""
    if options.test is None or (context.in_run and context.test):
        return context.test
    return options.test


def run_context(context: Context, options: StateOptions) -> Context:
    """Return the context of a run; a run nested in one in test mode stays in test mode.

    Raises:
        CatenaError: the pillar can't be compiled.
        NotAllowedError: the saltenv is not the locked one.
    """
    changes: Dict[str, Any] = {"in_run": True}
    opts: Dict[str, Any] = _laid_over(options)
    if options.test is not None:
        changes["test"] = opts["test"] = in_test_mode(context, options)
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


def _laid_over(options: StateOptions) -> Dict[str, Any]:
    """Return the settings of `localconfig` and `mock`."""
    found: Dict[str, Any] = {"mock": True} if options.mock else {}
    if options.localconfig:
        # Imported here: YAML needs third-party packages, which hosts over SSH may lack.
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
    """Return the pillar, with its errors in the key `_errors`."""
    try:
        return _pillar(context, override, pillarenv)
    except PillarError as error:
        return {**error.pillar, "_errors": list(error.errors)}


def synced(context: Context, kinds: Sequence[str]) -> List[str]:
    """Fetch custom files of *kinds* ("all": those of state runs); return the changed files."""
    wanted = ("modules", "states", "grains", "renderers", "utils") if "all" in kinds else kinds
    changed = [name for kind in wanted for name in context.host.sync(kind, context.saltenv)]
    if changed:
        context.forget_plugins()
    if any(name.startswith("grains.") for name in changed) and isinstance(context.grains, dict):
        # As in Salt, the run that fetched new grains uses them.
        fresh = context.host.collect_grains()
        context.grains.clear()
        context.grains.update(fresh)
    return changed
