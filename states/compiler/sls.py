"""Read SLS files and their includes, each once, in run order."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.frozen import replace
from catena.core.types import SourceLine
from catena.states.compiler.declare import Origin, Positions, declare
from catena.states.compiler.faults import at, meant, reached_from
from catena.states.compiler.model import Declaration, High

_GLOB = frozenset("*?[")
#: (environment, dotted name).
Sls = Tuple[str, str]


class TopName(str):
    """An SLS name or glob that a top file assigns, with its place there."""

    def __new__(cls, name: str, place: SourceLine) -> TopName:
        """Return *name* with its place."""
        made = super().__new__(cls, name)
        made.place = place
        return made

    place: SourceLine


class SlsTree:
    """Reads SLS files; afterwards `high()` and `errors` return the result."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._positions = Positions()
        #: SLS files in reading order: a file comes before those that it includes.
        self._done: Dict[Sls, int] = {}
        #: By SLS file: the `include` entry that first led to it.
        self._via: Dict[Sls, Tuple[Sls, SourceLine]] = {}
        #: The SLS files that are being read, outermost first.
        self._open: List[str] = []
        self._listed: Dict[str, List[str]] = {}
        self._states: List[Declaration] = []
        self._owners: Dict[str, Declaration] = {}
        self._extends: List[Declaration] = []
        self._excludes: List[Any] = []
        self._excluded_ids: Set[str] = set()
        self._excluded_sls: Set[str] = set()
        self.errors: List[str] = []

    def add(self, pattern: str, env: str) -> None:
        """Read an SLS file, or all files that a glob matches, named by a user or a top file."""
        names = self._expand(pattern, env)
        if not names:
            self._miss(env)
            # If the name is a file name, the error suggests the SLS name.
            plain = pattern.replace("/", ".").removesuffix(".sls").removesuffix(".init")
            near = meant(plain, self.available(env))
            near += at(pattern.place) if isinstance(pattern, TopName) else ""
            self.errors.append(f"No matching sls found for '{pattern}' in env '{env}'{near}")
        for name in names:
            self._read((env, name))

    def _miss(self, env: str) -> None:
        """Record the error that an environment does not exist."""
        known = self._context.files.environments()
        text = f"No matching salt environment for environment '{env}' found{meant(env, known)}"
        if env not in known:
            self.errors.append(text)

    def available(self, env: str) -> List[str]:
        """Return the dotted names of all SLS files of *env*, sorted."""
        if env not in self._listed:
            self._listed[env] = sls_names(self._context, env)
        return self._listed[env]

    def high(self) -> High:
        """Return the high data; a file's states come before those of its includes."""
        return High(
            tuple(sorted(self._states, key=lambda one: self._done[one.env, one.sls])),
            tuple(self._extends),
            frozenset(self._excluded_ids),
            frozenset(self._excluded_sls),
            tuple(self._excludes),
        )

    def _expand(self, pattern: str, env: str) -> List[str]:
        if self._path((env, pattern)):
            return [pattern]
        if not _GLOB & set(pattern):
            return []
        return [name for name in self.available(env) if fnmatchcase(name, pattern)]

    def _path(self, sls: Sls) -> str:
        env, name = sls
        folder = name.replace(".", "/")
        for path in (f"{folder}.sls", f"{folder}/init.sls"):
            if self._context.files.entry(path, env):
                return path
        return ""

    def _read(self, sls: Sls) -> None:
        if sls in self._done:
            return
        self._done[sls] = len(self._done)
        rendered = self._render(sls)
        if rendered is None or rendered.data is None:
            return
        env, name = sls
        if not isinstance(rendered.data, Mapping):
            self.errors.append(
                f"SLS '{env}:{name}' must be a mapping of ids, not a "
                f"{type(rendered.data).__name__}{at(rendered.place())}"
            )
            return
        data = dict(rendered.data)
        # The `extend` blocks of included files are applied later and therefore win.
        self._extend(sls, data, rendered)
        self._exclude(sls, data, rendered)
        self._open.append(name)
        self._include(sls, data, rendered)
        self._open.pop()
        origin = Origin(name, env, rendered.place, self._positions)
        through = tuple(reversed(self._open))
        for one in declare(data, origin, self.errors):
            self._own(replace(one, included_from=through) if through else one)

    def _render(self, sls: Sls) -> Any:
        # Imported here: the renderers need third-party packages, which hosts over SSH may lack.
        from catena.renderers.pipeline import render
        from catena.renderers.source import Source, SourceError, decoded

        env, name = sls
        path = self._path(sls)
        local = self._context.files.fetch(path, env) if path else None
        if local is None:
            self.errors.append(f"No matching sls found for '{name}' in env '{env}'")
            return None
        try:
            address = f"salt://{path}"
            source = Source(decoded(local.read_bytes(), address), address, env, name, path)
            default = str(self._context.opts.get("renderer") or "jinja|yaml")
            return render(self._context, source, default)
        except CatenaError as error:
            told = error.reached(self._way(sls)) if isinstance(error, SourceError) else error
            self.errors.append(f"Rendering SLS '{env}:{name}' failed: {told}")
            return None

    def _way(self, sls: Sls) -> List[SourceLine]:
        """Return the `include` entries that led to *sls*, nearest first."""
        steps: List[SourceLine] = []
        while sls in self._via:
            sls, place = self._via[sls]
            steps.append(place)
        return steps

    def _include(self, sls: Sls, data: Dict[Any, Any], rendered: Any) -> None:
        if "include" not in data:
            return
        env, name = sls
        place = rendered.place("include")
        if not isinstance(data["include"], list):
            # As in Salt, the key stays, so that the check of ids reports it too.
            self.errors.append(
                f"Include Declaration in SLS {name} is not formed as a list{at(place)}"
            )
            return
        for index, entry in enumerate(data.pop("include")):
            for wanted_env, wanted in self._wanted(sls, entry, rendered.place("include", index)):
                found = self._expand(wanted, wanted_env)
                if not found:
                    self.errors.append(
                        f"Specified SLS {wanted} in saltenv {wanted_env} is not available"
                        f"{meant(wanted, self.available(wanted_env))}; included by {env}:{name}"
                        f"{at(rendered.place('include', index))}{reached_from(self._way(sls))}"
                    )
                for one in found:
                    if one not in self._open and (wanted_env, one) not in self._done:
                        step = (sls, rendered.place("include", index))
                        self._via.setdefault((wanted_env, one), step)
                    self._read((wanted_env, one))

    def _wanted(self, sls: Sls, entry: Any, place: SourceLine) -> Iterator[Sls]:
        env, name = sls
        if isinstance(entry, Mapping) and len(entry) == 1:
            env, entry = next(iter(entry.items()))
        if not isinstance(entry, str) or not isinstance(env, str):
            self.errors.append(
                f"Include in SLS {name}: each entry must be an SLS name, or one "
                f"`environment: name` pair; found {str(entry)[:80]}{at(place)}"
            )
        elif not entry.startswith("."):
            yield env, entry
        else:
            full = self._relative(sls, entry)
            if full:
                yield env, full
            else:
                self.errors.append(
                    f"Include of '{entry}' in SLS '{env}:{name}' leads above the file roots"
                    f"{at(place)}"
                )

    def _relative(self, sls: Sls, entry: str) -> Optional[str]:
        rest = entry.lstrip(".")
        package = sls[1].split(".")
        if not self._path(sls).endswith("/init.sls"):
            package.pop()
        climb = len(entry) - len(rest) - 1
        if climb > len(package):
            return None
        return ".".join([*package[: len(package) - climb], rest])

    def _extend(self, sls: Sls, data: Dict[Any, Any], rendered: Any) -> None:
        block = data.pop("extend", None)
        if block is None:
            return
        env, name = sls
        if not isinstance(block, Mapping):
            self.errors.append(
                f"The extend block of SLS {name} is not formed as a dictionary"
                f"{at(rendered.place('extend'))}"
            )
            return
        origin = Origin(name, env, lambda *path: rendered.place("extend", *path))
        self._extends += declare(block, origin, self.errors)

    def _exclude(self, sls: Sls, data: Dict[Any, Any], rendered: Any) -> None:
        entries = data.pop("exclude", [])
        place = rendered.place("exclude")
        if not isinstance(entries, list):
            self.errors.append(
                f"Exclude Declaration in SLS {sls[1]} is not formed as a list{at(place)}"
            )
            return
        self._excludes += entries
        for index, entry in enumerate(entries):
            if isinstance(entry, str):
                self._excluded_sls.add(entry)
            elif isinstance(entry, Mapping) and set(entry) == {"sls"}:
                self._excluded_sls.add(str(entry["sls"]))
            elif isinstance(entry, Mapping) and set(entry) == {"id"}:
                self._excluded_ids.add(str(entry["id"]))
            else:
                self.errors.append(
                    f"Exclude in SLS {sls[1]}: each entry must be `sls: name` or `id: name`; "
                    f"found {str(entry)[:80]}{at(rendered.place('exclude', index))}"
                )

    def _own(self, one: Declaration) -> None:
        owner = self._owners.setdefault(one.id, one)
        if (owner.env, owner.sls) == (one.env, one.sls):
            self._states.append(one)
            return
        self.errors.append(
            "Detected conflicting IDs, an id may stand in one SLS file only. "
            f"The conflicting ID is '{one.id}' and is found in SLS '{one.env}:{one.sls}'"
            f"{at(one.line)} and SLS '{owner.env}:{owner.sls}'{at(owner.line)}"
        )


def sls_names(context: Context, env: str) -> List[str]:
    """Return the dotted names of all SLS files of *env*, sorted."""
    names = set()
    for entry in context.files.entries(env):
        if entry.path.endswith(".sls"):
            name = entry.path[:-4]
            if name.endswith("/init"):
                name = name[:-5]
            names.add(name.replace("/", "."))
    return sorted(names)
