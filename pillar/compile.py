"""Compiling one minion's pillar from its top files.

Rules recorded from Salt: `cases/pillar/*` (behaviour 44 to 47).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from catena.core.context import Context
from catena.core.errors import CatenaError, LimitError, RenderError
from catena.core.frozen import dataclass, field, replace
from catena.core.nested import merge, recurse
from catena.core.suggest import nearest
from catena.core.target import Nodegroups, Subject
from catena.core.types import SourceLine
from catena.pillar.top import Assigned, TopReader, names_matching, sls_source
from catena.renderers.pipeline import DEFAULT, render
from catena.renderers.source import Rendered, SourceError

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings
    from catena.core.config.minion import MinionSettings

INCLUDE_DEPTH_LIMIT = 50
#: Maximum number of files of one minion's pillar; a file counts each time it is included.
FILE_LIMIT = 10_000


@dataclass(frozen=True)
class PillarSettings:
    """The settings that decide what a pillar becomes (names of the configuration)."""

    #: Name of the only environment that is read; "" for all.
    pillarenv: str = ""
    state_top: str = "top.sls"
    strategy: str = "smart"
    merge_lists: bool = False
    renderer: str = DEFAULT
    nodegroups: Nodegroups = field(default_factory=dict)
    #: Whether values of included files override those of the file that includes them.
    includes_override_sls: bool = False
    env_order: Sequence[str] = ()


def settings_of(
    configured: Union[MasterSettings, MinionSettings], pillarenv: str, state_top: str = "top.sls"
) -> PillarSettings:
    """Return what the configuration of who compiles decides of a pillar.

    Args:
        configured: the settings of the master, or of a minion that has its pillar files itself.
        pillarenv: the only environment that counts; "" for all.
        state_top: name of the top file. A minion's, where it reads its own files or is a host
            that SSH reaches; a master's pillar does not follow what its minions call theirs.
    """
    return PillarSettings(
        pillarenv=pillarenv,
        state_top=state_top,
        strategy=configured.pillar_source_merging_strategy,
        merge_lists=configured.pillar_merge_lists,
        renderer=configured.renderer,
        nodegroups=configured.nodegroups,
        env_order=configured.env_order,
        includes_override_sls=configured.pillar_includes_override_sls,
    )


@dataclass(frozen=True)
class _Visit:
    """One file on the way through top and includes."""

    given: Assigned
    #: What the files of this environment say themselves that were rendered before, by SLS name:
    #: an include of one is not rendered again.
    mods: Dict[str, Mapping[str, Any]]
    #: Names for its template (`defaults` of the include).
    defaults: Mapping[str, Any] = field(default_factory=dict)
    #: The includes that led here and the line of the top file, nearest first.
    way: Tuple[SourceLine, ...] = ()

    def included(self, given: Assigned, defaults: Mapping[str, Any]) -> _Visit:
        """Return the visit of a file that this one includes."""
        return _Visit(given, self.mods, defaults, (given.place, *self.way))


@dataclass(frozen=True)
class PillarResult:
    """A pillar, or why it must not be used."""

    pillar: Dict[str, Any]
    #: One text per fault with file and line, and no line of a file: another minion's secret may
    #: stand beside the fault. Not empty: nothing may run with this pillar.
    errors: Tuple[str, ...] = ()
    #: The same with excerpts; for the log of whoever may read the files.
    details: Tuple[str, ...] = ()


def compile_pillar(
    context: Context,
    settings: Optional[PillarSettings] = None,
    override: Optional[Mapping[str, Any]] = None,
    visible: Optional[Mapping[str, Any]] = None,
) -> PillarResult:
    """Return the pillar of the minion that *context* describes.

    Args:
        context: its grains and opts; `files` are the pillar roots.
        settings: how files are found and joined.
        override: pillar of the command line; joined last (mappings at every depth, lists
            replaced) and not visible while files render.
        visible: what files that ask for pillar see; no file sees what others of the same
            compilation say (recorded cases pillar/pillar_in_jinja).

    Never raises for what files contain: faults are in the result.
    """
    chosen = settings or PillarSettings()
    # No job: functions that files call give them values, they print nothing (pillar.get masks
    # what it prints).
    bare = context.with_(pillar=visible or {}, job=None)
    # Use the authenticated id; a minion could write another one into its grains.
    name = str(context.opts.get("id") or context.grains.get("id", ""))
    subject = Subject(name, context.grains, visible or {})
    compiler = _Compiler(bare, chosen)
    pillar: Dict[str, Any] = {}
    try:
        reader = TopReader(
            bare,
            subject,
            chosen.pillarenv,
            chosen.state_top,
            chosen.renderer,
            chosen.nodegroups,
            chosen.strategy,
            chosen.env_order,
        )
        pillar = compiler.merged(reader.read())
    except (RenderError, LimitError) as error:
        compiler.note(error)
    if override:
        pillar = recurse(pillar, override)
    return PillarResult(pillar, tuple(compiler.errors), tuple(compiler.details))


class _Compiler:
    """Renders and joins files, collecting every fault instead of stopping at the first."""

    def __init__(self, context: Context, settings: PillarSettings) -> None:
        self._context = context
        self._settings = settings
        self._rendered = 0
        self._environments = frozenset(context.files.environments())
        self.errors: List[str] = []
        self.details: List[str] = []

    def note(self, error: CatenaError) -> None:
        """Keep a fault for the result."""
        short = str(error)
        if isinstance(error, SourceError):
            reached = "".join(f", reached from {step}" for step in error.chain)
            short = f"{error.reason}; {error.place}{reached}"
        if short not in self.errors:
            self.errors.append(short)
            self.details.append(str(error))

    def merged(self, assigned: List[Assigned]) -> Dict[str, Any]:
        """Return the joined data of all assigned files."""
        pillar: Dict[str, Any] = {}
        seen: Dict[str, Dict[str, Mapping[str, Any]]] = {}
        for given in assigned:
            if given.saltenv not in self._environments:
                fault = f"No matching pillar environment for environment {given.saltenv!r} found"
                self.note(SourceError(fault, given.place))
                continue
            mods = seen.setdefault(given.saltenv, {})
            for sls in self._names(given.sls, given.saltenv):
                data = self._file(sls, _Visit(given, mods, way=(given.place,)))
                pillar = self._merge(pillar, data)
        return pillar

    def _merge(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> Dict[str, Any]:
        return merge(first, second, self._settings.strategy, self._settings.merge_lists)

    def _names(self, sls: str, saltenv: str) -> List[str]:
        """Return the SLS names that a name or glob means; a glob without any stands for itself."""
        if not any(character in sls for character in "*?["):
            return [sls]
        return names_matching(self._context, sls, saltenv) or [sls]

    def _file(self, sls: str, visit: _Visit) -> Dict[str, Any]:
        """Return the data of one file and what it includes; faults are noted."""
        self._rendered += 1
        if len(visit.way) > INCLUDE_DEPTH_LIMIT + 1 or self._rendered > FILE_LIMIT:
            raise LimitError(f"{visit.given.place}: too many files or includes at {sls!r}")
        visit.mods[sls] = {}
        try:
            rendered = self._render(sls, visit)
        except SourceError as error:
            self.note(error.told_as(f"Rendering SLS '{sls}' failed").reached(visit.way))
            return {}
        except (RenderError, LimitError) as error:
            self.note(RenderError(f"Rendering SLS '{sls}' failed: {error}"))
            return {}
        if rendered is None or rendered.data is None:
            return {}
        if not isinstance(rendered.data, Mapping):
            kind = type(rendered.data).__name__
            reason = f"SLS {sls!r} is a {kind}, not a mapping"
            self.note(SourceError(reason, rendered.place(), chain=visit.way))
            return {}
        own = dict(rendered.data)
        included = own.pop("include", None)
        visit.mods[sls] = own
        if included is None:
            return own
        joined = self._includes(rendered, included, sls, visit)
        if self._settings.includes_override_sls:
            return self._merge(own, joined)
        return self._merge(joined, own)

    def _render(self, sls: str, visit: _Visit) -> Optional[Rendered]:
        given = visit.given
        source = sls_source(self._context, sls, given.saltenv)
        if source is not None:
            context = self._context.with_(saltenv=given.saltenv)
            return render(context, source, self._settings.renderer, visit.defaults)
        if not given.ignore_missing:
            # Keep Salt's text, which users' tools look for. Do not list other files: the reader of
            # this error may not be allowed to see them.
            near = nearest(sls, names_matching(self._context, "*", given.saltenv))
            self.note(
                SourceError(
                    f"Specified SLS {sls!r} in environment {given.saltenv!r} is not available "
                    "on the salt master",
                    given.place,
                    chain=visit.way[1:],
                    note=f"  did you mean {near!r}?" if near else "",
                )
            )
        return None

    def _includes(
        self, rendered: Rendered, included: Any, sls: str, visit: _Visit
    ) -> Dict[str, Any]:
        joined: Dict[str, Any] = {}
        if not isinstance(included, list):
            self.note(SourceError("include is not a list", rendered.place("include")))
            return joined
        # As in Salt, names hold for what an included file includes itself, and for the plain
        # entries that follow in the list.
        defaults = visit.defaults
        for position, entry in enumerate(included):
            place = rendered.place("include", position)
            try:
                name, options = _include_of(entry, place)
            except SourceError as error:
                self.note(error)
                continue
            given = replace(visit.given, sls=name, ignore_missing=False, place=place)
            if not isinstance(entry, str):
                defaults = options.get("defaults") or {}
            step = visit.included(given, defaults)
            for found in self._names(_absolute(name, sls, rendered), given.saltenv):
                known = visit.mods.get(found)
                data = self._file(found, step) if known is None else dict(known)
                joined = self._merge(joined, _under(options.get("key"), data))
        return joined


def _include_of(entry: Any, place: SourceLine) -> Tuple[str, Mapping[str, Any]]:
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, Mapping) and len(entry) == 1:
        name, options = next(iter(entry.items()))
        if isinstance(options, Mapping) and isinstance(options.get("defaults") or {}, Mapping):
            return str(name), options
        if options is None:
            return str(name), {}
    raise SourceError("an include is a name, or a name with defaults and key", place)


def _absolute(name: str, sls: str, rendered: Rendered) -> str:
    """Return an include that begins with dots as a full name."""
    if not name.startswith("."):
        return name
    rest = name.lstrip(".")
    levels = len(name) - len(rest)
    parts = sls.split(".")
    # An init.sls stands for its folder: one dot stays inside it.
    if rendered.name.endswith("/init.sls"):
        levels -= 1
    kept = parts[: len(parts) - levels] if levels else parts
    return ".".join([*kept, rest])


def _under(key: Any, data: Dict[str, Any]) -> Dict[str, Any]:
    """Return *data* below *key* ("a:b" nests)."""
    if not key:
        return data
    for part in reversed(str(key).split(":")):
        data = {part: data}
    return data
