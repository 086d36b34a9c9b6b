"""state.*: run states, and show what would run.

Each function that runs states returns Salt's dict of rows, or a list of errors if nothing could
run.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence, Set, Tuple, Union

from catena.core.context import Context
from catena.core.errors import NotFoundError, PillarError, UsageError
from catena.core.frozen import replace
from catena.core.plugins import function
from catena.core.template_calls import TemplateCall, noting_calls
from catena.core.unguarded import Unguarded, add_to
from catena.modules.shared.arguments import truth
from catena.states.compiler import api
from catena.states.compiler.call import Callees
from catena.states.compiler.faults import StateArgumentsError, meant
from catena.states.compiler.model import TAG_SEPARATOR, Compiled, Row
from catena.states.compiler.run import MockHooks
from catena.states.compiler.selection import with_needs
from catena.states.functions.disabled import HIGHSTATE, disable, enable, list_disabled, refusals
from catena.states.functions.options import (
    StateOptions,
    in_test_mode,
    run_context,
    run_options,
    synced,
)
from catena.states.functions.package import pkg
from catena.states.functions.pauses import get_pauses, pause, resume, soft_kill
from catena.states.functions.requests import check_request, clear_request, request, run_request

#: State functions that other modules of this package define.
__all__ = [
    "check_request",
    "clear_request",
    "disable",
    "enable",
    "get_pauses",
    "list_disabled",
    "pause",
    "pkg",
    "request",
    "resume",
    "run_request",
    "soft_kill",
]

Mods = Union[str, Sequence[str]]
#: Exit code of a state run that had nothing to run, as Salt's.
_NOTHING_RAN = 2
#: Exit code of a show function whose states can't be compiled.
_CANT_SHOW = 1
#: Rows by key, or the errors that prevented the run.
Answer = Union[Dict[str, Row], List[str]]

_NO_MATCH = "No Top file or master_tops data matches found: no top file assigns states to"


#: Salt's result of a highstate that state.disable has disabled.
_DISABLED = {
    "name": "Salt highstate run is disabled. To re-enable, run state.enable highstate",
    "result": "False",
    "comment": "Disabled",
}


class ShowErrors(List[str]):
    """Why states can't be shown, one text each."""


def _prepared(context: Context, options: StateOptions, work: Callable[[Context], Any]) -> Any:
    """Call *work* with the context of a run; return the errors of a broken pillar."""
    try:
        inside = run_context(context, options)
    except PillarError as error:
        return ShowErrors(api.pillar_error_texts(error))
    return work(inside)


def _ran(context: Context, options: StateOptions, work: Callable[[Context], Answer]) -> Answer:
    """Call *work*, which runs states; in test mode add what its templates called to the answer."""
    if not in_test_mode(context, options):
        return _answered(context, options, work)
    with noting_calls() as notes:
        answer = _answered(context, options, work)
    return _with_calls(answer, notes.calls())


def _with_calls(answer: Answer, calls: Tuple[TemplateCall, ...]) -> Answer:
    """Return *answer* with the calls that templates of SLS files have made in test mode.

    The first row contains them. A run without rows gets one, or one more error.
    """
    outside = Unguarded(calls=calls)
    if not outside:
        return answer
    if isinstance(answer, list):
        return [*answer, f"Unguarded: {outside.sentence()}"]
    rows = answer or _no_states(True, "The SLS files render to nothing")
    add_to(next(iter(rows.values())), outside)
    return rows


def _answered(
    context: Context, options: StateOptions, work: Callable[[Context], Answer]
) -> Answer:
    """Call *work*, which runs states; as in Salt, a result without rows is a failure."""
    answer: Answer = _prepared(context, options, work)
    if not answer:
        context.scratch["retcode"] = _NOTHING_RAN
    return list(answer) if isinstance(answer, list) else answer


def _run(context: Context, compiled: Compiled) -> Answer:
    if compiled.errors:
        return list(compiled.errors)
    hooks = MockHooks(context, len(compiled.low)) if context.opts.get("mock") else None
    try:
        return api.run(context, compiled.low, hooks)
    except StateArgumentsError as error:
        return str(error).splitlines()


