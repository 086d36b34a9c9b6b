"""What a run needs, put together before it starts: states, the files that they name, templates.

A template that calls no function of the target gives the same text whenever it is rendered: its
text is sent ahead, under the key by which the run would ask for it. What looks at the host, or
can't be rendered yet, is asked for when its turn comes.
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
from catena.ssh.push.program import Part
from catena.ssh.push.roots import referenced
from catena.states.compiler.model import Low
from catena.states.file.managed import Order, managed_order, new_content
from catena.states.file.options import ManagedOptions
from catena.states.file.recurse import member_orders

_SCHEME = "salt://"


def code_templates(context: Context, lows: Sequence[Low]) -> frozenset[tuple[str, str]]:
    """Return (engine, path) of the templates of states that are code: what runs here later.

    Args:
        context: in which the states were compiled; one that limits its renderers, because a
            target's own words led to it, names no code.
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
    """Renders for states that are only looked at, and keeps what is good for later too.

    Args:
        run: the context that the run begins with.
        acted: how many calls the target has answered so far.
    """

    def __init__(self, run: Context, acted: Callable[[], int]) -> None:
        self._run = run
        self._acted = acted
        #: Key -> text.
        self.texts: dict[str, str] = {}

    def text(
        self, context: Context, source: Source, engine: str, variables: Mapping[str, Any]
    ) -> str:
        """Return the text of a managed file, and keep it where it is always the same."""
        if engine != "jinja" and not _may_run(context, engine):
            raise NotAllowedError(f"{engine} may not render here")
        before = self._acted()
        question = AskText(source, engine, dict(variables), view_of(context, self._run))
        text = render_file(context.with_(rendering=None), source, engine, variables)
        if self._acted() == before:
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
    context: Context, lows: Sequence[Low], acted: Callable[[], int]
) -> tuple[dict[str, str], dict[str, Part]]:
    """Return what can be rendered of the states' templates now.

    Args:
        context: of the run.
        lows: its states.
        acted: how many calls the target has answered so far.

    Returns:
        SHA-256 of a text by the key of its question; the text's bytes by that SHA-256.
    """
    notes = _Notebook(context, acted)
    for low in lows:
        if low.state == "file" and low.fun in _ORDERS and _is_from_roots(low):
            _look(context.with_(rendering=notes), low)
    made = {key: Part.of(text.encode("utf-8")) for key, text in notes.texts.items()}
    return (
        {key: part.sha256 for key, part in made.items()},
        {part.sha256: part for part in made.values()},
    )


def _managed(context: Context, low: Low) -> Iterator[Order]:
    chosen, _ = split(ManagedOptions, dict(low.args))
    yield managed_order(context, low.name, chosen)


def _recursed(context: Context, low: Low) -> Iterator[Order]:
    return member_orders(context, low.name, **low.args)


#: Functions of `file` that make files of templates -> what they do with each.
_ORDERS: Mapping[str, Callable[[Context, Low], Iterator[Order]]] = {
    "managed": _managed,
    "recurse": _recursed,
}


def _is_from_roots(low: Low) -> bool:
    """Return whether a state's content comes from a template of the roots, and from nowhere else.

    A path or web address is one that the target sees, not this host.
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
    """Find out what a state would write, as far as that can be known here."""
    saltenv = str(low.keywords.get("saltenv") or low.env)
    inside = context.with_(saltenv=saltenv) if saltenv != context.saltenv else context
    try:
        for order in _ORDERS[low.fun](inside, low):
            new_content(inside, order)
    except (CatenaError, UnicodeError):
        # Told when its turn comes, by the state itself.
        return
