"""Top files: which SLS files a minion gets."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Tuple

from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.target import Subject, parse
from catena.states.compiler.faults import TopError, at

#: environment -> target -> entries, as written.
_Sections = Dict[str, Dict[str, List[Any]]]


def assigned(context: Context) -> Dict[str, List[str]]:
    """Return the SLS names for this minion by environment, in the order of the top files.

    Raises:
        TopError: a top file can't be rendered, or is malformed.
    """
    subject = Subject(str(context.opts.get("id", "")), context.grains, context.pillar)
    nodegroups = context.opts.get("nodegroups") or {}
    found: Dict[str, List[str]] = {}
    for env, targets in _sections(context).items():
        for expression, entries in targets.items():
            kind, names = _entries(entries, f"{env}: {expression}")
            try:
                meant = parse(expression, kind, nodegroups).matches(subject)
            except CatenaError as error:
                raise TopError(f"top file, target {expression!r} of {env}: {error}") from error
            if meant:
                found.setdefault(env, []).extend(names)
    return {env: names for env, names in found.items() if names}


def _entries(entries: List[Any], place: str) -> Tuple[str, List[str]]:
    """Return how a target is to be read (compound by default) and its SLS names."""
    kind, names = "compound", []
    for entry in entries:
        if isinstance(entry, str):
            names.append(entry)
        elif isinstance(entry, Mapping) and len(entry) == 1:
            key, value = next(iter(entry.items()))
            if key == "match":
                kind = str(value)
            elif key != "order":
                raise TopError(f"top file, {place}: unknown entry {key!r}")
        else:
            raise TopError(f"top file, {place}: an entry must be an SLS name, not {entry!r}")
    return kind, names


def _sections(context: Context) -> _Sections:
    """Return the sections of all top files, joined by `top_file_merging_strategy`."""
    opts = context.opts
    strategy = str(opts.get("top_file_merging_strategy") or "merge")
    files = {env: data for env, data in _top_files(context)}
    if strategy == "merge_all":
        return _merge_all(files)
    fallback = str(opts.get("default_top") or "base")
    result: _Sections = {}
    if strategy == "same":
        for env in _environments(context):
            data = files.get(env, {}) or files.get(fallback, {})
            if env in data:
                result[env] = data[env]
        return result
    # "merge": what base's top file says of an environment wins over that environment's own.
    for env, targets in files.get("base", {}).items():
        result[env] = targets
    for env, data in files.items():
        if env in data:
            result.setdefault(env, data[env])
    return result


def _merge_all(files: Mapping[str, _Sections]) -> _Sections:
    result: _Sections = {}
    for data in files.values():
        for env, targets in data.items():
            section = result.setdefault(env, {})
            for expression, entries in targets.items():
                section.setdefault(expression, []).extend(entries)
    return result


def _environments(context: Context) -> List[str]:
    known = context.files.environments()
    ordered = [env for env in context.opts.get("env_order") or () if env in known]
    rest = [env for env in known if env not in ordered]
    return [*ordered, *sorted(rest, key=lambda env: (env != "base", env))]


def _top_files(context: Context) -> Iterator[Tuple[str, _Sections]]:
    # The renderers need third-party packages, which hosts reached over SSH may lack.
    from catena.renderers.pipeline import render
    from catena.renderers.source import Source

    path = str(context.opts.get("state_top") or "top.sls").replace("salt://", "")
    only = context.opts.get("state_top_saltenv")
    for env in [str(only)] if only else _environments(context):
        local = context.files.fetch(path, env) if context.files.entry(path, env) else None
        if local is None:
            continue
        source = Source(local.read_text("utf-8"), f"salt://{path}", env, "top", path)
        try:
            rendered = render(context, source, str(context.opts.get("renderer") or "jinja|yaml"))
        except CatenaError as error:
            raise TopError(f"Rendering SLS '{env}:top' failed: {error}") from error
        if rendered.data is not None:
            yield env, _checked(rendered)


def _checked(rendered: Any) -> _Sections:
    data = rendered.data
    if not isinstance(data, Mapping):
        raise TopError(f"a top file must be a mapping of environments{at(rendered.place())}")
    result: _Sections = {}
    for env, targets in data.items():
        place = at(rendered.place(env))
        if not isinstance(env, str) or not isinstance(targets, Mapping):
            raise TopError(f"top file: environment {env!r} must map targets to lists{place}")
        for expression, entries in targets.items():
            if not isinstance(entries, list):
                where = at(rendered.place(env, expression))
                raise TopError(f"top file: target {expression!r} needs a list{where}")
        result[env] = {str(expression): list(entries) for expression, entries in targets.items()}
    return result
