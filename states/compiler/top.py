"""Read top files, which assign SLS files to minions."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.frozen import dataclass, replace
from catena.core.target import Subject, parse
from catena.core.types import SourceLine
from catena.states.compiler.faults import TopError, at, meant
from catena.states.compiler.sls import TopName, sls_names

#: Ignored options of an entry: `order` has no effect in Salt either, and `ignore_missing` belongs
#: to pillar, whose top files often share their text.
_IDLE = frozenset({"order", "ignore_missing"})


@dataclass(frozen=True)
class _Entries:
    """The entries below one target."""

    listed: Tuple[Any, ...]
    #: Source line of the target.
    place: SourceLine
    #: Source lines of the entries; () if several lists were merged.
    lines: Tuple[SourceLine, ...] = ()

    def placed(self) -> Iterator[Tuple[Any, SourceLine]]:
        """Yield every entry with its source line."""
        return zip(self.listed, self.lines or (self.place,) * len(self.listed))


#: environment -> target -> entries.
_Sections = Dict[str, Dict[str, _Entries]]
#: Hint for an unknown nodegroup.
_OWN_GROUPS = "; a host knows the `nodegroups` of its own configuration, not the master's"
#: The sections of an environment's top file and of those that it includes.
_Files = List[_Sections]


def assigned(context: Context) -> Dict[str, List[str]]:
    """Return the SLS names for this minion by environment, in the order of the top files.

    If the run or the configuration names an environment, only that environment's section of its
    own top file counts.

    Raises:
        TopError: a top file can't be rendered, or is malformed.
    """
    only = str(context.opts.get("environment") or "")
    sections = _joined(context, _top_files(context, only))
    known = context.files.environments()
    subject = Subject(str(context.opts.get("id", "")), context.grains, context.pillar)
    nodegroups = context.opts.get("nodegroups") or {}
    found: Dict[str, List[str]] = {}
    for env, targets in sections.items():
        if only and env != only:
            continue
        for expression, entries in targets.items():
            kind, names = _read(entries, env, known)
            alone = context.opts.get("file_client") == "local"
            if alone and kind == "nodegroup" and expression not in nodegroups:
                # With --local, as in Salt, a nodegroup that only the master knows is empty.
                continue
            try:
                is_meant = parse(expression, kind, nodegroups).matches(subject)
            except CatenaError as error:
                place = f"{expression!r} of {env}{at(entries.place)}"
                own = _OWN_GROUPS if "nodegroup" in str(error) else ""
                raise TopError(f"top file, target {place}: {error}{own}") from error
            if is_meant:
                found.setdefault(env, [])
                for name_env, name in names:
                    found.setdefault(name_env, []).append(name)
    return found


def _read(entries: _Entries, env: str, known: Sequence[str]) -> Tuple[str, List[Tuple[str, str]]]:
    """Return the type of a target (default: compound) and its (environment, SLS name) pairs."""
    kind = "compound"
    names: List[Tuple[str, str]] = []
    for entry, place in entries.placed():
        if isinstance(entry, str):
            names.append((env, TopName(entry, place)))
            continue
        if not isinstance(entry, Mapping):
            fault = f"an entry must be an SLS name, not {entry!r}"
            raise TopError(f"top file, {env}: {fault}{at(place)}")
        for key, value in entry.items():
            if key == "match" and value:
                kind = str(value)
            elif key in known and isinstance(value, str):
                # The entry names an SLS file of another environment.
                names.append((key, TopName(value, place)))
            elif key not in _IDLE:
                near = meant(str(key), ("match", *_IDLE, *known))
                fault = f"unknown entry {key!r}" if key != "match" else "match says nothing"
                raise TopError(f"top file, {env}: {fault}{near}{at(place)}")
    return kind, names


def _joined(context: Context, files: Mapping[str, _Files]) -> _Sections:
    """Return the sections of all top files, merged by `top_file_merging_strategy`."""
    strategy = str(context.opts.get("top_file_merging_strategy") or "merge")
    if strategy == "merge_all":
        return _merge_all(files)
    result: _Sections = {}
    if strategy == "same":
        fallback = str(context.opts.get("default_top") or "base")
        for env, own in files.items():
            for data in own if any(own) else files.get(fallback, ()):
                if env in data:
                    result.setdefault(env, {}).update(data[env])
        return result
    # "merge": base's section for an environment wins over the environment's own top file.
    for data in files.get("base", ()):
        for env, targets in data.items():
            result.setdefault(env, {}).update(targets)
    for env, own in files.items():
        for data in own:
            if env in data:
                result.setdefault(env, data[env])
    return result


def _merge_all(files: Mapping[str, _Files]) -> _Sections:
    result: _Sections = {}
    for data in (data for own in files.values() for data in own):
        for env, targets in data.items():
            section = result.setdefault(env, {})
            for expression, entries in targets.items():
                first = section.get(expression)
                section[expression] = _both(first, entries) if first else entries
    return result


def _both(first: _Entries, second: _Entries) -> _Entries:
    """Merge two lists for one target: the later `match` wins, each name occurs once."""
    names = dict.fromkeys(
        entry for entry in (*first.listed, *second.listed) if isinstance(entry, str)
    )
    options = [entry for entry in (*first.listed, *second.listed) if not isinstance(entry, str)]
    return replace(second, listed=(*options, *names), lines=())


def _environments(context: Context) -> List[str]:
    known = context.files.environments()
    order = context.opts.get("env_order")
    if order:
        return [env for env in dict.fromkeys(order) if env in known]
    configured = context.opts.get("file_roots") or {}
    return [env for env in dict.fromkeys(("base", *configured, *known)) if env in known]


def _top_files(context: Context, only: str) -> Dict[str, _Files]:
    path = str(context.opts.get("state_top") or "top.sls").replace("salt://", "")
    single = only or str(context.opts.get("state_top_saltenv") or "")
    found: Dict[str, _Files] = {}
    for env in [single] if single else _environments(context):
        sections, includes = _one(context, env, path)
        found[env] = [sections]
        known = sls_names(context, env) if includes else []
        matching = (name for pattern in includes for name in known if fnmatchcase(name, pattern))
        for name in dict.fromkeys(matching):
            found[env].append(_included(context, env, name))
    return found


def _included(context: Context, env: str, name: str) -> _Sections:
    base = name.replace(".", "/")
    for path in (f"{base}.sls", f"{base}/init.sls"):
        if context.files.entry(path, env):
            # As in Salt, `include` in an included file has no effect.
            return _one(context, env, path)[0]
    return {}


def _one(context: Context, env: str, path: str) -> Tuple[_Sections, List[str]]:
    """Return the sections of one file, and the names or globs of its `include`."""
    # Imported here: the renderers need third-party packages, which hosts over SSH may lack.
    from catena.renderers.pipeline import render
    from catena.renderers.source import Source, decoded

    local = context.files.fetch(path, env) if context.files.entry(path, env) else None
    if local is None:
        return {}, []
    try:
        address = f"salt://{path}"
        source = Source(decoded(local.read_bytes(), address), address, env, "", path)
        rendered = render(context, source, str(context.opts.get("renderer") or "jinja|yaml"))
    except CatenaError as error:
        raise TopError(f"Rendering SLS '{env}:top' failed: {error}") from error
    if rendered.data is None:
        return {}, []
    if not isinstance(rendered.data, Mapping):
        raise TopError(f"a top file must be a mapping of environments{at(rendered.place())}")
    data = dict(rendered.data)
    includes = data.pop("include", [])
    if not isinstance(includes, list):
        raise TopError(f"top file: include must be a list{at(rendered.place('include'))}")
    return dict(_sections(data, rendered)), [str(name) for name in includes]


def _sections(data: Mapping[Any, Any], rendered: Any) -> Iterator[Tuple[str, Dict[str, _Entries]]]:
    for env, targets in data.items():
        if not isinstance(env, str) or not isinstance(targets, Mapping):
            place = at(rendered.place(env))
            raise TopError(f"top file: environment {env!r} must map targets to lists{place}")
        section = {}
        for expression, entries in targets.items():
            place = rendered.place(env, expression)
            if not isinstance(entries, list):
                raise TopError(f"top file: target {expression!r} needs a list{at(place)}")
            lines = tuple(rendered.place(env, expression, n) for n in range(len(entries)))
            section[str(expression)] = _Entries(tuple(entries), place, lines)
        yield env, section
