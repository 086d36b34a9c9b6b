"""The sources of apt: sources.list, sources.list.d and the keys that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.frozen import dataclass, replace
from catena.core.patterns import lazy_pattern
from catena.modules.pkg.repos.apt_keyrings import (
    add_keyring,
    keyring_change,
    listed_keys,
    remove_keyring,
)
from catena.modules.pkg.repos.apt_source import (
    AptSource,
    OneLineText,
    PlacedSource,
    SourcesText,
    best_match,
    checked_source,
    equivalent,
    in_plain_form,
    line_of,
    named_source,
    parse_line,
    same_repository,
)
from catena.modules.pkg.repos.deb822 import StanzaText
from catena.modules.pkg.repos.keys import KeySource, key_source
from catena.modules.pkg.repos.plan import Entry, RepoPlan, differences
from catena.modules.pkg.repos.ppa import is_ppa, ppa_line, ppa_options
from catena.modules.shared.arguments import listed, truth

FOLDER = Path("/etc/apt")
#: Key in the run's scratch data: path -> (signature of the file, its text and sources).
_READ = "pkg.repos.apt"
#: Keys of an entry that the changes of a state show.
_SHOWN = ("architectures", "comps", "disabled", "dist", "line", "signedby", "type", "uri")
_MISSING = "Repo {} doesn't exist in the sources.list(s)"
_NO_NAME = lazy_pattern(r"[^A-Za-z0-9.]+")


@dataclass(frozen=True)
class _SourcesFile:
    """A file of sources as it was read."""

    path: Path
    data: str
    sources: Tuple[PlacedSource, ...]


def parsed_text(path: Path, data: str) -> SourcesText:
    """Return the text of a file in its format, which apt chooses by the name."""
    return StanzaText(data) if path.suffix == ".sources" else OneLineText(data)


def entry_of(path: Path, placed: PlacedSource) -> Entry:
    """Return a source in the form of pkg.list_repos."""
    source = placed.source
    trusted = source.option("trusted")
    return {
        "file": str(path),
        "comps": list(source.comps),
        "disabled": source.disabled,
        "enabled": not source.disabled,
        "dist": source.suite,
        "suites": list(placed.suites),
        "type": source.kind,
        "types": list(placed.types),
        "uri": source.uri,
        "uris": list(placed.uris),
        "line": placed.line,
        "architectures": source.architectures(),
        "signedby": source.option("signed-by"),
        "trusted": truth(trusted) if trusted else None,
        "comments": source.comment,
    }


class AptRepositories:
    """The sources of apt on this host.

    Files are read once in a run; one that changed meanwhile is read again.

    Args:
        context: the call's context.
        folder: apt's configuration; FOLDER unless a test has its own.
    """

    def __init__(self, context: Context, folder: Optional[Path] = None) -> None:
        self._context = context
        self._folder = folder or FOLDER

    def listed(self, options: Mapping[str, Any]) -> Dict[str, Any]:
        """Return all sources by address."""
        found: Dict[str, Any] = {}
        for path, placed in self._sources():
            found.setdefault(placed.source.uri, []).append(entry_of(path, placed))
        return found

    def entry(self, repo: str, options: Mapping[str, Any]) -> Entry:
        """Return the source that a line names, or {}; also for what is no line."""
        named = parse_line(self._line(repo))
        found = self._match(named) if named else None
        return entry_of(*found) if found else {}

    def planned(self, repo: str, options: Mapping[str, Any], saltenv: str) -> RepoPlan:
        """Decide what has to be written so that a source is as *repo* and *options* say."""
        if is_ppa(repo):
            options = ppa_options(self._context, repo, options)
        named = named_source(self._line(repo))
        wanted = _with_options(named, options)
        # An address or a suite of the options takes the place of the named one: a source that an
        # earlier run wrote has it already.
        comps = tuple(dict.fromkeys((*named.comps, *wanted.comps)))
        found = self._match(replace(named, comps=comps, options=wanted.options))
        found = found or self._match(replace(wanted, comps=comps))
        wanted = _with_present(wanted, found, options)
        key = key_source(options)
        wanted, warnings = self._signed(wanted, key, found)
        checked_source(wanted)
        before = entry_of(*found) if found else {}
        files, changes = self._key_files(wanted, key, saltenv)
        same = found and equivalent(found[1].source, wanted)
        if found and same and ("comments" not in options or before["comments"] == wanted.comment):
            return RepoPlan(repo, before, before, files, changes, in_plain_form(wanted), warnings)
        path, data = self._written(found, wanted, options)
        placed = PlacedSource(wanted, 0, line_of(wanted), (wanted.kind,), (wanted.uri,),
                              (wanted.suite,))  # fmt: skip
        after = entry_of(path, placed)
        changed = differences(before, after, _SHOWN) if found else {"repo": repo}
        if found and not changed:
            changed = differences(before, after, ("comments",))
        return RepoPlan(repo, before, after, (*files, (path, data.encode())),
                        {**changed, **changes} if found else changed,
                        in_plain_form(wanted), warnings)  # fmt: skip

    def removal(self, repo: str, options: Mapping[str, Any]) -> RepoPlan:
        """Decide what has to be written so that a source is not there.

        Of a source with further components, only the named components are removed. A file below
        sources.list.d in which nothing is left is removed.
        """
        named = parse_line(self._line(repo))
        told = ""
        if named is None:
            return RepoPlan(repo, {}, {}, told=f"{_MISSING.format(repo)}: it is no line of one")
        files: List[Tuple[Path, Optional[bytes]]] = []
        before: Entry = {}
        for file in self._files():
            text = parsed_text(file.path, file.data)
            place = self._removable(text, named)
            while place is not None:
                before = before or entry_of(file.path, place)
                left = tuple(one for one in place.source.comps if one not in named.comps)
                text.put(place, replace(place.source, comps=left) if left else None)
                place = self._removable(text, named)
            if text.text() == file.data:
                continue
            empty = not text.text().strip() and file.path.parent.name == "sources.list.d"
            files.append((file.path, None if empty else text.text().encode()))
            told += (
                f"File {file.path} containing repo '{repo}' has been removed."
                if empty
                else f"Repo '{repo}' has been removed from {file.path}.\n"
            )
        told = told or _MISSING.format(repo)
        return RepoPlan(repo, before, {}, tuple(files), {"repo": repo}, told=told)

    def refresh(self, repo: str, options: Mapping[str, Any]) -> bool:
        """Fetch the indexes unless `refresh` is false; return whether they are fresh."""
        from catena.modules.pkg import choice

        asked = truth(options.get("refresh_db", options.get("refresh", True)))
        if asked:
            choice.provider(self._context).refresh()
        return asked

    def keys(self, folder: Optional[str]) -> Dict[str, Any]:
        """Return the keys of a folder of keyrings by id."""
        return listed_keys(self._keyrings(folder))

    def add_key(
        self, source: KeySource, saltenv: str, folder: Optional[str], name: Optional[str]
    ) -> None:
        """Write the keyring of a key, unless it holds the key."""
        add_keyring(self._context, source, saltenv, self._keyrings(folder), name)

    def remove_key(self, digits: str, folder: Optional[str]) -> None:
        """Remove the keyring with a key."""
        remove_keyring(self._keyrings(folder), digits)

    def _keyrings(self, folder: Optional[str]) -> Path:
        return Path(folder) if folder else self._folder / "keyrings"

    def _removable(self, text: SourcesText, named: AptSource) -> Optional[PlacedSource]:
        """Return the first source of a text that pkg.del_repo removes."""
        for one in text.sources():
            alike = sorted(one.source.architectures()) == sorted(named.architectures())
            both = bool(one.source.comps) is bool(named.comps)
            if alike and both and same_repository(one.source, named):
                return one
        return None

    def _line(self, repo: str) -> str:
        return ppa_line(self._context, repo) if is_ppa(repo) else repo

    def _files(self) -> List[_SourcesFile]:
        """Return the files of sources, in the order in which apt reads them."""
        paths = [self._folder / "sources.list"]
        parts = self._folder / "sources.list.d"
        if parts.is_dir():
            paths += sorted(
                path
                for path in parts.iterdir()
                if path.suffix in (".list", ".sources") and not path.name.startswith(".")
            )
        return [self._read(path) for path in paths if path.is_file()]

    def _read(self, path: Path) -> _SourcesFile:
        from catena.modules.file import content

        known = self._context.scratch.setdefault(_READ, {})
        status = path.stat()
        signature = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_ctime_ns)
        if path not in known or known[path][0] != signature:
            data = content.decode(content.read(path))
            sources = tuple(parsed_text(path, data).sources())
            known[path] = signature, _SourcesFile(path, data, sources)
        found: _SourcesFile = known[path][1]
        return found

    def _sources(self) -> Iterator[Tuple[Path, PlacedSource]]:
        for file in self._files():
            for placed in file.sources:
                yield file.path, placed

    def _match(self, wanted: AptSource) -> Optional[Tuple[Path, PlacedSource]]:
        found = list(self._sources())
        best = best_match(wanted, [placed for _, placed in found])
        return next(((path, one) for path, one in found if one is best), None)

    def _written(
        self, found: Optional[Tuple[Path, PlacedSource]], wanted: AptSource,
        options: Mapping[str, Any],
    ) -> Tuple[Path, str]:  # fmt: skip
        """Return the file to write, and its new text."""
        chosen = _absolute(options.get("file") or self._folder / "sources.list")
        clean = truth(options.get("clean_file", False))
        known = {file.path: file for file in self._files()}
        path = found[0] if found else chosen
        data = known[path].data if path in known else self._text_of(path)
        text = parsed_text(path, "" if clean and path == chosen else data)
        if found and not (clean and path == chosen):
            text.put(found[1], wanted)
            if truth(options.get("consolidate", False)):
                _merge_doubles(text, wanted)
        else:
            text.add(wanted)
        return path, text.text()

    def _text_of(self, path: Path) -> str:
        from catena.modules.file import content

        return content.decode(content.read(path)) if path.exists() else ""

    def _signed(
        self, wanted: AptSource, key: KeySource, found: Optional[Tuple[Path, PlacedSource]]
    ) -> Tuple[AptSource, Tuple[str, ...]]:
        """Return the source with `signed-by` if a key is named, and a warning if it was added."""
        if not key.named() or wanted.option("signed-by"):
            return wanted, ()
        present = found[1].source.option("signed-by") if found else ""
        path = present if present.startswith("/") else str(self._own_keyring(wanted))
        made = replace(wanted, options=(*wanted.options, ("signed-by", path)))
        return made, (
            f"{line_of(wanted)}: apt-key is not used, so the key is in {path}, and "
            f"signed-by={path} was added to the line",
        )

    def _own_keyring(self, source: AptSource) -> Path:
        parts = urlsplit(source.uri)
        name = _NO_NAME.sub("-", f"{parts.hostname or ''}{parts.path}").strip("-.") or "local"
        return self._folder / "keyrings" / f"{name[:100]}.gpg"

    def _key_files(
        self, wanted: AptSource, key: KeySource, saltenv: str
    ) -> Tuple[Tuple[Tuple[Path, Optional[bytes]], ...], Dict[str, Any]]:
        """Return the keyring to write and the changes, nothing if it holds the wanted keys."""
        if not key.named():
            return (), {}
        path = Path(wanted.option("signed-by").split(",")[0])
        if not path.is_absolute():
            raise UsageError(
                f"signed-by {str(path)[:200]} is no path, so a key can't be put there"
            )
        return keyring_change(self._context, path, key, saltenv)


def _absolute(value: object) -> Path:
    path = Path(str(value))
    if not path.is_absolute():
        raise UsageError(f"file: {str(value)[:200]} is not an absolute path")
    return path


def _with_options(source: AptSource, given: Mapping[str, Any]) -> AptSource:
    """Return a source with the values of pkg.mod_repo's arguments."""
    options = dict(source.options)
    if "architectures" in given:
        options = {"arch": ",".join(listed(given["architectures"])), **options}
        options["arch"] = ",".join(listed(given["architectures"]))
    if given.get("signedby"):
        options["signed-by"] = str(given["signedby"])
    if given.get("trusted") is not None:
        options["trusted"] = "yes" if truth(given["trusted"]) else "no"
    disabled = source.disabled
    if given.get("disabled") is not None:
        disabled = truth(given["disabled"])
    elif given.get("enabled") is not None:
        disabled = not truth(given["enabled"])
    comments = " ".join(str(one) for one in _comments(given.get("comments"))).strip()
    return AptSource(
        source.kind,
        str(given.get("uri") or source.uri),
        str(given.get("dist") or source.suite),
        tuple(listed(given["comps"])) if given.get("comps") else source.comps,
        tuple((name, value) for name, value in options.items() if value),
        disabled,
        " ".join(comments.split()) or source.comment,
    )


def _with_present(
    wanted: AptSource, found: Optional[Tuple[Path, PlacedSource]], given: Mapping[str, Any]
) -> AptSource:
    """Return a source with what the present one has and the arguments do not name.

    A comment stays. A line names all options, but options of a stanza that it does not name stay:
    distributions write `Signed-By` there.
    """
    if found is None:
        return wanted
    path, placed = found
    comment = wanted.comment if "comments" in given else placed.source.comment
    if path.suffix != ".sources":
        return replace(wanted, comment=comment)
    options = {**dict(placed.source.options), **dict(wanted.options)}
    return replace(wanted, comment=comment, options=tuple(options.items()))


def _comments(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _merge_doubles(text: SourcesText, wanted: AptSource) -> None:
    """Remove further sources of a text that are the same repository."""
    architectures = sorted(wanted.architectures())
    while True:
        doubles = [
            one
            for one in text.sources()
            if same_repository(one.source, wanted)
            and sorted(one.source.architectures()) == architectures
        ]
        if len(doubles) < 2:
            return
        text.put(doubles[-1], None)
