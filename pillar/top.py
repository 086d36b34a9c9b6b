"""The pillar's top files: which SLS files one minion gets, in which order."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.frozen import dataclass
from catena.core.logs import logger
from catena.core.target import Nodegroups, Subject, TargetError, parse
from catena.core.types import SourceLine
from catena.renderers.pipeline import DEFAULT, render
from catena.renderers.source import Rendered, Source, SourceError, decoded

log = logger(__name__)

BASE = "base"


@dataclass(frozen=True)
class Assigned:
    """One SLS name (or glob) that a top file gives to the minion."""

    sls: str
    saltenv: str
    #: Whether a missing file is ignored.
    ignore_missing: bool
    place: SourceLine


@dataclass(frozen=True)
class _Target:
    """What one top file says of one target."""

    kind: str
    order: int
    ignore_missing: bool
    #: SLS name -> where it stands.
    names: Mapping[str, SourceLine]
    place: SourceLine


#: environment -> target -> what the last top file that names it says.
_Sections = Dict[str, Dict[str, _Target]]


def source_of(context: Context, path: str, saltenv: str, sls: str = "") -> Optional[Source]:
    """Return the file *path* of the pillar roots ready for rendering, or None.

    Raises:
        SourceError: it is not UTF-8.
    """
    found = context.files.fetch(path, saltenv)
    if found is None:
        return None
    name = f"pillar://{path}"
    return Source(decoded(found.read_bytes(), name), name, saltenv, sls, path)


def sls_source(context: Context, sls: str, saltenv: str) -> Optional[Source]:
    """Return an SLS file of the pillar roots ready for rendering, or None.

    Raises:
        SourceError: it is not UTF-8.
    """
    base = sls.replace(".", "/")
    found = (source_of(context, f"{base}{tail}", saltenv, sls) for tail in (".sls", "/init.sls"))
    return next((source for source in found if source is not None), None)


def names_matching(context: Context, pattern: str, saltenv: str) -> List[str]:
    """Return the SLS names of an environment's pillar roots that a shell pattern means, sorted."""
    paths = (entry.path for entry in context.files.entries(saltenv))
    names = {
        path[: -len(".sls")].removesuffix("/init").replace("/", ".")
        for path in paths
        if path.endswith(".sls")
    }
    return sorted(name for name in names if fnmatchcase(name, pattern))


def environments(context: Context, pillarenv: str, strategy: str = "") -> List[str]:
    """Return the environments whose top files count, base first."""
    if pillarenv:
        return [pillarenv]
    if strategy == "none":
        return [BASE]
    return sorted(context.files.environments(), key=lambda env: (env != BASE, env))


@dataclass(frozen=True)
class TopReader:
    """Reads top files for one minion.

    Args:
        context: grains of the minion; files of the pillar roots.
        subject: the minion, for the targets.
        pillarenv: the only environment that counts; "" for all.
        top: name of the top files.
        renderer: renderers of a top file without a #! line.
        nodegroups: for targets.
        strategy: how files join; with "none" base's top file alone counts.
        env_order: environments that are merged first, in this order.
    """

    context: Context
    subject: Subject
    pillarenv: str = ""
    top: str = "top.sls"
    renderer: str = DEFAULT
    nodegroups: Optional[Nodegroups] = None
    strategy: str = ""
    env_order: Sequence[str] = ()

    def read(self) -> List[Assigned]:
        """Return what the minion gets, in the order in which it is merged.

        A name that several targets of an environment give counts once, where it stands first.

        Raises:
            SourceError: a top file can't be rendered or has the wrong shape; with its line.
        """
        sections: _Sections = {}
        for saltenv in environments(self.context, self.pillarenv, self.strategy):
            for rendered in self._files(saltenv):
                for env, targets in self._sections(rendered):
                    sections.setdefault(env, {}).update(targets)
        found: List[Assigned] = []
        for env in dict.fromkeys((*self.env_order, *sections)):
            if env in sections and self.pillarenv in ("", env):
                found += self._assigned(env, sections[env])
        return found

    def _assigned(self, env: str, targets: Mapping[str, _Target]) -> List[Assigned]:
        found: Dict[str, Assigned] = {}
        for expression, target in sorted(targets.items(), key=lambda pair: pair[1].order):
            if not self._is_meant(expression, target):
                continue
            for sls, place in target.names.items():
                found.setdefault(sls, Assigned(sls, env, target.ignore_missing, place))
        return list(found.values())

    def _is_meant(self, expression: str, target: _Target) -> bool:
        groups = self.nodegroups or {}
        if target.kind == "nodegroup" and expression not in groups:
            # As in Salt, nobody is in it.
            log.warning("%s: nodegroup %r is not configured here", target.place, expression)
            return False
        try:
            return parse(expression, target.kind, groups).matches(self.subject)
        except TargetError as error:
            raise SourceError(str(error), target.place) from None

    def _files(self, saltenv: str) -> Iterator[Rendered]:
        """Yield the top file of an environment, and those that it includes."""
        source = source_of(self.context, self.top, saltenv)
        if source is None:
            return
        rendered = render(self.context, source, self.renderer)
        yield rendered
        included = rendered.data.get("include") if isinstance(rendered.data, Mapping) else None
        if included is not None and not isinstance(included, list):
            raise SourceError("include is not a list", rendered.place("include"))
        for pattern in included or ():
            for name in names_matching(self.context, str(pattern), saltenv):
                more = sls_source(self.context, name, saltenv)
                if more is not None:
                    yield render(self.context, more, self.renderer)

    def _sections(self, rendered: Rendered) -> Iterator[Tuple[str, Dict[str, _Target]]]:
        if rendered.data is None:
            return
        if not isinstance(rendered.data, Mapping):
            place = rendered.place()
            raise SourceError("a top file is a mapping of environments", place)
        for saltenv, targets in rendered.data.items():
            if saltenv == "include":
                continue
            if not isinstance(targets, Mapping):
                place = rendered.place(saltenv)
                raise SourceError(f"{saltenv}: expected a mapping of targets", place)
            yield (
                str(saltenv),
                {
                    str(target): _target(rendered, saltenv, target, entries)
                    for target, entries in targets.items()
                },
            )


def _target(rendered: Rendered, saltenv: Any, target: Any, entries: Any) -> _Target:
    place = rendered.place(saltenv, target)
    listed = [entries] if isinstance(entries, str) else entries
    if not isinstance(listed, list):
        raise SourceError(f"{target}: expected a list of names", place)
    options: Dict[str, Any] = {}
    names: Dict[str, SourceLine] = {}
    for position, entry in enumerate(listed):
        if isinstance(entry, Mapping):
            options.update(entry)
        else:
            names.setdefault(str(entry), rendered.place(saltenv, target, position))
    order = options.get("order", 0)
    try:
        number = int(order)
    except (TypeError, ValueError, OverflowError):
        raise SourceError(f"order must be a whole number, not {order!r}", place) from None
    kind, missing = str(options.get("match", "compound")), bool(options.get("ignore_missing"))
    return _Target(kind, number, missing, names, place)
