"""Compile SLS names and run them, for state.* functions and for the runner of chains."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from catena.core.context import Context
from catena.core.errors import CatenaError, PillarError
from catena.core.frozen import replace
from catena.core.types import SourceLine
from catena.states.compiler.declare import Origin, declare
from catena.states.compiler.extend import extended
from catena.states.compiler.faults import StateArgumentsError, TopError
from catena.states.compiler.low import called, low_from_chunk, low_states
from catena.states.compiler.model import Compiled, Declaration, High, Low, Row, RunHooks
from catena.states.compiler.order import arranged
from catena.states.compiler.requisites import Index, Plan, apply_use, link
from catena.states.compiler.run import ProgressHooks, StateRun
from catena.states.compiler.show import shown_chunks
from catena.states.compiler.sls import SlsTree, sls_names
from catena.states.compiler.top import assigned
from catena.states.compiler.watch import Hearing, soften

__all__ = [
    "Compiled",
    "Low",
    "RunHooks",
    "StateArgumentsError",
    "TopError",
    "compile_high",
    "compile_highstate",
    "compile_sls",
    "compile_text",
    "compile_top",
    "high_faults",
    "low_from_chunk",
    "pillar_error_texts",
    "pillar_errors",
    "render_high",
    "render_highstate",
    "run",
    "shown_low",
    "shown_lowstate",
    "sls_list",
    "sls_names",
]

_PILLAR_FAILED = "Pillar failed to render with the following messages:"


def compile_sls(
    context: Context,
    mods: Union[str, Sequence[str]],
    saltenv: str = "",
    exclude: Sequence[str] = (),
    exclude_ids: Sequence[str] = (),
) -> Compiled:
    """Compile a run of the given SLS files.

    Args:
        context: grains, pillar and files to render with.
        mods: dotted names or globs, as a list or separated by commas.
        saltenv: environment; "" means the context's.
        exclude: SLS names to leave out.
        exclude_ids: ids to leave out.

    Returns:
        Low states in run order, or errors (including those of the pillar); with errors nothing may
        run. An SLS file that renders to nothing gives neither.
    """
    env = saltenv or context.saltenv
    return _compile(context, {env: sls_list(mods)}, exclude, exclude_ids)


def compile_highstate(
    context: Context,
    exclude: Sequence[str] = (),
    exclude_ids: Sequence[str] = (),
    whitelist: Sequence[str] = (),
) -> Compiled:
    """Compile a run of everything that the top files assign to this minion.

    If they assign nothing, the result has neither low states nor errors.

    Args:
        context: grains, pillar and files to render with.
        exclude: SLS names to leave out.
        exclude_ids: ids to leave out.
        whitelist: read only these of the assigned SLS names; (): all.
    """
    wanted, errors = _wanted(context)
    if errors:
        return Compiled((), tuple(errors))
    if whitelist:
        wanted = {
            env: [name for name in names if name in whitelist] for env, names in wanted.items()
        }
    return _compile(context, wanted, exclude, exclude_ids)


def render_highstate(context: Context) -> tuple[High, List[str]]:
    """Return the high data of the assigned SLS files before extend, and the errors found."""
    wanted, errors = _wanted(context)
    return (High(()), errors) if errors else render_high(context, wanted)


def _wanted(context: Context) -> tuple[Dict[str, List[str]], List[str]]:
    """Return the assigned SLS names by environment, or the errors of the top files."""
    errors = pillar_errors(context)
    if errors:
        return {}, errors
    try:
        return assigned(context), []
    except TopError as error:
        return {}, [str(error)]


def compile_top(context: Context) -> Dict[str, List[str]]:
    """Return the SLS names that the top files assign to this minion, by environment.

    Raises:
        TopError: a top file can't be rendered or is malformed.
    """
    return {env: [str(name) for name in names] for env, names in assigned(context).items()}


def compile_high(context: Context, data: Mapping[str, Any], saltenv: str = "") -> Compiled:
    """Compile a run of given high data (state.high, state.template_str)."""
    errors: List[str] = []
    origin = Origin(None, saltenv or context.saltenv, lambda *path: SourceLine(""))
    high = High(tuple(declare(data, origin, errors)))
    return Compiled((), tuple(errors)) if errors else _joined(context, high)


def compile_text(context: Context, text: str) -> Compiled:
    """Compile a run of *text*, rendered as an SLS file without a name."""
    # Imported here: the renderers need third-party packages, which hosts over SSH may lack.
    from catena.renderers.pipeline import render
    from catena.renderers.source import Source

    errors = pillar_errors(context)
    if errors:
        return Compiled((), tuple(errors))
    default = str(context.opts.get("renderer") or "jinja|yaml")
    try:
        rendered = render(context, Source(text, "<template>", context.saltenv), default)
    except CatenaError as error:
        return Compiled((), (f"Rendering the template failed: {error}",))
    if not isinstance(rendered.data, Mapping):
        return Compiled((), ("the template must be a mapping of ids",))
    return compile_high(context, rendered.data)


def render_high(context: Context, wanted: Mapping[str, Sequence[str]]) -> tuple[High, List[str]]:
    """Return the high data of SLS files (by environment) before extend, and the errors found."""
    tree = SlsTree(context)
    for env, names in wanted.items():
        for name in names:
            tree.add(name, env)
    return tree.high(), tree.errors


def high_faults(high: High) -> List[str]:
    """Return the errors in *high* that the checks of its shape do not find."""
    errors: List[str] = []
    for one in high.states:
        called(one, errors)
    return errors


def shown_low(context: Context, high: High) -> tuple[List[Row], List[str]]:
    """Return Salt's low chunks of *high* without extend, use and `*_in`, and the errors found."""
    errors: List[str] = []
    lows = low_states(high.states, errors)
    plan = link([_without_reverse(low) for low in lows])
    hears = Hearing(context)
    soften(plan, hears)
    chunks = [] if errors or plan.errors else shown_chunks(plan, lows, hears)
    return chunks, errors + plan.errors


