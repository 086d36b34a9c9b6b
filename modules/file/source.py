"""Sources of managed files: salt://, local paths, http and https."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from catena.core.context import Context
from catena.core.digest import sha256
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.patterns import lazy_pattern
from catena.core.suggest import nearest
from catena.modules.shared.locations import split_location

_HASHES = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
_HEX = lazy_pattern(r"(?<![0-9a-fA-F])([0-9a-fA-F]{32,128})(?![0-9a-fA-F])")
#: Minimum similarity (0 to 1) of a suggested path.
_NEAR = 0.75
#: Maximum number of folders of a root that is listed completely for a suggestion.
_FEW = 50
DOWNLOAD_LIMIT = 2 * 1024 * 1024 * 1024
_DOWNLOAD_SECONDS = 60
_CHUNK = 1024 * 1024


class SourceMissingError(CommandExecutionError):
    """A source does not exist."""


class SourceHashError(CommandExecutionError):
    """A source has another hash than expected.

    Args:
        name: the hashed source.
        wanted: (type, hex digest).
        found: hex digest.
    """

    def __init__(self, name: str, wanted: Tuple[str, str], found: str) -> None:
        self._wanted = wanted
        self._found = found
        super().__init__(self.told_of(name))

    def told_of(self, name: str) -> str:
        """Return the error message with *name* as the subject."""
        return (
            f"Specified {self._wanted[0]} checksum for {name} ({self._wanted[1]}) "
            f"does not match actual checksum ({self._found})"
        )


@dataclass(frozen=True)
class FileSource:
    """The source of a content, and how it is checked."""

    location: str
    saltenv: str = "base"
    source_hash: str = ""
    source_hash_name: Optional[str] = None
    skip_verify: bool = False


def hash_file(path: Path, kind: str = "sha256") -> str:
    """Return the hex digest of a file.

    Raises:
        UsageError: no hash has that name.
        CommandExecutionError: the file can't be read.
    """
    # Imported here, as below: the import loads OpenSSL, and few runs compute a hash.
    import hashlib

    if kind not in hashlib.algorithms_available:
        raise UsageError(f"no hash is called {kind!r}")
    digest = hashlib.new(kind)
    try:
        with path.open("rb") as stream:
            for chunk in iter(lambda: stream.read(_CHUNK), b""):
                digest.update(chunk)
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
    return digest.hexdigest()


def _hash_in_list(text: str, names: List[str]) -> str:
    """Return the hash of a file in the text of a list of hashes (sha256sum's format)."""
    hits = []
    for line in text.splitlines():
        found = _HEX.search(line)
        if found and len(found.group(1)) in _HASHES:
            words = [word.strip("*()").rsplit("/", 1)[-1] for word in line.split()]
            if any(name in words for name in names):
                return found.group(1)
            hits.append(found.group(1))
    if hits:
        return hits[0]
    raise CommandExecutionError(f"no hash for {names[0]} was found in the source_hash file")


def expected_hash(context: Context, source: FileSource) -> Optional[Tuple[str, str]]:
    """Return the expected (type, hex digest) of the source, or None if none is given.

    `source_hash` is HEX, TYPE=HEX, TYPE:HEX, or the address of a list of hashes.

    Raises:
        CommandExecutionError: `source_hash` contains no hash.
    """
    text = str(source.source_hash or "").strip()
    if not text:
        return None
    if "://" in text or text.startswith("/"):
        listing = fetch(context, FileSource(text, source.saltenv, skip_verify=True))
        if listing is None:
            raise CommandExecutionError(f"Source hash file {text} not found")
        names = [source.source_hash_name or "", urlsplit(source.location).path.rsplit("/", 1)[-1]]
        data = listing.read_text(encoding="utf-8", errors="replace")
        text = _hash_in_list(data, [name for name in names if name])
    kind, mark, digest = text.replace(":", "=", 1).partition("=")
    if not mark:
        kind, digest = _HASHES.get(len(text), ""), text
    kind, digest = kind.strip().lower(), digest.strip().lower()
    if _HASHES.get(len(digest)) != kind or not _HEX.fullmatch(digest):
        raise CommandExecutionError(
            f"Source hash {text[:200]} format is invalid: it is a hash, KIND=HASH, or the address "
            f"of a file of hashes; kinds are {', '.join(_HASHES.values())}"
        )
    return kind, digest


def _download(url: str, target: Path) -> None:
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".part")
    request = Request(url, headers={"User-Agent": "catena"})
    try:
        with urlopen(request, timeout=_DOWNLOAD_SECONDS) as reply, partial.open("wb") as stream:
            size = 0
            for chunk in iter(lambda: reply.read(_CHUNK), b""):
                size += len(chunk)
                if size > DOWNLOAD_LIMIT:
                    raise CommandExecutionError(f"{_public(url)}: larger than the limit")
                stream.write(chunk)
        partial.rename(target)
    except (URLError, OSError, ValueError) as problem:
        partial.unlink(missing_ok=True)
        reason: object = getattr(problem, "reason", problem)
        if isinstance(problem, HTTPError):
            reason = f"HTTP {problem.code}: {problem.reason}"
        raise SourceMissingError(
            f"Failed to cache {_public(url)}: Error: {reason} reading {urlsplit(url).path}"
        ) from problem


