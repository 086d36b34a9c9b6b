"""Collect what a run needs before it starts: states, the files that they name, templates.

A template that calls no function of the target always gives the same text. That text is sent in
advance, under the key of the request that the run would send. The run requests other templates
when it needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from catena.core.context import Context
from catena.core.errors import CatenaError, NotAllowedError
from catena.modules.shared.arguments import split
from catena.renderers.source import Rendered, Source
from catena.renderers.templates import render_file
from catena.runtime.push.asking import AskText, timeless_key, view_of
from catena.ssh.push.calls import TargetCalls
from catena.ssh.push.program import Part
from catena.ssh.push.roots import referenced
from catena.states.compiler.model import Low
from catena.states.file.managed import ManagedFile, managed_order, new_content
from catena.states.file.options import ManagedOptions
from catena.states.file.recurse import member_orders

_SCHEME = "salt://"


def code_templates(context: Context, lows: Sequence[Low]) -> frozenset[tuple[str, str]]:
    """Return (engine, path) of the code templates of states, which may run on the master later.

    Args:
        context: in which the states were compiled. If it limits its renderers because data of a
            target led to it, it allows no code.
        lows: the states.
    """
    found: set[tuple[str, str]] = set()
    for low in lows:
        engine = str(low.args.get("template") or "jinja")
        if engine != "jinja" and _may_run(context, engine):
            for entries in referenced(context.files, [low]).entries.values():
                found.update((engine, path) for path in entries)
    return frozenset(found)


def _may_run(context: Context, engine: str) -> bool:
    allowed = context.opts.get("renderer_whitelist")
    return not allowed or engine in allowed


class _Notebook:
    """Renders templates of states in advance, and stores texts that do not depend on the host.

    Args:
        run: the context with which the run begins.
        calls: the target's functions; none is called here, because the run renders again.
    """

    def __init__(self, run: Context, calls: TargetCalls) -> None:
        self._run = run
        self._calls = calls
        #: Texts by key.
        self.texts: dict[str, str] = {}

    def text(
        self, context: Context, source: Source, engine: str, variables: Mapping[str, Any]
    ) -> str:
        """Return the text of a managed file and store it; "" if it needs a call of the target."""
        if engine != "jinja" and not _may_run(context, engine):
            raise NotAllowedError(f"{engine} may not render here")
        question = AskText(source, engine, dict(variables), view_of(context, self._run))
        with self._calls.refused() as tried:
            try:
                text = render_file(context.with_(rendering=None), source, engine, variables)
            except CatenaError:
                if not tried:
                    raise
        if tried:
            return ""
        self.texts[timeless_key(question)] = text
        return text

    def data(
        self, context: Context, source: Source, default: str, variables: Mapping[str, Any]
    ) -> Rendered:
        """Refuse: no managed file needs data.

        Raises:
            CatenaError: always.
        """
        raise CatenaError("nothing but managed files is rendered ahead")


def rendered_ahead(
    context: Context, lows: Sequence[Low], calls: TargetCalls
) -> tuple[dict[str, str], dict[str, Part]]:
    """Return the templates of the states that can be rendered in advance.

    Args:
        context: of the run.
        lows: its states.
        calls: the target's functions.

    Returns:
        The SHA-256 of each text by the key of its request, and the text's bytes by SHA-256.
    """
    notes = _Notebook(context, calls)
    for low in lows:
        if low.state == "file" and low.fun in _ORDERS and _is_from_roots(low):
            _look(context.with_(rendering=notes), low)
    made = {key: Part.of(text.encode("utf-8")) for key, text in notes.texts.items()}
    return (
        {key: part.sha256 for key, part in made.items()},
        {part.sha256: part for part in made.values()},
    )


def _managed(context: Context, low: Low) -> Iterator[ManagedFile]:
    chosen, _ = split(ManagedOptions, dict(low.args))
    yield managed_order(context, low.name, chosen)


def _recursed(context: Context, low: Low) -> Iterator[ManagedFile]:
    return member_orders(context, low.name, **low.args)


#: By function of `file` that renders templates: returns the settings of each file.
_ORDERS: Mapping[str, Callable[[Context, Low], Iterator[ManagedFile]]] = {
    "managed": _managed,
    "recurse": _recursed,
}


def _is_from_roots(low: Low) -> bool:
    """Return whether a state's content comes only from a template of the file roots.

    Paths and web addresses are resolved on the target, not here.
    """
    args = low.args
    sources = args.get("source")
    named = sources if isinstance(sources, (list, tuple)) else [sources]
    return (
        bool(args.get("template"))
        and not args.get("source_hash")
        and low.name.startswith("/")
        and all(isinstance(one, str) and one.startswith(_SCHEME) for one in named)
    )


def _look(context: Context, low: Low) -> None:
    """Compute what a state would write, as far as possible on the master."""
    saltenv = str(low.keywords.get("saltenv") or low.env)
    inside = context.with_(saltenv=saltenv) if saltenv != context.saltenv else context
    try:
        for order in _ORDERS[low.fun](inside, low):
            new_content(inside, order)
    except (CatenaError, UnicodeError):
        # The state itself reports the error when it runs.
        return
