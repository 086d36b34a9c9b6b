"""The stateconf renderer: ids that are local to their file, and parameters that others extend.

    #!stateconf [-Gosp] [yaml . jinja]

An id that begins with a dot belongs to its file: `.run` of web/site.sls is `web.site::run`.
`stateconf.set` above the line `# --- end of state config ---` gives the names that the template
sees below it. By default a state `.goal` requires all others; -G leaves it out, -s adds `.start`,
-o lets each state require the one before it, -p takes data instead of text.
"""

from __future__ import annotations

import copy
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from catena.core.errors import UsageError
from catena.core.frozen import dataclass

END = re.compile(r"#\s*-+\s*end of state config\s*-+")
GOAL, START = ".goal", ".start"
SET = "stateconf.set"
_MODULE = "stateconf"
_NO_STATES = ("include", "exclude", "extend")
_KINDS = ("require", "watch", "listen", "onchanges", "onfail")
_KINDS_IN = tuple(f"{kind}_in" for kind in _KINDS)
_REQUISITES = (*_KINDS, *_KINDS_IN, "use", "use_in")

High = Dict[str, Any]
#: Renders a text through renderers, with more names for its template.
Through = Callable[[str, Tuple[str, ...], Mapping[str, Any]], Any]


@dataclass(frozen=True)
class StateconfOptions:
    """What stands behind the renderer's name."""

    goal: bool = True
    ordered: bool = False
    start: bool = False
    takes_data: bool = False
    #: Template renderer, then data renderer.
    renderers: Tuple[str, ...] = ("jinja", "yaml")


def options_of(line: str) -> StateconfOptions:
    """Return the options that *line* asks for.

    Raises:
        UsageError: an unknown option, or renderers not written as `yaml . jinja`.
    """
    words = line.split()
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    rest = " ".join(word for word in words if not word.startswith("-"))
    unknown = set(flags) - set("Gosp")
    if unknown:
        raise UsageError(f"stateconf has no option -{min(unknown)}, only -G, -o, -s and -p")
    data, dot, template = (part.strip() for part in (rest or "yaml . jinja").partition(" . "))
    if not (data and dot and template):
        raise UsageError(f"stateconf {rest!r}: the renderers are written as 'yaml . jinja'")
    return StateconfOptions(
        "G" not in flags, "o" in flags, "s" in flags, "p" in flags, (template, data)
    )


def render(text: str, sls: str, saltenv: str, options: StateconfOptions, through: Through) -> High:
    """Return the high data of *text*.

    Args:
        text: the file, below its #! line.
        sls: dotted name of the file.
        saltenv: its environment.
        options: from `options_of`.
        through: the other renderers.

    Raises:
        UsageError: an id, requisite or include that can't be.
        RenderError: the other renderers find a fault.
    """
    folder = sls.replace(".", "/").rpartition("/")[0] or sls
    names: Dict[str, Any] = {"sls_dir": folder or "."}
    end = END.search(text)
    if end:
        first = through(text[: end.start()], options.renderers, names)
        names.update(_parameters(_local(copy.deepcopy(first or {}), sls, saltenv), sls))
    data = through(text, options.renderers, names)
    return process(data or {}, sls, saltenv, options)


def process(data: Any, sls: str, saltenv: str, options: StateconfOptions) -> High:
    """Return high data with what the renderer adds to it and its local ids made global."""
    if not isinstance(data, dict):
        raise UsageError("stateconf needs a mapping of ids")
    high: High = copy.deepcopy(data)
    _write_out(high)
    if options.ordered:
        _require_in_order(high)
    if options.start:
        _add_start(high)
    if options.goal:
        _add_goal(high)
    return _local(high, sls, saltenv)


def _local(high: High, sls: str, saltenv: str) -> High:
    _write_out(high)
    for index, each in enumerate(high.get("include") or []):
        env, name = next(iter(each.items())) if isinstance(each, dict) else (saltenv, each)
        if isinstance(name, str) and name.startswith("."):
            high["include"][index] = {env: _absolute(name, sls)}
    for each in high.get("exclude") or []:
        if isinstance(each, dict) and str(each.get("sls", "")).startswith("."):
            each["sls"] = _absolute(each["sls"], sls)
    _rename(high, sls)
    if isinstance(high.get("extend"), dict):
        _rename(high["extend"], sls)
    return high


def _write_out(high: High) -> None:
    """Turn `id: state.function` into `id: {state.function: []}`."""
    for name, states in high.items():
        if isinstance(states, str):
            high[name] = {states: []}


