"""state.*: run states, and look at what would run.

Each function that runs states returns Salt's dict of rows; where something is wrong before
anything ran, a list of texts, one per fault.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence, Union

from catena.core.context import Context
from catena.core.errors import NotFoundError, PillarError, UsageError
from catena.core.plugins import function
from catena.states.compiler import api
from catena.states.compiler.faults import StateArgumentsError, meant
from catena.states.compiler.model import TAG_SEPARATOR, Compiled, Row
from catena.states.compiler.selection import with_needs
from catena.states.functions.options import RunOptions, run_context, run_options, synced

Mods = Union[str, Sequence[str]]
#: Exit code of a state run that had nothing to run, as Salt's.
_NOTHING_RAN = 2
#: Exit code of a look at states that can't be compiled.
_CANT_SHOW = 1
#: Rows by key, or the faults that kept everything from running.
Answer = Union[Dict[str, Row], List[str]]

_NO_MATCH = "No Top file or master_tops data matches found: no top file assigns states to"


class Faults(List[str]):
    """Why states can't be shown, one text each."""


def _prepared(context: Context, options: RunOptions, work: Callable[[Context], Any]) -> Any:
    """Do *work* in the context of a run; a pillar that can't be compiled is an answer."""
    try:
        inside = run_context(context, options)
    except PillarError as error:
        return Faults(api.pillar_error_texts(error))
    return work(inside)


def _ran(context: Context, options: RunOptions, work: Callable[[Context], Answer]) -> Answer:
    """Do *work* that runs states; an answer without any row is a failure, as in Salt."""
    answer: Answer = _prepared(context, options, work)
    if not answer:
        context.scratch["retcode"] = _NOTHING_RAN
    return list(answer) if isinstance(answer, list) else answer


def _run(context: Context, compiled: Compiled) -> Answer:
    if compiled.errors:
        return list(compiled.errors)
    try:
        return api.run(context, compiled.low)
    except StateArgumentsError as error:
        return str(error).splitlines()


@function(queued=True, out="highstate", fails="states")
def apply(context: Context, mods: Union[Mods, None] = None, **options: Any) -> Answer:
    """Run SLS files, or without any the highstate.

    Args:
        context: of the job.
        mods: dotted names, separated by commas or as a list; globs work.
        options: test, pillar, saltenv, exclude, sync_mods, force (see RunOptions).
    """
    return sls(context, mods, **options) if mods else highstate(context, **options)


@function(queued=True, out="highstate", fails="states")
def sls(context: Context, mods: Mods, **options: Any) -> Answer:
    """Run SLS files; arguments as in state.apply."""
    chosen = run_options(options)
    if chosen.sync_mods:
        synced(context, chosen.sync_mods)

    def work(inside: Context) -> Answer:
        compiled = api.compile_sls(
            inside, mods, exclude=chosen.exclude, exclude_ids=chosen.exclude_ids
        )
        return _run(inside, compiled)

    return _ran(context, chosen, work)


@function(queued=True, out="highstate", fails="states")
def highstate(context: Context, **options: Any) -> Answer:
    """Run what the top files assign to this minion; custom files are fetched first."""
    chosen = run_options(options)
    synced(context, chosen.sync_mods or ("all",))
    return _ran(context, chosen, lambda inside: _highstate(inside, chosen))


def _highstate(context: Context, options: RunOptions) -> Answer:
    compiled = api.compile_highstate(
        context, options.exclude, options.exclude_ids, options.whitelist
    )
    if compiled.errors or compiled.low or compiled.high:
        return _run(context, compiled)
    minion = context.opts.get("id", "this minion")
    row = {
        "name": "No States",
        "changes": {},
        "result": False,
        "comment": f"{_NO_MATCH} {minion}",
        "__run_num__": 0,
        "__id__": None,
        "__sls__": None,
    }
    return {TAG_SEPARATOR.join(("no", "states", "states", "None")): row}


@function(queued=True, out="highstate", fails="states")
def top(context: Context, topfn: str, **options: Any) -> Answer:
    """Run the highstate of another top file than the configured one."""
    return highstate(context.with_(opts={**context.opts, "state_top": topfn}), **options)


@function(queued=True, out="highstate", fails="states")
def test(context: Context, mods: Union[Mods, None] = None, **options: Any) -> Answer:
    """Say what state.apply with these arguments would change."""
    return apply(context, mods, **{**options, "test": True})


@function(queued=True, out="highstate", fails="states")
def single(context: Context, fun: str, name: str, **arguments: Any) -> Answer:
    """Run one state function.

    Args:
        context: of the job.
        fun: "module.function".
        name: the state's name.
        arguments: the function's; also test, pillar, saltenv and queue for the run.

    Raises:
        UsageError: *fun* has no dot.
    """
    module, _, called = fun.partition(".")
    if not called:
        raise UsageError(f"{fun!r} is not 'module.function', such as pkg.installed")
    own = {key: value for key, value in arguments.items() if key not in _RUN_ARGUMENTS}
    given = {key: value for key, value in arguments.items() if key in _RUN_ARGUMENTS}
    chunk = {"state": module, "fun": called, "__id__": name, "name": name, **own}

    def work(inside: Context) -> Answer:
        return api.run(inside, [api.low_from_chunk({**chunk, "__env__": inside.saltenv})])

    return _ran(context, run_options(given), work)


_RUN_ARGUMENTS = ("test", "pillar", "saltenv", "pillarenv", "queue", "concurrent")