def shown_lowstate(context: Context) -> tuple[List[Row], List[str]]:
    """Return Salt's low chunks of the highstate in run order, and the errors found."""
    high, errors = render_highstate(context)
    if errors:
        return [], errors
    plan = _planned(context, high)
    chunks = [] if plan.errors else shown_chunks(plan, plan.lows, Hearing(context))
    return chunks, plan.errors


def run(context: Context, low: Sequence[Low], hooks: Optional[RunHooks] = None) -> Dict[str, Row]:
    """Run the low states of a Compiled without errors, in their order.

    Args:
        context: passed to the states; with `context.test` they change nothing.
        low: as compiled.
        hooks: journal or progress; default: every row goes to `context.host.progress`.

    Returns:
        Rows by key, in the order in which they were made. States that did not run because of
        `failhard` or a cancellation have none.

    Raises:
        StateArgumentsError: arguments don't fit their functions; nothing ran.
    """
    if context.running is not None:
        rows = context.running(context, low)
    else:
        beside = hooks or ProgressHooks(context, len(low))
        rows = StateRun(context, low, beside, journalled=hooks is not None).rows()
    # The rows decide about the job's exit code; forget those that single commands have set.
    context.scratch["retcode"] = 0
    return rows


def sls_list(mods: Union[str, Sequence[str]]) -> List[str]:
    """Return SLS names given as a list or separated by commas."""
    parts = mods.split(",") if isinstance(mods, str) else [str(each) for each in mods]
    return [part.strip() for part in parts if part.strip()]


def pillar_errors(context: Context) -> List[str]:
    """Return the errors of the pillar; empty if it is usable.

    The first access compiles the pillar. This is done here, before anything is rendered.
    """
    try:
        len(context.pillar)
    except CatenaError as error:
        return pillar_error_texts(error)
    return []


def pillar_error_texts(error: CatenaError) -> List[str]:
    """Return the result of a state run whose pillar could not be compiled."""
    texts = (isinstance(error, PillarError) and error.errors) or (str(error),)
    return [_PILLAR_FAILED, *(str(text) for text in texts)]


def _compile(
    context: Context,
    wanted: Mapping[str, Sequence[str]],
    exclude: Sequence[str],
    exclude_ids: Sequence[str],
) -> Compiled:
    errors = pillar_errors(context)
    if errors:
        return Compiled((), tuple(errors))
    high, errors = render_high(context, wanted)
    if errors:
        return Compiled((), tuple(errors), high.as_dict())
    if exclude or exclude_ids:
        high = replace(
            high,
            excluded_sls=high.excluded_sls | frozenset(exclude),
            excluded_ids=high.excluded_ids | frozenset(exclude_ids),
        )
    return _joined(context, high)


def _planned(context: Context, high: High) -> Plan:
    """Apply extend, make low states, apply use, exclude, `*_in`, resolve requisites."""
    errors: List[str] = []
    lows = low_states(extended(high, errors), errors)
    if errors:
        return Plan((), [], Index(()), errors)
    lows = apply_use(lows)
    kept = [low for low in lows if not _excluded(high, low)]
    gone = [low for low in (lows if len(kept) < len(lows) else ()) if _excluded(high, low)]
    plan = link(kept, gone, high.excluded_sls)
    soften(plan, Hearing(context))
    return plan


def _joined(context: Context, high: High) -> Compiled:
    """Put the states of *high* in the order in which they run."""
    shown = high.as_dict()
    plan = _planned(context, high)
    # A loop is reported in addition to missing requisites.
    lows = arranged(plan)
    if lows is None or plan.errors:
        return Compiled((), tuple(plan.errors), shown)
    return Compiled(lows, (), shown)


def _excluded(high: High, low: Union[Low, Declaration]) -> bool:
    names = high.excluded_sls
    return low.id in high.excluded_ids or any(fnmatchcase(str(low.sls), name) for name in names)


def _without_reverse(low: Low) -> Low:
    if not any(key.endswith("_in") for key in low.keywords):
        return low
    keywords = {key: value for key, value in low.keywords.items() if not key.endswith("_in")}
    return replace(low, keywords=keywords)