def _public(url: str) -> str:
    """Return *url* without password and query, for messages."""
    parts = urlsplit(url)
    if not parts.scheme:
        return url
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _fetch_url(context: Context, source: FileSource) -> Path:
    wanted = expected_hash(context, source)
    if wanted is None and not source.skip_verify:
        raise SourceMissingError(
            f"Unable to verify upstream hash of source file {_public(source.location)}, "
            "please set source_hash or set skip_verify to True"
        )
    name = sha256(source.location.encode()).hexdigest()
    target = context.host.cache_dir / "extrn_files" / source.saltenv / name
    if wanted and target.is_file() and hash_file(target, wanted[0]) == wanted[1]:
        return target
    _download(source.location, target)
    return target


def fetch(context: Context, source: FileSource) -> Optional[Path]:
    """Return a local, checked, read-only file with the content, or None if there is no source.

    Raises:
        SourceHashError: the hash is wrong.
        CommandExecutionError: the source can't be fetched.
        UsageError: the type of address is unknown.
    """
    location = source.location
    scheme = urlsplit(location).scheme if "://" in location else ""
    if scheme == "salt":
        path, saltenv = split_location(location, source.saltenv)
        found = context.files.fetch(path, saltenv)
    elif scheme in ("http", "https"):
        found = _fetch_url(context, source)
    elif scheme in ("", "file"):
        local = Path(location[len("file://") :] if scheme else location)
        found = local if local.is_absolute() and local.is_file() else None
    else:
        raise UsageError(f"{scheme}:// can't be fetched; salt://, http(s):// and paths can")
    if found is not None and scheme != "salt":
        _verify(context, source, found)
    return found


def holds(context: Context, source: FileSource, path: Path) -> bool:
    """Return whether *path* has the content of a source, if that is known without fetching it.

    This is only checked for remote sources with a known hash.
    """
    if not source.location.startswith(("http://", "https://")) or not path.is_file():
        return False
    wanted = None if source.skip_verify else expected_hash(context, source)
    return wanted is not None and hash_file(path, wanted[0]) == wanted[1]


def missing(context: Context, source: FileSource) -> SourceMissingError:
    """Return the error for a source that `fetch` did not find."""
    if source.location.startswith("salt://"):
        return SourceMissingError(
            f"Source file {source.location} not found in saltenv '{source.saltenv}'"
            f"{meant(context, source.location, source.saltenv)}"
        )
    local = source.location[len("file://") :] if "://" in source.location else source.location
    return SourceMissingError(f"Local file source {local} does not exist")


def meant(context: Context, location: str, saltenv: str) -> str:
    """Return "; did you mean 'salt://…'?", or "" if no path is similar.

    In a large root, only the named or nearest folder is listed, because a list of files includes
    their hashes and is expensive.
    """
    path = location[len("salt://") :].partition("?")[0]
    folder, _, name = path.rpartition("/")
    folders = context.files.folders(saltenv)
    inside = folder if folder in folders else nearest(folder, folders, _NEAR) if folder else ""
    if inside is None or (not inside and len(folders) > _FEW):
        return ""
    paths = (entry.path for entry in context.files.entries(saltenv, inside))
    near = nearest(f"{inside}/{name}" if inside else name, paths, _NEAR)
    return f"; did you mean 'salt://{near}'?" if near else ""


def _verify(context: Context, source: FileSource, path: Path) -> None:
    """Check the hash of a source, except salt:// ones, which the file server has checked.

    Raises:
        SourceHashError: the hash is another.
    """
    wanted = expected_hash(context, source)
    if wanted is None or source.skip_verify:
        return
    found = hash_file(path, wanted[0])
    if found != wanted[1]:
        raise SourceHashError(_public(source.location), wanted, found)


def first_of(context: Context, sources: List[Any], base: FileSource) -> FileSource:
    """Return the first existing source of a list.

    Each is an address, or {address: hash}.

    Raises:
        CommandExecutionError: no source exists.
    """
    for entry in sources:
        pair: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {str(entry): None}
        for location, digest in pair.items():
            candidate = FileSource(
                str(location),
                base.saltenv,
                str(digest or base.source_hash or ""),
                base.source_hash_name,
                base.skip_verify,
            )
            if _there(context, candidate):
                return candidate
    raise CommandExecutionError("none of the specified sources were found")


def _there(context: Context, source: FileSource) -> bool:
    if source.location.startswith("salt://"):
        path, saltenv = split_location(source.location, source.saltenv)
        return context.files.entry(path, saltenv) is not None
    try:
        return fetch(context, source) is not None
    except (CommandExecutionError, UsageError):
        return False


def mode_of(context: Context, source: FileSource) -> Optional[str]:
    """Return the permission bits of the source file, for `mode: keep`."""
    if source.location.startswith("salt://"):
        path, saltenv = split_location(source.location, source.saltenv)
        entry = context.files.entry(path, saltenv)
        return f"{entry.mode & 0o7777:04o}" if entry else None
    found = fetch(context, source)
    return f"{found.stat().st_mode & 0o7777:04o}" if found else None


def hashes(path: Path) -> Dict[str, str]:
    """Return {"hsum", "hash_type"} of a file, as Salt's get_source_sum shows it."""
    return {"hsum": hash_file(path), "hash_type": "sha256"}