@function(queued=True, out="highstate", fails="states")
def apply(context: Context, /, mods: Union[Mods, None] = None, **options: Any) -> Answer:
    """Run SLS files; without any, run the highstate.

    Args:
        context: of the job.
        mods: dotted names, separated by commas or as a list; globs work.
        options: test, pillar, saltenv, exclude, sync_mods, force (see StateOptions).
    """
    if mods:
        return sls(context, mods, **options)
    answer: Answer = highstate(context, **options)
    return answer


@function(queued=True, out="highstate", fails="states")
def sls(context: Context, /, mods: Mods, **options: Any) -> Answer:
    """Run SLS files; arguments as in state.apply."""
    chosen = run_options(options)
    refused = refusals(context, mods)
    if refused:
        return refused
    if chosen.sync_mods:
        synced(context, chosen.sync_mods)

    def work(inside: Context) -> Answer:
        compiled = api.compile_sls(
            inside, mods, exclude=chosen.exclude, exclude_ids=chosen.exclude_ids
        )
        return _run(inside, compiled)

    return _ran(context, chosen, work)


@function(queued=True, out="highstate", fails="states")
def highstate(context: Context, /, **options: Any) -> Any:
    """Fetch custom files, then run everything that the top files assign to this minion."""
    chosen = run_options(options)
    if HIGHSTATE in list_disabled(context):
        return dict(_DISABLED)
    synced(context, chosen.sync_mods or ("all",))
    return _ran(context, chosen, lambda inside: _highstate(inside, chosen))


def _highstate(context: Context, options: StateOptions) -> Answer:
    compiled = api.compile_highstate(
        context, options.exclude, options.exclude_ids, options.whitelist
    )
    if compiled.errors or compiled.low or compiled.high:
        return _run(context, compiled)
    minion = context.opts.get("id", "this minion")
    return _no_states(False, f"{_NO_MATCH} {minion}")


def _no_states(result: bool, comment: str) -> Dict[str, Row]:
    """Return the row of a run without states, in Salt's form."""
    row = {
        "name": "No States",
        "changes": {},
        "result": result,
        "comment": comment,
        "__run_num__": 0,
        "__id__": None,
        "__sls__": None,
    }
    return {TAG_SEPARATOR.join(("no", "states", "states", "None")): row}


@function(queued=True, out="highstate", fails="states")
def top(context: Context, /, topfn: str, **options: Any) -> Answer:
    """Run the highstate of a given top file."""
    other = context.with_(opts={**context.opts, "state_top": topfn})
    answer: Answer = highstate(other, **options)
    return answer


@function(queued=True, out="highstate", fails="states")
def test(context: Context, /, mods: Union[Mods, None] = None, **options: Any) -> Answer:
    """Run state.apply with these arguments in test mode."""
    return apply(context, mods, **{**options, "test": True})


@function(queued=True, out="highstate", fails="states")
def single(context: Context, /, fun: str, name: str, **arguments: Any) -> Answer:
    """Run one state function.

    Args:
        context: of the job.
        fun: "module.function".
        name: the state's name.
        arguments: arguments of the function; test, pillar, saltenv and queue apply to the run.

    Raises:
        UsageError: *fun* has no dot.
    """
    module, _, called = fun.partition(".")
    if not called:
        raise UsageError(f"{fun!r} is not 'module.function', such as pkg.installed")
    if not isinstance(name, str):
        kind = type(name).__name__
        return [f"ID '{name}' is not formed as a string, but is a {kind}"]
    own = {key: value for key, value in arguments.items() if key not in _RUN_ARGUMENTS}
    given = {key: value for key, value in arguments.items() if key in _RUN_ARGUMENTS}
    chunk = {"state": module, "fun": called, "__id__": name, "name": name, **own}

    def work(inside: Context) -> Answer:
        unknown = _unknown(inside, module, called)
        if unknown:
            return unknown
        return api.run(inside, [api.low_from_chunk({**chunk, "__env__": inside.saltenv})])

    return _ran(context, run_options(given), work)


