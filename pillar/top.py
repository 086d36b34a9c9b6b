"""The pillar's top files: which SLS files one minion gets, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.target import Nodegroups, Subject, TargetError, parse
from catena.core.types import SourceLine
from catena.renderers.pipeline import DEFAULT, render
from catena.renderers.source import Rendered, Source, SourceError, decoded

BASE = "base"


@dataclass(frozen=True)
class Assigned:
    """One SLS name (or glob) that a top file gives to the minion."""

    sls: str
    saltenv: str
    order: int
    #: A name that does not exist is no error.
    ignore_missing: bool
    place: SourceLine


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


def environments(context: Context, pillarenv: str) -> List[str]:
    """Return the environments whose top files count, base first."""
    if pillarenv:
        return [pillarenv]
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
    """

    context: Context
    subject: Subject
    pillarenv: str = ""
    top: str = "top.sls"
    renderer: str = DEFAULT
    nodegroups: Optional[Nodegroups] = None

    def read(self) -> List[Assigned]:
        """Return what the minion gets, in the order in which it is merged.

        Raises:
            SourceError: a top file can't be rendered or has the wrong shape; with its line.
        """
        found: Dict[str, List[Assigned]] = {}
        for saltenv in environments(self.context, self.pillarenv):
            source = source_of(self.context, self.top, saltenv)
            if source is not None:
                for assigned in self._one(source):
                    found.setdefault(assigned.saltenv, []).append(assigned)
        ordered: List[Assigned] = []
        for group in found.values():
            ordered += sorted(group, key=lambda assigned: assigned.order)
        return ordered

    def _one(self, source: Source) -> List[Assigned]:
        rendered = render(self.context, source, self.renderer)
        data = rendered.data
        if data is None:
            return []
        if not isinstance(data, Mapping):
            raise self._fault("a top file is a mapping of environments", rendered)
        found: List[Assigned] = []
        for saltenv, targets in data.items():
            if self.pillarenv and saltenv != self.pillarenv:
                continue
            if not isinstance(targets, Mapping):
                raise self._fault(f"{saltenv}: expected a mapping of targets", rendered, saltenv)
            for target, entries in targets.items():
                found += self._target(rendered, str(saltenv), target, entries)
        return found

    def _target(
        self, rendered: Rendered, saltenv: str, target: Any, entries: Any
    ) -> List[Assigned]:
        listed = [entries] if isinstance(entries, str) else entries
        if not isinstance(listed, list):
            raise self._fault(f"{target}: expected a list of names", rendered, saltenv, target)
        options: Dict[str, Any] = {}
        for entry in listed:
            options.update(entry if isinstance(entry, Mapping) else {})
        try:
            parsed = parse(str(target), str(options.get("match", "compound")), self._groups())
            order = int(options.get("order", 0))
        except (TargetError, ValueError) as error:
            reason = str(error)
            if isinstance(error, ValueError):
                reason = f"order must be a whole number, not {options['order']!r}"
            raise self._fault(reason, rendered, saltenv, target) from None
        if not parsed.matches(self.subject):
            return []
        missing = bool(options.get("ignore_missing", False))
        return [
            Assigned(
                str(entry), saltenv, order, missing, rendered.place(saltenv, target, position)
            )
            for position, entry in enumerate(listed)
            if not isinstance(entry, Mapping)
        ]

    def _groups(self) -> Nodegroups:
        return self.nodegroups or {}

    def _fault(self, reason: str, rendered: Rendered, *path: Any) -> SourceError:
        return SourceError(reason, rendered.place(*path))