@function(queued=True, out="nested", fails="states")
def low(context: Context, data: Mapping[str, Any], **options: Any) -> Any:
    """Run one low chunk ({state, fun, name, …}); return its row alone.

    Raises:
        UsageError: state or fun is missing.
    """
    if not isinstance(data, Mapping) or not {"state", "fun"} <= data.keys():
        raise UsageError("a low chunk is a mapping with `state` and `fun`")

    def work(inside: Context) -> Answer:
        return api.run(inside, [api.low_from_chunk(data)])

    rows = _ran(context, run_options(options), work)
    if not isinstance(rows, dict):
        return rows
    # A row alone is no answer of a state run to Salt's judge of exit codes: not a success.
    context.scratch["retcode"] = _NOTHING_RAN
    return next(iter(rows.values()))


@function(queued=True, out="highstate", fails="states")
def high(context: Context, data: Mapping[str, Any], **options: Any) -> Answer:
    """Run high data ({id: {module: [function, {argument: value}]}}).

    Raises:
        UsageError: *data* is not a mapping.
    """
    if not isinstance(data, Mapping):
        raise UsageError("high data is a mapping of ids")

    def work(inside: Context) -> Answer:
        return _run(inside, api.compile_high(inside, data))

    return _ran(context, run_options(options), work)


@function(queued=True, out="highstate", fails="states")
def template_str(context: Context, tem: str, **options: Any) -> Answer:
    """Render *tem* as an SLS file and run it.

    Raises:
        UsageError: *tem* is not text.
    """
    if not isinstance(tem, str):
        raise UsageError("a template is text, not data")

    def work(inside: Context) -> Answer:
        return _run(inside, api.compile_text(inside, tem))

    return _ran(context, run_options(options), work)


@function(queued=True, out="highstate", fails="states")
def sls_id(context: Context, id_: str, mods: Mods, **options: Any) -> Answer:
    """Run one id of some SLS files, and what it needs.

    Raises:
        NotFoundError: the SLS files have no such id.
    """

    def work(inside: Context) -> Answer:
        compiled = api.compile_sls(inside, mods)
        if compiled.errors:
            return list(compiled.errors)
        chosen = with_needs(compiled.low, lambda low: low.id == id_)
        if not chosen:
            near = meant(id_, (low.id for low in compiled.low))
            raise NotFoundError(f"No matches for ID '{id_}' found in SLS '{mods}'{near}")
        return api.run(inside, chosen)

    return _ran(context, run_options(options), work)


def _shown(
    context: Context, options: Mapping[str, Any], work: Callable[[Context], Union[Any, Faults]]
) -> Any:
    """Do *work* in the context of a run that is only shown; its faults are the answer."""
    answer = _prepared(context, run_options(options), work)
    if isinstance(answer, Faults):
        context.scratch["retcode"] = _CANT_SHOW
        return list(answer)
    return answer


@function(reads=True, out="nested")
def show_sls(context: Context, mods: Mods, **options: Any) -> Any:
    """Return the high data of SLS files, as written (without extend and `*_in`)."""

    def work(inside: Context) -> Any:
        high, errors = api.render_high(inside, {inside.saltenv: api.sls_list(mods)})
        return Faults(errors) or high.as_dict()

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_low_sls(context: Context, mods: Mods, **options: Any) -> Any:
    """Return the low data of SLS files in the order of a run (without extend and `*_in`)."""

    def work(inside: Context) -> Any:
        high, errors = api.render_high(inside, {inside.saltenv: api.sls_list(mods)})
        if errors:
            return Faults(errors)
        shown, errors = api.shown_low(inside, high)
        return Faults(errors) or shown

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_highstate(context: Context, **options: Any) -> Any:
    """Return the high data of the highstate, as written (without extend and `*_in`)."""

    def work(inside: Context) -> Any:
        high, errors = api.render_highstate(inside)
        return Faults(errors) or high.as_dict()

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_lowstate(context: Context, **options: Any) -> Any:
    """Return the low data of the highstate, in the order of a run."""

    def work(inside: Context) -> Any:
        chunks, errors = api.shown_lowstate(inside)
        return Faults(errors) or chunks

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_top(context: Context, **options: Any) -> Any:
    """Return the SLS names that the top files assign to this minion, by environment."""

    def work(inside: Context) -> Any:
        errors = api.pillar_errors(inside)
        try:
            return Faults(errors) or api.compile_top(inside)
        except api.TopError as error:
            return Faults([str(error)])

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_states(context: Context, **options: Any) -> Any:
    """Return the names of the SLS files of the highstate, in the order of a run."""

    def work(inside: Context) -> Any:
        compiled = api.compile_highstate(inside)
        if compiled.errors:
            return Faults(compiled.errors)
        lows = sorted(compiled.low, key=lambda low: low.order)
        return list(dict.fromkeys(str(low.sls) for low in lows))

    return _shown(context, options, work)


@function(reads=True, fails="bool")
def sls_exists(context: Context, mods: Mods, saltenv: str = "") -> bool:
    """Return whether all these SLS files are there."""
    known = set(api.sls_names(context, saltenv or context.saltenv))
    return all(name in known for name in api.sls_list(mods))


@function(reads=True)
def id_exists(context: Context, ids: Mods, mods: Mods, **options: Any) -> Any:
    """Return whether SLS files declare all these ids."""

    def work(inside: Context) -> Any:
        wanted = set(api.sls_list(ids))
        high, errors = api.render_high(inside, {inside.saltenv: api.sls_list(mods)})
        return Faults(errors) or wanted <= {one.id for one in high.states}

    return _shown(context, options, work)