def _unknown(context: Context, module: str, called: str) -> List[str]:
    """Return the errors of a missing state function; [] if it exists."""
    callees = Callees(context.states)
    if callees.get(module, called) is not None:
        return []
    reason = callees.refusal(module)
    more = f": {reason}" if reason else callees.hint(module, called)
    return [f"Specified state '{module}.{called}' was not found{more}"]


_RUN_ARGUMENTS = ("test", "pillar", "saltenv", "pillarenv", "queue", "concurrent")


@function(queued=True, out="nested", fails="states")
def low(context: Context, /, data: Mapping[str, Any], **options: Any) -> Any:
    """Run one low chunk ({state, fun, name, …}); return only its row.

    Raises:
        UsageError: *data* is not a mapping.
    """
    if not isinstance(data, Mapping):
        raise UsageError("a low chunk is a mapping with `state` and `fun`")
    missing = [f'Missing "{key}" data' for key in ("state", "fun") if key not in data]
    if missing:
        return missing

    def work(inside: Context) -> Answer:
        unknown = _unknown(inside, str(data["state"]), str(data["fun"]))
        if unknown:
            return unknown
        return api.run(inside, [api.low_from_chunk(data)])

    rows = _ran(context, run_options(options), work)
    if not isinstance(rows, dict):
        return rows
    # As in Salt, a single row does not count as the result of a successful state run.
    context.scratch["retcode"] = _NOTHING_RAN
    return next(iter(rows.values()))


@function(queued=True, out="highstate", fails="states")
def high(context: Context, /, data: Mapping[str, Any], **options: Any) -> Answer:
    """Run high data ({id: {module: [function, {argument: value}]}})."""
    if not isinstance(data, Mapping):
        return ["High data is not a dictionary and is invalid"]

    def work(inside: Context) -> Answer:
        return _run(inside, api.compile_high(inside, data))

    return _ran(context, run_options(options), work)


@function(queued=True, out="highstate", fails="states")
def template_str(context: Context, /, tem: str, **options: Any) -> Answer:
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
def template(context: Context, /, tem: str, **options: Any) -> Answer:
    """Render a file of this host as an SLS file and run it."""
    path = Path(tem)
    if not path.is_file():
        return [f"Specified SLS {tem} on local filesystem cannot be found."]

    def work(inside: Context) -> Answer:
        compiled = api.compile_text(inside, path.read_text(encoding="utf-8"))
        return _run(
            inside, replace(compiled, low=tuple(replace(low, sls=tem) for low in compiled.low))
        )

    return _ran(context, run_options(options), work)


@function(queued=True, out="highstate", fails="states")
def sls_id(context: Context, /, id_: str, mods: Mods, **options: Any) -> Answer:
    """Run one id of some SLS files and the states that it needs.

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
    context: Context, options: Mapping[str, Any], work: Callable[[Context], Union[Any, ShowErrors]]
) -> Any:
    """Call *work* with the context of a run that is only shown; return its errors, if any.

    A broken pillar is an error too, because its values decide about the states.
    """

    def checked(inside: Context) -> Any:
        return ShowErrors(api.pillar_errors(inside)) or work(inside)

    return _faults_told(context, _prepared(context, run_options(options), checked))


def _faults_told(context: Context, answer: Any) -> Any:
    """Return *answer*; if it is a list of errors, set the job's exit code."""
    if isinstance(answer, ShowErrors):
        context.scratch["retcode"] = _CANT_SHOW
        return list(answer)
    return answer