def _absolute(relative: str, sls: str) -> str:
    name = relative.lstrip(".")
    parts = sls.split(".")
    level = len(relative) - len(name)
    if level > len(parts):
        raise UsageError(f"{relative!r} leads above the top of the tree")
    return ".".join([*parts[:-level], name])


def _global_id(name: str, sls: str) -> str:
    if "::" in name:
        return _absolute(name, sls)
    return "::".join(_absolute(name, f"{sls}.").rsplit(".", 1))


def _states(high: High) -> Iterator[Tuple[str, str, List[Any]]]:
    """Yield (id, state or state.function, arguments)."""
    for name, states in high.items():
        if name in _NO_STATES or str(name).startswith("__") or not isinstance(states, dict):
            continue
        for state, arguments in states.items():
            if not str(state).startswith("__") and isinstance(arguments, list):
                yield name, state, arguments


def _requisites(arguments: List[Any], kinds: Tuple[str, ...]) -> Iterator[Dict[str, Any]]:
    """Yield the {state: id} of a state's requisites."""
    for argument in arguments:
        for kind, targets in argument.items() if isinstance(argument, dict) else ():
            if kind in kinds and isinstance(targets, list):
                yield from (target for target in targets if isinstance(target, dict))


def _module(state: str) -> str:
    return str(state).partition(".")[0]


def _rename(high: High, sls: str) -> None:
    for _, _, arguments in _states(high):
        for target in _requisites(arguments, _REQUISITES):
            for state, name in target.items():
                if isinstance(name, str) and name.startswith("."):
                    target[state] = _global_id(name, sls)
    for name in [name for name in high if isinstance(name, str) and name.startswith(".")]:
        made = _global_id(name, sls)
        if made in high:
            raise UsageError(f"the id {name!r} becomes {made!r}, which is there already")
        for _, state, arguments in _states({name: high[name]}):
            named = any(isinstance(each, dict) and "name" in each for each in arguments)
            if _module(state) != _MODULE and not named:
                arguments.insert(0, {"name": name[1:]})
        high[made] = high.pop(name)


def _parameters(high: High, sls: str) -> Dict[str, Any]:
    """Return what `stateconf.set` gives, by the local name of its id; `extend` wins."""
    found: Dict[str, Dict[str, Any]] = {}
    for part in (high, high.get("extend") or {}):
        for name, state, arguments in _states(part):
            if state in (_MODULE, SET):
                values = found.setdefault(name.rpartition(f"{sls}::")[2], {})
                for argument in arguments:
                    values.update(argument if isinstance(argument, dict) else {})
    return found


def _add_goal(high: High) -> None:
    if GOAL in high:
        raise UsageError(f"the id {GOAL!r} is made by stateconf itself")
    needed = [{_module(state): name} for name, state, _ in _states(high)]
    high[GOAL] = {SET: [{"require": needed}]}


def _add_start(high: High) -> None:
    if START in high:
        raise UsageError(f"the id {START!r} is made by stateconf itself")
    first = next(_states(high), None)
    if first is not None:
        high[START] = {SET: [{"require_in": [{_module(first[1]): first[0]}]}]}


def _require_in_order(high: High) -> None:
    """Let each state require the one before it."""
    places = {(name, _module(state)): n for n, (name, state, _) in enumerate(_states(high))}
    before: Optional[Tuple[str, str]] = None
    for name, state, arguments in _states(high):
        if any(isinstance(each, dict) and "names" in each for each in arguments):
            raise UsageError(f"the id {name!r} has names, which stateconf -o can't order")
        _check_order((name, _module(state)), arguments, places)
        if before is not None:
            _add_require(arguments, {before[1]: before[0]})
        before = (name, _module(state))


def _check_order(
    own: Tuple[str, str], arguments: List[Any], places: Mapping[Tuple[str, str], int]
) -> None:
    here = places[own]
    for kinds, sign, where in ((_KINDS, 1, "after"), (_KINDS_IN, -1, "before")):
        for target in _requisites(arguments, kinds):
            for state, other in target.items():
                if (places.get((other, _module(state)), here) - here) * sign > 0:
                    raise UsageError(
                        f"the id {own[0]!r} has a requisite to {other!r}, which stands {where} it"
                    )


def _add_require(arguments: List[Any], target: Dict[str, str]) -> None:
    for argument in arguments:
        if isinstance(argument, dict) and isinstance(argument.get("require"), list):
            argument["require"].insert(0, target)
            return
    arguments.append({"require": [target]})