@function(reads=True, out="nested")
def show_sls(context: Context, /, mods: Mods, **options: Any) -> Any:
    """Return the high data of SLS files as written, without extend and `*_in`."""

    def work(inside: Context) -> Any:
        high, errors = api.render_high(inside, {inside.saltenv: api.sls_list(mods)})
        return ShowErrors(errors or api.high_faults(high)) or high.as_dict()

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_low_sls(context: Context, /, mods: Mods, **options: Any) -> Any:
    """Return the low data of SLS files in run order, without extend and `*_in`."""

    def work(inside: Context) -> Any:
        high, errors = api.render_high(inside, {inside.saltenv: api.sls_list(mods)})
        if errors:
            return ShowErrors(errors)
        shown, errors = api.shown_low(inside, high)
        return ShowErrors(errors) or shown

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_highstate(context: Context, /, **options: Any) -> Any:
    """Return the high data of the highstate as written, without extend and `*_in`."""

    def work(inside: Context) -> Any:
        high, errors = api.render_highstate(inside)
        return ShowErrors(errors) or high.as_dict()

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_lowstate(context: Context, /, **options: Any) -> Any:
    """Return the low data of the highstate in run order."""

    def work(inside: Context) -> Any:
        chunks, errors = api.shown_lowstate(inside)
        return ShowErrors(errors) or chunks

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_top(context: Context, /, **options: Any) -> Any:
    """Return the SLS names that the top files assign to this minion, by environment."""

    def work(inside: Context) -> Any:
        try:
            return api.compile_top(inside)
        except api.TopError as error:
            return ShowErrors([str(error)])

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_states(context: Context, /, **options: Any) -> Any:
    """Return the names of the SLS files of the highstate.

    Args:
        context: of the job.
        options: sorted (default True): sort by the `order` of their states, else in run order.
    """
    by_order = truth(options.pop("sorted", True))

    def work(inside: Context) -> Any:
        compiled = api.compile_highstate(inside)
        if compiled.errors:
            return ShowErrors(compiled.errors)
        lows = list(compiled.low)
        if by_order:
            lows.sort(key=lambda low: low.order)
        return list(dict.fromkeys(str(low.sls) for low in lows))

    return _shown(context, options, work)


@function(reads=True, out="nested")
def show_state_usage(context: Context, /, **options: Any) -> Any:
    """Return by environment which SLS files the top files use and which are unused."""

    def work(inside: Context) -> Any:
        try:
            tops = api.compile_top(inside)
        except api.TopError as error:
            return ShowErrors([str(error)])
        return {env: _usage(inside, env, set(names)) for env, names in tops.items()}

    # As in Salt, a broken pillar does not prevent this answer.
    return _faults_told(context, _prepared(context, run_options(options), work))


def _usage(context: Context, env: str, named: Set[str]) -> Dict[str, Any]:
    known = set(api.sls_names(context, env))
    used, unused = sorted(known & named), sorted(known - named)
    return {
        "count_all": len(known),
        "count_used": len(used),
        "count_unused": len(unused),
        "used": used,
        "unused": unused,
    }


@function(reads=True)
def running(context: Context, concurrent: bool = False) -> List[str]:
    """Return one sentence per other active state run of this minion.

    Args:
        context: of the job.
        concurrent: accepted without effect: state runs never overlap here.
    """
    own = context.job.jid if context.job else ""
    return [
        f'The function "{job.get("fun")}" is running as PID {job.get("pid")} and was started at '
        f"{_moment(str(job.get('jid')))} with jid {job.get('jid')}"
        for job in context.host.running()
        if str(job.get("fun", "")).startswith("state.") and str(job.get("jid")) != own
    ]


def _moment(jid: str) -> str:
    """Return the time of a job id as text; the id itself if it contains no time."""
    try:
        return datetime.strptime(jid, "%Y%m%d%H%M%S%f").strftime("%Y, %b %d %H:%M:%S.%f")
    except ValueError:
        return jid


@function(reads=True, fails="bool")
def sls_exists(context: Context, /, mods: Mods, saltenv: str = "", **options: Any) -> Any:
    """Return whether all these SLS files and their includes exist and can be rendered.

    If the pillar is broken, return its errors instead.
    """

    def work(inside: Context) -> bool:
        env = saltenv or inside.saltenv
        _, errors = api.render_high(inside, {env: api.sls_list(mods)})
        return not errors

    return _shown(context, options, work)


@function(reads=True)
def id_exists(context: Context, /, ids: Mods, mods: Mods, **options: Any) -> Any:
    """Return whether SLS files declare all these ids."""

    def work(inside: Context) -> Any:
        wanted = set(api.sls_list(ids))
        high, errors = api.render_high(inside, {inside.saltenv: api.sls_list(mods)})
        return ShowErrors(errors) or wanted <= {one.id for one in high.states}

    return _shown(context, options, work)
